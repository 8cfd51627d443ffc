//! The wiring of one input by a function or a coroutine of Python.
//!
//! A coroutine is run until it awaits a value. Its calls are then a list of their own; when the
//! value is there, the coroutine goes on with an empty list, whose first values are the carried
//! ones.

use std::mem;

use edbatch::graph::{RecordId, Value};
use edbatch::models::{self, Answer};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arrays;
use crate::call_list::CallList;
use crate::errors::CallError;
use crate::ints::{int, iterable};
use crate::network::Network;
use crate::signals::Stop;

/// The interface by which `build` wires one input: a call list whose values can be awaited.
#[pyclass(extends = CallList, module = "edbatch")]
pub(crate) struct Build {
    /// The number of awaitables that were made and not awaited.
    forgotten: usize,
    /// The number of rounds that have ended.
    round: u32,
}

impl Build {
    /// Creates the interface of one input. `list` is empty.
    pub(crate) fn of<'py>(
        network: &Bound<'py, Network>,
        list: models::CallList,
    ) -> PyResult<Bound<'py, Self>> {
        let base = CallList::of(network.clone().unbind(), list);
        let class = PyClassInitializer::from(base).add_subclass(Self { forgotten: 0, round: 0 });
        Bound::new(network.py(), class)
    }

    /// Ends the wiring: returns the calls since the last await.
    pub(crate) fn end(slf: &Bound<'_, Self>) -> PyResult<models::CallList> {
        if slf.borrow().forgotten > 0 {
            return Err(PyRuntimeError::new_err(
                "a value was fetched and not awaited: declare `async def build`, and write `await \
                 b.fetch(…)`",
            ));
        }
        slf.borrow_mut().as_super().take()
    }

    fn awaitable(
        slf: &Bound<'_, Self>,
        name: &str,
        wanted: Wanted,
        values: &[Bound<'_, PyAny>],
        carried: &Bound<'_, PyTuple>,
    ) -> PyResult<Awaitable> {
        let read = |object: &Bound<'_, PyAny>| {
            let number = int(object, || name.into(), "a value")?;
            let build = slf.try_borrow()?;
            let list: &CallList = build.as_ref();
            list.numbers.value(number, || name.into())
        };
        let values = values.iter().map(read).collect::<PyResult<Vec<Value>>>()?;
        let carried = carried.iter().map(|object| read(&object)).collect::<PyResult<_>>()?;
        let mut this = slf.try_borrow_mut()?;
        this.forgotten += 1;
        let (build, round, state) = (slf.clone().unbind(), this.round, State::New);
        Ok(Awaitable { build, round, wanted, values, carried, state })
    }
}

#[pymethods]
impl Build {
    /// Raises CallError: `edbatch.torch.Layer` gives the rows of a `build`.
    fn slots(&self, record: &Bound<'_, PyAny>, count: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = (record, count);
        let text = "slots: expected a CallList, got a Build, whose rows `packed` gives";
        Err(CallError::new_err(text))
    }

    /// Waits until a value is computed: `array = await b.fetch(v)`, or with values that are used
    /// after it, `array, h = await b.fetch(v, h)`. All other values end. If a value has
    /// several fields, the array holds them in order.
    ///
    /// Raises CallError if a value does not exist.
    #[pyo3(signature = (value, /, *carried))]
    fn fetch(
        slf: &Bound<'_, Self>,
        value: Bound<'_, PyAny>,
        carried: &Bound<'_, PyTuple>,
    ) -> PyResult<Awaitable> {
        Self::awaitable(slf, "fetch", Wanted::Elements, &[value], carried)
    }

    /// Like `fetch`, for the index of the largest element, an int. The elements stay on a device.
    #[pyo3(signature = (value, /, *carried))]
    fn arg_max(
        slf: &Bound<'_, Self>,
        value: Bound<'_, PyAny>,
        carried: &Bound<'_, PyTuple>,
    ) -> PyResult<Awaitable> {
        Self::awaitable(slf, "arg_max", Wanted::ArgMax, &[value], carried)
    }

    /// Like `fetch`, for the elements of each of several values: a list of arrays.
    #[pyo3(signature = (values, /, *carried))]
    fn fetch_each(
        slf: &Bound<'_, Self>,
        values: &Bound<'_, PyAny>,
        carried: &Bound<'_, PyTuple>,
    ) -> PyResult<Awaitable> {
        let values = iterable(values, || "fetch_each".into())?.collect::<PyResult<Vec<_>>>()?;
        Self::awaitable(slf, "fetch_each", Wanted::Each, &values, carried)
    }
}

/// A value that is awaited: what `fetch`, `arg_max` and `fetch_each` return.
#[pyclass(module = "edbatch")]
pub(crate) struct Awaitable {
    build: Py<Build>,
    round: u32,
    wanted: Wanted,
    values: Vec<Value>,
    carried: Vec<Value>,
    state: State,
}

