//! Trainers: losses, gradients and updates of the weights.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use edbatch::models;
use edbatch::runtime::{StillWanted, try_memory};
use edbatch::{TrainError, TrainerOptions};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::engine::noted;
use crate::errors::{self, CellError};
use crate::inputs::{Run, Wirer};
use crate::mini_batch::{rows_of, targets_of};
use crate::model::{Input, Wired};
use crate::network::Network;
use crate::optimizer::{Group, Optimizer};
use crate::options::policy_of;
use crate::signals::{Signals, Stop};
use crate::weights::Weights;
use crate::{arrays, exclusive};

/// A network with its weights, which it trains on mini-batches.
///
/// Inputs are call lists, or wired by `build`, as for an Engine; but `build` must not await.
/// `train` is a step for a cross-entropy; `forward` and `backward` leave the loss to you.
/// Gradients add up until `update` or `clear_gradients`.
///
/// Options: `optimizer` (`adam()` by default), `rate` (its change by epochs: "step:EVERY:FACTOR",
/// "exponential:FACTOR", "cosine:EPOCHS" or "plateau:FACTOR:PATIENCE"), `warm_up` (a number of
/// updates), `groups` (a Group for each prefix of names), `clip_norm` or `clip_value`,
/// `given_gradients` for `backward`, `seed` of dropout, `dropout=False` to turn it off, and
/// `threads`, `policy`, `memory_limit` and `work` as for an Engine. Training is in f32 alone, on
/// the CPU.
///
/// Raises WeightsError if the weights do not fit the network, and ValueError for invalid options.
#[pyclass(frozen, weakref, module = "edbatch")]
pub(crate) struct Trainer {
    trainer: Mutex<edbatch::Trainer<Wired>>,
    wirer: Wirer,
    threads: usize,
    process: u32,
}

/// The outcome of a step of training.
#[pyclass(frozen, get_all, module = "edbatch")]
pub(crate) struct TrainReport {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs,
    /// before the update.
    loss: f64,
    /// The number of rows with a target.
    terms: u64,
    /// The norm of the gradients of all parameters, before clipping.
    gradient_norm: f64,
    /// The seconds of each part of the step: decide, forward, back, sums, update.
    seconds: BTreeMap<&'static str, f64>,
}

#[pymethods]
impl TrainReport {
    fn __repr__(&self) -> String {
        let Self { loss, terms, gradient_norm, .. } = self;
        format!("<edbatch.TrainReport: loss {loss:.4} of {terms} rows, norm {gradient_norm:.4}>")
    }
}

impl From<edbatch::TrainReport> for TrainReport {
    fn from(report: edbatch::TrainReport) -> Self {
        let edbatch::TrainReport { loss, terms, gradient_norm, times } = report;
        let seconds = [
            ("decide", times.decide),
            ("forward", times.forward),
            ("back", times.back),
            ("sums", times.sums),
            ("update", times.update),
        ];
        let seconds = seconds.map(|(name, time)| (name, time.as_secs_f64())).into();
        Self { loss, terms, gradient_norm, seconds }
    }
}

impl Trainer {
    fn lock(&self) -> PyResult<MutexGuard<'_, edbatch::Trainer<Wired>>> {
        let threads = (self.threads > 1).then_some(self.process);
        exclusive::lock(&self.trainer, threads, "trainer", "build a trainer for each thread")
    }

    /// Wires inputs, and runs a function without the interpreter, until Ctrl-C.
    fn with<R: Send>(
        &self,
        inputs: &Bound<'_, PyAny>,
        run: impl Send + FnOnce(&mut edbatch::Trainer<Wired>, &[Input]) -> Result<R, TrainError>,
    ) -> PyResult<R> {
        let py = inputs.py();
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        let of_inputs = Run::of(trainer.model());
        let wired = self.wirer.wire_all(&of_inputs, inputs)?;
        let done = until_a_signal(py, trainer, |trainer| run(trainer, &wired))?;
        let done = done.map_err(|error| failure(py, &wired, error));
        self.wirer.recycle(wired);
        done
    }
}

