//! Runs trainers without the interpreter.

use std::collections::VecDeque;
use std::iter;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch::TrainError;
use edbatch::models::Targets;
use edbatch::runtime::StillWanted;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::Trainer;
use crate::inputs::Run;
use crate::mini_batch::targets_of;
use crate::model::{Input, Wired};
use crate::signals::{Signals, Stop};
use crate::train_outcome::{TrainReport, failure};

/// Runs a function without the interpreter. Fails with the exception of a signal, which ends the
/// trainer's step.
pub(super) fn until_a_signal<R: Send>(
    py: Python<'_>,
    trainer: &mut edbatch::Trainer<Wired>,
    run: impl Send + FnOnce(&mut edbatch::Trainer<Wired>) -> Result<R, TrainError>,
) -> PyResult<Result<R, TrainError>> {
    let signals = Arc::new(Signals::new(Stop::default()));
    let asked = signals.clone();
    trainer.set_still_wanted(Some(StillWanted::new(move || asked.go_on())));
    let done = py.detach(|| run(trainer));
    signals.raised()?;
    Ok(done)
}

/// The inputs and targets of a mini-batch.
type MiniBatch = (Arc<[Input]>, Vec<Targets>);

/// Trains on pairs of inputs and targets, which are read and wired on the calling thread.
pub(super) fn train_each(
    of: &Trainer,
    mini_batches: &Bound<'_, PyAny>,
    each: Option<&Py<PyAny>>,
) -> PyResult<Vec<TrainReport>> {
    let py = mini_batches.py();
    let mut trainer = of.lock()?;
    let model = trainer.model().clone();
    let iterator = mini_batches.try_iter()?.unbind();
    let (raised, begun) = (Mutex::new(None), Mutex::new(VecDeque::new()));
    let next = |py: Python<'_>| -> PyResult<Option<MiniBatch>> {
        let Some(pair) = iterator.bind(py).clone().next() else { return Ok(None) };
        let (inputs, targets): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        let targets = targets_of(&targets)?;
        let inputs: Arc<[Input]> = of.wirer.wire_all(&Run::of(&model, None), &inputs)?.into();
        locked(&begun).push_back(inputs.clone());
        Ok(Some((inputs, targets)))
    };
    let or_raise = |error| *locked(&raised) = Some(error);
    let batches = iter::from_fn(|| {
        let read = Python::attach(next);
        read.unwrap_or_else(|error| {
            or_raise(error);
            None
        })
    });
    let mut reports = Vec::new();
    let done = until_a_signal(py, &mut trainer, |trainer| {
        trainer.train_each(batches, |report| {
            locked(&begun).pop_front();
            reports.push(TrainReport::from(report));
            let Some(each) = each else { return ControlFlow::Continue(()) };
            let goes_on = Python::attach(|py| {
                let returned = each.call1(py, (TrainReport::from(report),))?;
                Ok(!returned.bind(py).is(PyBool::new(py, false)))
            });
            match goes_on {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(error) => {
                    or_raise(error);
                    ControlFlow::Break(())
                }
            }
        })
    })?;
    if let Err(error) = done {
        let failed = locked(&begun).pop_front();
        return Err(failure(py, failed.as_deref().unwrap_or_default(), error));
    }
    let raised = locked(&raised).take();
    raised.map_or(Ok(reports), Err)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