/// The results that are awaited of the values. Only `Each` is for several.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    Elements,
    ArgMax,
    Each,
}

enum State {
    New,
    Awaited,
    Answered(Py<PyAny>),
    Used,
}

#[pymethods]
impl Awaitable {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let mut this = slf.borrow_mut();
        match mem::replace(&mut this.state, State::Used) {
            State::New => {
                let build = this.build.bind(slf.py());
                if build.borrow().round != this.round {
                    return Err(CallError::new_err(
                        "awaits a value from before another await: await it at once, or read \
                         several values by `fetch_each`",
                    ));
                }
                build.borrow_mut().forgotten -= 1;
                this.state = State::Awaited;
                Ok(slf.clone())
            }
            State::Answered(answer) => Err(PyStopIteration::new_err((answer,))),
            State::Awaited | State::Used => Err(PyRuntimeError::new_err(
                "a fetched value can be awaited once: call `fetch` again",
            )),
        }
    }
}

/// A coroutine that wires an input.
pub(crate) struct Task {
    build: Py<Build>,
    coroutine: Py<PyAny>,
    pub(crate) stop: Stop,
}

/// The calls of a round, and the awaited values; none after the last round.
pub(crate) struct Round {
    pub(crate) list: models::CallList,
    pub(crate) awaited: Option<Awaited>,
}

/// The values that a coroutine awaits and carries: values of the round's list.
pub(crate) struct Awaited {
    awaitable: Py<Awaitable>,
    pub(crate) wanted: Wanted,
    pub(crate) values: Vec<Value>,
    pub(crate) carried: Vec<Value>,
    records: Vec<RecordId>,
}

impl Task {
    pub(crate) fn new(build: Bound<'_, Build>, coroutine: Bound<'_, PyAny>, stop: Stop) -> Self {
        Self { build: build.unbind(), coroutine: coroutine.unbind(), stop }
    }

    /// Goes on until the coroutine awaits or ends.
    pub(crate) fn step(&self, py: Python<'_>) -> PyResult<Round> {
        let coroutine = self.coroutine.bind(py);
        let mut sent = coroutine.call_method1(pyo3::intern!(py, "send"), (py.None(),));
        loop {
            let awaited = match sent {
                Ok(awaited) => awaited,
                Err(end) if end.is_instance_of::<PyStopIteration>(py) => {
                    let list = Build::end(self.build.bind(py))?;
                    return Ok(Round { list, awaited: None });
                }
                Err(error) => return Err(error),
            };
            if let Ok(awaitable) = awaited.cast::<Awaitable>()
                && awaitable.borrow().build.is(&self.build)
            {
                return self.wait(awaitable);
            }
            // Raised at the line of the await.
            let error = PyRuntimeError::new_err(
                "`build` awaits something that the engine does not complete, such as a future of \
                 asyncio: await only `fetch`, `fetch_each` and `arg_max` of its own `b`",
            );
            sent = coroutine.call_method1(pyo3::intern!(py, "throw"), (error,));
        }
    }

    /// Ends a round with an awaited value.
    fn wait(&self, awaitable: &Bound<'_, Awaitable>) -> PyResult<Round> {
        let mut build = self.build.bind(awaitable.py()).borrow_mut();
        build.round += 1;
        let list = build.as_super().take()?;
        let mut this = awaitable.borrow_mut();
        let (wanted, values) = (this.wanted, mem::take(&mut this.values));
        let carried = mem::take(&mut this.carried);
        let record = |&value| list.graph().record_of(value).expect("checked when it was named");
        let records = carried.iter().map(record).collect();
        let awaitable = awaitable.clone().unbind();
        Ok(Round { awaited: Some(Awaited { awaitable, wanted, values, carried, records }), list })
    }

    /// Hands the answer to the coroutine, and goes on. `list` is empty.
    pub(crate) fn resume(
        &self,
        py: Python<'_>,
        awaited: &Awaited,
        answer: Answer,
        list: models::CallList,
    ) -> PyResult<Round> {
        let answer = match answer {
            Answer::Elements(elements) => numpy::PyArray1::from_vec(py, elements).into_any(),
            Answer::ArgMax(index) => index.into_pyobject(py)?.into_any(),
            Answer::EachElements(each) => {
                let each = each.iter().map(|elements| arrays::vector(py, elements));
                PyList::new(py, each)?.into_any()
            }
        };
        let mut build = self.build.bind(py).borrow_mut();
        let first = build.as_super().begin(list, &awaited.records);
        drop(build);
        let answer = if awaited.records.is_empty() {
            answer
        } else {
            let carried = (first..).take(awaited.records.len());
            let carried = carried.map(|number| Ok(number.into_pyobject(py)?.into_any()));
            let all = [Ok(answer)].into_iter().chain(carried).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, all)?.into_any()
        };
        awaited.awaitable.bind(py).borrow_mut().state = State::Answered(answer.unbind());
        self.step(py)
    }
}
