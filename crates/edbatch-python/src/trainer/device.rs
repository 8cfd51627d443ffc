//! Steps of a trainer in memory of tensors on its device, for `edbatch.torch`.

use std::sync::PoisonError;

use edbatch::TrainError;
use edbatch::runtime::GivenPlace;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{Trainer, plain};
use crate::borrowed::{self, Capsule};
use crate::packed::{Arguments, Given, Packed};

/// See `Trainer::decide` of Rust.
pub(super) fn decide<'py>(
    of: &Trainer,
    inputs: &Bound<'py, PyAny>,
    given: Arguments<'py, usize>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (ends, places) = of.with(inputs, Some(Given::borrowed(given)), |trainer, inputs| {
        let of_inputs = inputs.iter().filter_map(|input| input.given.as_ref());
        let places = of_inputs.flat_map(|given| given.borrowed.iter().copied());
        Ok((trainer.decide(inputs)?, places.collect()))
    })?;
    *of.places.lock().unwrap_or_else(PoisonError::into_inner) = places;
    let elements: usize = ends.iter().filter_map(|ends| ends.last()).sum();
    let [offsets, widths] = Packed::shapes(inputs.py(), &ends);
    (elements, offsets, widths).into_pyobject(inputs.py())
}

impl Trainer {
    /// Runs a function without the interpreter.
    fn enqueue<R: Send>(
        &self,
        py: Python<'_>,
        run: impl Send
        + FnOnce(
            &mut edbatch::Trainer<crate::model::Wired>,
            &[GivenPlace],
        ) -> Result<R, TrainError>,
    ) -> PyResult<R> {
        let mut trainer = self.lock()?;
        let trainer: &mut edbatch::Trainer<_> = &mut trainer;
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let places: &[GivenPlace] = &places;
        py.detach(|| run(trainer, places)).map_err(plain)
    }

    pub(super) fn adopt(
        &self,
        py: Python<'_>,
        stream: u64,
        parameters: &[Capsule<'_>],
    ) -> PyResult<()> {
        let parameters = borrowed::all(parameters)?;
        self.enqueue(py, |trainer, _| trainer.adopt(stream, &parameters))
    }

    pub(super) fn forward_into(
        &self,
        py: Python<'_>,
        stream: u64,
        given: &[Capsule<'_>],
        rows: &Capsule<'_>,
    ) -> PyResult<()> {
        let (given, rows) = (borrowed::all(given)?, rows.borrowed()?);
        self.enqueue(py, |trainer, places| trainer.forward_into(stream, places, &given, rows))
    }

    pub(super) fn gradient_rows<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<Option<Bound<'py, PyArray1<u32>>>>> {
        let all = self.enqueue(py, |trainer, _| trainer.gradient_rows())?;
        let array = |rows| PyArray1::from_vec(py, rows);
        Ok(all.into_iter().map(|rows| rows.map(array)).collect())
    }

    pub(super) fn backward_from(
        &self,
        py: Python<'_>,
        stream: u64,
        rows: &Capsule<'_>,
        given: &[Capsule<'_>],
        parameters: &[Capsule<'_>],
    ) -> PyResult<()> {
        let rows = rows.borrowed()?;
        let (given, parameters) = (borrowed::all(given)?, borrowed::all(parameters)?);
        self.enqueue(py, |trainer, _| trainer.backward_from(stream, rows, &given, &parameters))
    }
}