/// Runs a function without the interpreter. Fails with the exception of a signal, which ends the
/// trainer's step.
fn until_a_signal<R: Send>(
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

/// Returns the exception that an input raised, with a note, or the text of the error.
fn failure(py: Python<'_>, inputs: &[Input], mut error: TrainError) -> PyErr {
    if let Some(&mut input) = error.input_mut()
        && let Some(raised) = inputs[input].take_error()
    {
        return noted(py, raised, input, inputs.len());
    }
    match error {
        TrainError::Input { input, error } => noted(py, errors::input(error), input, inputs.len()),
        TrainError::Awaits { input } => PyTypeError::new_err(format!(
            "input {input} awaits a computed value, which has no gradient: train with a `build` \
             that awaits nothing"
        )),
        other => plain(other),
    }
}

/// The error of a trainer that is of no input.
fn plain(error: TrainError) -> PyErr {
    match error {
        TrainError::Cell(error) => CellError::new_err(error.to_string()),
        TrainError::Engine(error) => errors::engine(error),
        TrainError::Run(error) => errors::run(error),
        TrainError::Parameters(error) => errors::weights(error),
        TrainError::NothingForward => PyRuntimeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

#[pymethods]
impl Trainer {
    #[new]
    #[pyo3(signature = (
        network, weights, build=None, *, optimizer=None, rate=None, warm_up=0, groups=None,
        clip_norm=None, clip_value=None, given_gradients=false, dropout=true, seed=0, threads=1,
        policy=None, memory_limit=None, work=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        network: &Bound<'_, Network>,
        weights: &Bound<'_, Weights>,
        build: Option<Py<PyAny>>,
        optimizer: Option<&Bound<'_, Optimizer>>,
        rate: Option<&str>,
        warm_up: u64,
        groups: Option<BTreeMap<String, Group>>,
        clip_norm: Option<f64>,
        clip_value: Option<f64>,
        given_gradients: bool,
        dropout: bool,
        seed: u64,
        threads: usize,
        policy: Option<PathBuf>,
        memory_limit: Option<u64>,
        work: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let frozen = network.get().freeze();
        let mut options = TrainerOptions::new().warm_up(warm_up).seed(seed).threads(threads);
        if let Some(optimizer) = optimizer {
            options = options.optimizer(optimizer.get().0);
        }
        if let Some(rate) = rate {
            let invalid = |error| PyValueError::new_err(format!("rate: {error}, got {rate:?}"));
            options = options.rate(rate.parse().map_err(invalid)?);
        }
        for (prefix, Group(group)) in groups.unwrap_or_default() {
            options = options.group(prefix, group);
        }
        options = match (clip_norm, clip_value) {
            (None, None) => options,
            (Some(norm), None) => options.clip_norm(norm),
            (None, Some(value)) => options.clip_value(value),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("expected clip_norm or clip_value, got both"));
            }
        };
        if given_gradients {
            options = options.given_gradients();
        }
        if !dropout {
            options = options.without_dropout();
        }
        let policy = policy_of(policy.as_deref(), &frozen)?;
        let options = policy.into_iter().fold(options, TrainerOptions::policy);
        let options = memory_limit.into_iter().fold(options, TrainerOptions::memory_limit);
        let parameters = weights.get().for_network(&frozen)?;
        let model = Wired { empty: Arc::new(models::CallList::new(frozen)), zoo: None };
        let trainer = edbatch::Trainer::with_options(model, parameters, options).map_err(plain)?;
        let network = network.clone().unbind();
        let wirer = Wirer { network, build, work, folder: None, pool: Mutex::default() };
        let process = std::process::id();
        Ok(Self { trainer: Mutex::new(trainer), wirer, threads, process })
    }

    /// Computes the mean loss of a mini-batch and its gradients, and updates the parameters.
    /// `targets` has for each input an array of integers: a class for each emitted row, or -1 for
    /// none. The loss of a row is its cross-entropy, from scores before a softmax.
    ///
    /// Raises the exception of the first input that fails, with the note "input 3 of 64", and
    /// ValueError if targets do not fit, or if the loss or a gradient is not finite. Ctrl-C raises
    /// KeyboardInterrupt in the middle of a step. In all cases no parameter has changed, and all
    /// gradients are cleared.
    #[pyo3(signature = (inputs, targets, /))]
    fn train(
        &self,
        inputs: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
    ) -> PyResult<TrainReport> {
        let targets = targets_of(targets)?;
        let report = self.with(inputs, |trainer, inputs| trainer.train(inputs, &targets))?;
        Ok(report.into())
    }

    /// Adds the gradients of `weight` times the sum of all cross-entropies to the gradients of
    /// parameters. Returns this loss, and the number of rows with a target.
    ///
    /// Raises like `train`; all gradients are cleared then.
    #[pyo3(signature = (inputs, targets, /, weight=1.0))]
    fn accumulate(
        &self,
        inputs: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        weight: f32,
    ) -> PyResult<(f64, u64)> {
        let targets = targets_of(targets)?;
        let loss =
            self.with(inputs, |trainer, inputs| trainer.accumulate(inputs, &targets, weight))?;
        Ok((loss.loss, loss.terms))
    }

    /// Updates the parameters by their gradients, and clears these. Returns the norm of all
    /// gradients, before clipping.
    ///
    /// Raises ValueError if a gradient is not finite. Then no parameter has changed.
    fn update(&self, py: Python<'_>) -> PyResult<f64> {
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        py.detach(|| trainer.update()).map_err(plain)
    }

    /// Runs inputs, and keeps their values for `backward`. Returns what `Engine.run` returns. A
    /// second `forward` forgets the first. Raises KeyboardInterrupt on Ctrl-C, like `train`;
    /// gradients stay as they are.
    #[pyo3(signature = (inputs, /))]
    fn forward<'py>(&self, inputs: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let outputs = self.with(inputs, |trainer, inputs| trainer.forward(inputs))?;
        outputs.into_iter().map(|rows| arrays::of_rows(inputs.py(), rows)).collect()
    }

    /// Adds the gradients of a loss to the gradients of parameters. `gradients` has an array for
    /// each array that `forward` returned, of the same shape. With `given_gradients=True`, returns
    /// for each input the gradients of the values that it gave, in order, as `forward` returns
    /// emitted ones.
    ///
    /// Raises RuntimeError without a `forward`, ValueError if a shape is another, and
    /// KeyboardInterrupt on Ctrl-C. All gradients are cleared then.
    #[pyo3(signature = (gradients, /))]
    fn backward<'py>(&self, gradients: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = gradients.py();
        let gradients = rows_of(gradients)?;
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
        let given = until_a_signal(py, trainer, |trainer| trainer.backward(&gradients))?;
        let given = given.map_err(plain)?;
        given.into_iter().map(|rows| arrays::of_rows(py, rows)).collect()
    }

    /// The gradients of all parameters by name, in their shapes: sums since they were cleared.
    /// Frozen parameters have zeros.
    ///
    /// Raises ValueError if one is not finite.
    fn gradients<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut trainer = self.lock()?;
        let gradients = trainer.gradients().map_err(plain)?;
        let (all, network) = (PyDict::new(py), self.wirer.network.get().freeze());
        let elements = network.parameters().iter().map(|parameter| parameter.elements());
        let bytes = elements.sum::<usize>() * size_of::<f32>();
        try_memory(bytes, "the gradients").map_err(errors::backend)?;
        for (parameter, values) in network.parameters().iter().zip(gradients.to_dense(&network)) {
            all.set_item(&parameter.name, arrays::shaped(py, values, &parameter.dims))?;
        }
        Ok(all)
    }

    /// Sets the gradients of parameters to zero.
    fn clear_gradients(&self) -> PyResult<()> {
        self.lock()?.clear_gradients();
        Ok(())
    }

    /// Returns a copy of the parameters, as Weights.
    fn parameters(&self) -> PyResult<Weights> {
        let network = self.wirer.network.get().freeze();
        Weights::of_network(&network, &self.lock()?.parameters())
    }

    /// Replaces the parameters. Moments of the optimizer and the number of updates stay.
    ///
    /// Raises WeightsError if they do not fit the network. Then nothing has changed.
    #[pyo3(signature = (weights, /))]
    fn set_parameters(&self, weights: &Bound<'_, Weights>) -> PyResult<()> {
        let parameters = weights.get().for_network(&self.wirer.network.get().freeze())?;
        self.lock()?.set_parameters(&parameters).map_err(plain)
    }

    /// Returns all that later steps depend on, as bytes: the parameters, the moments of the
    /// optimizer, the number of updates and the epochs of the rate.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.lock()?.state().map_err(plain)?))
    }

    /// Continues from a state of a trainer with the same network and optimizer, bit by bit.
    ///
    /// Raises ValueError if it is of another trainer. Then nothing has changed.
    #[pyo3(signature = (state, /))]
    fn set_state(&self, state: &[u8]) -> PyResult<()> {
        self.lock()?.set_state(state).map_err(plain)
    }

    /// Writes the parameters to a safetensors file.
    #[pyo3(signature = (path, /))]
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.parameters()?.save(path)
    }

    /// Ends an epoch, so that the learning rate follows `rate`. Only "plateau" reads the loss.
    #[pyo3(signature = (loss=0.0, /))]
    fn end_epoch(&self, loss: f64) -> PyResult<()> {
        self.lock()?.end_epoch(loss);
        Ok(())
    }

    /// The learning rate of the next update, for parameters without a group.
    #[getter]
    fn learning_rate(&self) -> PyResult<f64> {
        Ok(self.lock()?.learning_rate())
    }

    /// The number of updates so far.
    #[getter]
    fn updates(&self) -> PyResult<u64> {
        Ok(self.lock()?.updates())
    }

    /// Sets the number of updates. Dropout and the warm-up depend on it. For optimizers of your
    /// own, which update by `set_parameters`.
    #[pyo3(signature = (updates, /))]
    fn set_updates(&self, updates: u64) -> PyResult<()> {
        self.lock()?.set_updates(updates);
        Ok(())
    }

    fn __repr__(&self) -> PyResult<String> {
        let cells = self.wirer.network.get().with(|network| network.kind_names().join(", "));
        Ok(format!("<edbatch.Trainer: cells {cells}; {} updates>", self.updates()?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.wirer.network)?;
        visit.call(&self.wirer.build)?;
        visit.call(&self.wirer.work)
    }
}
