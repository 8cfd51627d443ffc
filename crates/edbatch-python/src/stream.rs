//! A stream of inputs: an iterator of Python is asked for an input when another has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch::{InputError, Rows};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::inputs::{Run, Wirer, each};
use crate::model::Input;
use crate::{arrays, errors};

/// The inputs and the results of a stream.
pub(crate) struct Stream<'e> {
    wirer: &'e Wirer,
    run: Run,
    inputs: Py<PyIterator>,
    done: Py<PyAny>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of inputs that have begun.
    begun: usize,
    /// The inputs that run, by number.
    running: HashMap<usize, Arc<Input>>,
    /// The exception of the iterator, of `done` or of a signal.
    error: Option<PyErr>,
}

impl<'e> Stream<'e> {
    pub(crate) fn new(
        wirer: &'e Wirer,
        run: Run,
        inputs: &Bound<'_, PyAny>,
        done: Py<PyAny>,
    ) -> PyResult<Self> {
        let inputs = each(inputs)?.unbind();
        Ok(Self { wirer, run, inputs, done, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the stream: no further input begins, and no coroutine goes on.
    fn fail(&self, error: PyErr) {
        self.state().error.get_or_insert(error);
        self.run.stop.set();
    }

    /// The inputs. Ends early after an error.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Arc<Input>> + '_ {
        std::iter::from_fn(|| match self.run.stop.is_set() {
            true => None,
            false => Python::attach(|py| self.next(py)).unwrap_or_else(|error| {
                self.fail(error);
                None
            }),
        })
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Arc<Input>>> {
        py.check_signals()?;
        let Some(object) = self.inputs.bind(py).clone().next() else { return Ok(None) };
        let input = Arc::new(self.wirer.wire(&self.run, &object?)?);
        let mut state = self.state();
        let number = state.begun;
        state.begun += 1;
        state.running.insert(number, input.clone());
        Ok(Some(input))
    }

    /// Hands the result of an input to `done`.
    pub(crate) fn done(&self, number: usize, rows: Result<&mut Rows, InputError>) {
        let input = self.state().running.remove(&number);
        let called = Python::attach(|py| {
            let result = match rows {
                Ok(rows) => arrays::of_rows(py, std::mem::take(rows))?,
                Err(error) => {
                    let raised = input.as_ref().and_then(|input| input.take_error());
                    let error = raised.unwrap_or_else(|| errors::input(error));
                    if crate::model::ends_run(py, &error) {
                        return Err(error);
                    }
                    error.into_value(py).into_bound(py).into_any()
                }
            };
            // After an error, `done` is not called again.
            match self.run.stop.is_set() {
                true => Ok(()),
                false => self.done.call1(py, (number, result)).map(drop),
            }
        });
        if let Err(error) = called {
            self.fail(error);
        }
    }

    /// Fails with the exception that ended the stream.
    pub(crate) fn raised(self) -> PyResult<()> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(()), Err)
    }
}
