//! The Rust model of all networks of Python: its inputs are call lists, wired before the run, and
//! coroutines, which go on when their values are there.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use edbatch::graph::{Appended, CallError, Network, Value};
use edbatch::models::{self, Answer, Build, BuildError, CallList, Model, Zoo, ZooInput};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::build::{Awaited, Round, Task, Wanted};
use crate::packed::{Place, Placed};

/// The model of an engine: a network, or a model of the zoo.
#[derive(Clone)]
pub(crate) struct Wired {
    /// An empty list of the network. Clones of it share the signatures of the cells.
    pub(crate) empty: Arc<models::CallList>,
    pub(crate) zoo: Option<Arc<Zoo>>,
}

/// An input of a run.
pub(crate) struct Input {
    pub(crate) wiring: Wiring,
    /// The given rows of the run, and the places of its slots' rows.
    pub(crate) given: Option<Placed>,
    /// The relative cost.
    pub(crate) work: usize,
    /// The exception that the input raised, with its traceback.
    pub(crate) error: Mutex<Option<PyErr>>,
}

pub(crate) enum Wiring {
    /// A list that was wired for this run.
    Built(models::CallList),
    /// A list that is kept.
    Kept(Arc<models::CallList>),
    /// A coroutine, and its first round until it runs.
    Coroutine(Task, Mutex<Option<Round>>),
    /// An input of the zoo.
    Zoo(ZooInput),
    /// An input that failed when it was wired.
    Failed,
}

impl Input {
    pub(crate) fn new(wiring: Wiring, work: usize) -> Self {
        Self { wiring, given: None, work, error: Mutex::new(None) }
    }

    pub(crate) fn failed(error: PyErr) -> Self {
        Self { error: Mutex::new(Some(error)), ..Self::new(Wiring::Failed, 1) }
    }

    /// Makes the calls of its list, with the rows of the list's slots.
    fn append<'a>(
        &'a self,
        list: &'a CallList,
        build: &Build<'_>,
    ) -> Result<Appended<'static>, CallError> {
        match &self.given {
            Some(Placed { rows, .. }) if rows.is_empty() => list.append_without_rows(build),
            Some(Placed { rows, places, .. }) => {
                let of_place = |at: &'a Place| &rows[at.array][at.first..][..at.count];
                list.append_with_rows(build, places.iter().map(of_place))
            }
            None => list.append_to(build, &[]),
        }
    }

    /// Takes the exception that the input raised.
    pub(crate) fn take_error(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn fail(&self, error: PyErr) -> BuildError {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        raised()
    }
}

/// The error of an input that raised an exception, which is in the input.
fn raised() -> BuildError {
    BuildError::Input("an exception of Python".into())
}

/// Returns true for exceptions that end the whole run: KeyboardInterrupt, SystemExit.
pub(crate) fn ends_run(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
}

impl Wired {
    /// Runs the rounds of a coroutine.
    async fn rounds(
        &self,
        build: &Build<'_>,
        input: &Input,
        task: &Task,
        mut round: Round,
    ) -> Result<(), BuildError> {
        let mut carried: Vec<Value> = Vec::new();
        let mut first = true;
        loop {
            // The rows of an input are given before its first await.
            let appended = match mem::take(&mut first) {
                true => input.append(&round.list, build)?,
                false => round.list.append_to(build, &carried)?,
            };
            let Some(awaited) = round.awaited else { return Ok(()) };
            let [values, kept] = [&awaited.values, &awaited.carried].map(|values| {
                values.iter().map(|&value| appended.value(value)).collect::<Vec<Value>>()
            });
            let (answer, next) = match awaited.wanted {
                Wanted::Elements => {
                    let (elements, next) = build.fetch_vec(values[0], &kept).await;
                    (Answer::Elements(elements), next)
                }
                Wanted::ArgMax => {
                    let (index, next) = build.arg_max_vec(values[0], &kept).await;
                    (Answer::ArgMax(index), next)
                }
                Wanted::Each => {
                    let (each, next) = build.fetch_each_vec(&values, &kept).await;
                    (Answer::EachElements(each), next)
                }
            };
            if task.stop.is_set() {
                return Err(raised());
            }
            carried = next;
            round = self.resume(task, &awaited, answer).map_err(|error| input.fail(error))?;
        }
    }

    fn resume(&self, task: &Task, awaited: &Awaited, answer: Answer) -> PyResult<Round> {
        Python::attach(|py| {
            let resumed = task.resume(py, awaited, answer, (*self.empty).clone());
            if resumed.as_ref().is_err_and(|error| ends_run(py, error)) {
                task.stop.set();
            }
            resumed
        })
    }
}

impl Model for Wired {
    type Input = Input;

    fn network(&self) -> &Arc<Network> {
        match &self.zoo {
            Some(zoo) => zoo.network(),
            None => self.empty.network(),
        }
    }

    fn work(&self, input: &Input) -> usize {
        input.work
    }

    fn bytes(&self, input: &Input) -> usize {
        match (&self.zoo, &input.wiring) {
            (Some(zoo), Wiring::Zoo(input)) => zoo.bytes(input),
            _ => 0,
        }
    }

    async fn build(&self, build: &Build<'_>, input: &Input) -> Result<(), BuildError> {
        match &input.wiring {
            Wiring::Built(list) => input.append(list, build).map(drop)?,
            Wiring::Kept(list) => input.append(list, build).map(drop)?,
            Wiring::Coroutine(task, first) => {
                let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                let first = first.expect("a coroutine runs once");
                return self.rounds(build, input, task, first).await;
            }
            Wiring::Zoo(line) => {
                let zoo = self.zoo.as_ref().expect("only a zoo has such inputs");
                return zoo.build(build, line).await;
            }
            Wiring::Failed => return Err(raised()),
        }
        Ok(())
    }
}
