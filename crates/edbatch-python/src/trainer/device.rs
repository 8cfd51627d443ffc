//! Steps of a trainer in memory of tensors on its device, for `edbatch.torch`. All tensors are
//! capsules of DLPack.

use std::sync::PoisonError;

use edbatch::Rows;
use edbatch::layout::TrainingPlan;
use edbatch::runtime::{BackendError, Borrowing, Given, GivenPlace};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Trainer, plain};
use crate::borrowed::{self, Capsule};
use crate::errors;
use crate::model::Wired;
use crate::packed::{self, Arguments, Packed};

/// Runs a function of the device, and of the decided plan and its given values, without the
/// interpreter.
fn enqueue<R, F>((py, of): (Python<'_>, &Trainer), run: F) -> PyResult<R>
where
    R: Send,
    F: Send + FnOnce(&mut dyn Borrowing, &TrainingPlan, Given<'_>) -> Result<R, BackendError>,
{
    let mut trainer = of.lock()?;
    let trainer: &mut edbatch::Trainer<Wired> = &mut trainer;
    let places = of.places.lock().unwrap_or_else(PoisonError::into_inner);
    let places: &[GivenPlace] = &places;
    let done = py.detach(|| {
        let (device, plan, host) = trainer.decided()?;
        Ok(run(device, plan, Given { initial: &Rows::new(), places, host }))
    });
    done.map_err(plain)?.map_err(errors::backend)
}

/// Decides a run whose rows are in tensors of these sizes. Returns the number of elements of all
/// outputs, the offsets of inputs, and the widths of rows.
#[pyfunction(name = "_decide")]
pub(crate) fn decide<'py>(
    of: &Bound<'py, Trainer>,
    inputs: &Bound<'py, PyAny>,
    given: Arguments<'py, usize>,
) -> PyResult<Bound<'py, PyTuple>> {
    let of = of.get();
    let (ends, places) =
        of.with(inputs, Some(packed::Given::borrowed(given)), |trainer, inputs| {
            let of_inputs = inputs.iter().filter_map(|input| input.given.as_ref());
            let places = of_inputs.flat_map(|given| given.borrowed.iter().copied());
            Ok((trainer.decide(inputs)?, places.collect()))
        })?;
    *of.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
    let elements: usize = ends.iter().filter_map(|ends| ends.last()).sum();
    let [offsets, widths] = Packed::shapes(inputs.py(), &ends);
    (elements, offsets, widths).into_pyobject(inputs.py())
}

/// Replaces the parameters by tensors, in the order of a stream.
#[pyfunction(name = "_adopt")]
pub(crate) fn adopt(
    of: &Bound<'_, Trainer>,
    stream: u64,
    parameters: Vec<Capsule<'_>>,
) -> PyResult<()> {
    let parameters = borrowed::all(&parameters)?;
    enqueue((of.py(), of.get()), |device, _, _| device.adopt(stream, &parameters))
}

/// Runs the decided run, and writes all outputs to a tensor.
#[pyfunction(name = "_forward_into")]
pub(crate) fn forward_into(
    of: &Bound<'_, Trainer>,
    stream: u64,
    given: Vec<Capsule<'_>>,
    rows: Capsule<'_>,
) -> PyResult<()> {
    let (given, rows) = (borrowed::all(&given)?, rows.borrowed()?);
    enqueue((of.py(), of.get()), |device, plan, all| {
        device.forward_into(stream, plan, all, &given, rows)
    })
}

/// Returns for each parameter the rows of its gradient, or None for all.
#[pyfunction(name = "_gradient_rows")]
pub(crate) fn gradient_rows<'py>(
    of: &Bound<'py, Trainer>,
) -> PyResult<Vec<Option<Bound<'py, PyArray1<u32>>>>> {
    let all = enqueue((of.py(), of.get()), |device, plan, _| device.gradient_rows(plan))?;
    Ok(all.into_iter().map(|rows| Some(PyArray1::from_vec(of.py(), rows?))).collect())
}

/// Writes the gradients of given rows and of parameters, or of these rows of them, to tensors.
#[pyfunction(name = "_backward_from")]
pub(crate) fn backward_from(
    of: &Bound<'_, Trainer>,
    stream: u64,
    rows: Capsule<'_>,
    given: Vec<Capsule<'_>>,
    parameters: Vec<Capsule<'_>>,
) -> PyResult<()> {
    let rows = rows.borrowed()?;
    let (given, parameters) = (borrowed::all(&given)?, borrowed::all(&parameters)?);
    enqueue((of.py(), of.get()), |device, plan, all| {
        device.backward_from(stream, plan, all, rows, &given, &parameters)
    })
}
