//! The inputs of an engine: wired one by one by Python before they run together.

use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use edbatch::graph::Dag;
use edbatch::models::{self, Folder, IndexedTree, ZooInput};
use edbatch::runtime::try_memory;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString, PyTuple};

use crate::build::{Build, Task};
use crate::call_list::CallList;
use crate::errors::{self, CallError, FileError};
use crate::model::{Input, Wired, Wiring, ends_run};
use crate::network::Network;
use crate::operand::type_name;
use crate::packed::Given;
use crate::signals::Stop;

/// The way from a Python object to an input.
pub(crate) struct Wirer {
    pub(crate) network: Py<Network>,
    pub(crate) build: Option<Py<PyAny>>,
    /// Returns the relative cost of an input.
    pub(crate) work: Option<Py<PyAny>>,
    /// The folder whose lines are the inputs.
    pub(crate) folder: Option<Folder>,
    /// Empty lists with the memory of an earlier run.
    pub(crate) pool: Mutex<Vec<models::CallList>>,
}

/// A run of an engine, while its inputs are wired.
pub(crate) struct Run {
    empty: Arc<models::CallList>,
    pub(crate) stop: Stop,
    given: Option<Given>,
    /// The number of inputs so far.
    inputs: AtomicU32,
}

impl Run {
    /// `given` are the rows of all inputs.
    pub(crate) fn of(model: &Wired, given: Option<Given>) -> Self {
        let (stop, inputs) = (Stop::default(), AtomicU32::new(0));
        Self { empty: model.empty.clone(), stop, given, inputs }
    }
}

impl Wirer {
    pub(crate) fn fork(&self, py: Python<'_>) -> Self {
        Self {
            network: self.network.clone_ref(py),
            build: self.build.as_ref().map(|build| build.clone_ref(py)),
            work: self.work.as_ref().map(|work| work.clone_ref(py)),
            folder: self.folder.clone(),
            pool: Mutex::default(),
        }
    }

    /// Wires all inputs of a run.
    ///
    /// # Errors
    /// Like [`wire`](Self::wire), and if the object is no list of inputs.
    pub(crate) fn wire_all(&self, run: &Run, inputs: &Bound<'_, PyAny>) -> PyResult<Vec<Input>> {
        let mut wired = Vec::new();
        for input in each(inputs)? {
            // The engine needs about as much for each input, and cannot report a failed allocation.
            if wired.len() == wired.capacity() {
                try_memory((2 * wired.len() + 4) * PER_INPUT, "inputs").map_err(errors::backend)?;
            }
            wired.push(self.wire(run, &input?)?);
        }
        try_memory(wired.len() * PER_INPUT, "inputs").map_err(errors::backend)?;
        let failed = wired.iter().any(|input| matches!(input.wiring, Wiring::Failed));
        run.given.as_ref().filter(|_| !failed).map_or(Ok(()), Given::finish)?;
        Ok(wired)
    }

    /// Wires an input. An input that raises has failed.
    ///
    /// # Errors
    /// If it raises something that ends the run, such as KeyboardInterrupt.
    pub(crate) fn wire(&self, run: &Run, object: &Bound<'_, PyAny>) -> PyResult<Input> {
        let wired =
            self.try_wire(run, object).or_else(|error| match ends_run(object.py(), &error) {
                true => Err(error),
                false => Ok(Input::failed(error)),
            });
        let mut input = wired?;
        if let Some(work) = &self.work {
            match work.bind(object.py()).call1((object,)).and_then(|work| work.extract::<f64>()) {
                Ok(work) => input.work = work as usize,
                Err(error) => return Ok(Input::failed(error)),
            }
        }
        Ok(input)
    }

    fn try_wire(&self, run: &Run, object: &Bound<'_, PyAny>) -> PyResult<Input> {
        let number = run.inputs.fetch_add(1, Ordering::Relaxed);
        let given = run.given.as_ref().map(|given| (given, number as usize));
        if let Ok(list) = object.cast::<CallList>() {
            return self.kept(list, given);
        }
        match (&self.build, &self.folder) {
            (Some(build), _) => self.built(run, build.bind(object.py()), object, given),
            (None, Some(folder)) => line(folder, number, object),
            (None, None) => Err(PyTypeError::new_err(format!(
                "expected a CallList, got {}: inputs of your own need a function that wires them, \
                 the argument `build` of Engine or Trainer",
                type_name(object)
            ))),
        }
    }

    fn kept(&self, list: &Bound<'_, CallList>, given: InputRows<'_>) -> PyResult<Input> {
        let mut list = list.borrow_mut();
        let network = &list.numbers.network;
        if !network.is(&self.network) && !network.get().is(self.network.get()) {
            return Err(CallError::new_err(
                "expected a call list of the engine's network, got one of another",
            ));
        }
        let list = list.share()?;
        if given.is_none() {
            let missing = list.without_slots();
            missing.map_err(|error| CallError::new_err(error.reason.to_string()))?;
        }
        let rows = given.map(|(given, input)| given.places(&list, input)).transpose()?;
        let calls = list.graph().nodes();
        Ok(Input { given: rows, ..Input::new(Wiring::Kept(list), calls) })
    }

    fn built(
        &self,
        run: &Run,
        build: &Bound<'_, PyAny>,
        object: &Bound<'_, PyAny>,
        given: InputRows<'_>,
    ) -> PyResult<Input> {
        let py = object.py();
        let pooled = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut list = pooled.unwrap_or_else(|| (*run.empty).clone());
        let values = given.map(|(given, input)| given.add_to(py, &mut list, input));
        let b = Build::of(self.network.bind(py), list)?;
        let returned = match values.transpose()? {
            None => build.call1((&b, object))?,
            Some(values) => {
                let mut arguments = vec![b.as_any().clone(), object.clone()];
                arguments.extend(values);
                build.call1(PyTuple::new(py, arguments)?)?
            }
        };
        if !returned.is_none() && returned.hasattr("send")? {
            let task = Task::new(b, returned, run.stop.clone());
            let first = task.step(object.py())?;
            let calls = first.list.graph().nodes();
            let rows = given.map(|(given, input)| given.places(&first.list, input)).transpose()?;
            let wiring = Wiring::Coroutine(task, Mutex::new(Some(first)));
            return Ok(Input { given: rows, ..Input::new(wiring, calls) });
        }
        let list = Build::end(&b)?;
        if list.emitted().is_empty() && !returned.is_none() {
            return Err(PyTypeError::new_err(format!(
                "`build` emitted nothing, and returned {}: call `b.emit(value)` for each output",
                type_name(&returned)
            )));
        }
        let rows = given.map(|(given, input)| given.places(&list, input)).transpose()?;
        let calls = list.graph().nodes();
        Ok(Input { given: rows, ..Input::new(Wiring::Built(list), calls) })
    }

    /// Keeps the memory of lists that were wired for a run.
    pub(crate) fn recycle(&self, inputs: Vec<Input>) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.clear();
        pool.extend(inputs.into_iter().filter_map(|input| match input.wiring {
            Wiring::Built(mut list) => {
                list.clear();
                Some(list)
            }
            _ => None,
        }));
    }
}

/// The given rows of a run, and the index of the input.
type InputRows<'a> = Option<(&'a Given, usize)>;

/// The bytes that an engine may need for an input, besides its calls.
const PER_INPUT: usize = 512;

/// Iterates over a list of inputs. A text is one line, not a list of letters.
pub(crate) fn each<'py>(inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let text = inputs.is_instance_of::<PyString>() || inputs.is_instance_of::<PyBytes>();
    inputs.try_iter().ok().filter(|_| !text).ok_or_else(|| {
        let advice = if text { ": pass [line] for one line" } else { "" };
        let got = type_name(inputs);
        PyTypeError::new_err(format!("inputs: expected a list of inputs, got {got}{advice}"))
    })
}

/// Reads an input from a line of text, as the folder's reader takes it. One model depends on the
/// number of the line.
fn line(folder: &Folder, number: u32, object: &Bound<'_, PyAny>) -> PyResult<Input> {
    let mut text: String = object.extract().map_err(|error| match object.cast::<PyString>() {
        Ok(_) => FileError::new_err(format!("expected a line of valid Unicode: {error}")),
        Err(_) => PyTypeError::new_err(format!(
            "expected a line of text, as in {}, got {}",
            folder.input().display(),
            type_name(object)
        )),
    })?;
    if text.is_empty() {
        // Only its end makes an empty line a line.
        text.push('\n');
    }
    let reader = Box::new(Cursor::new(text.into_bytes()));
    let mut inputs = folder.inputs_from(reader, Path::new("line"));
    let input = inputs.next().ok_or_else(|| FileError::new_err("expected a line, got none"))?;
    let input = input.map_err(|error| FileError::new_err(error.to_string()))?;
    if inputs.next().is_some() {
        return Err(FileError::new_err("expected one line for each input, got several"));
    }
    Ok(match input {
        ZooInput::CallList(list) => {
            let calls = list.graph().nodes();
            Input::new(Wiring::Built(list), calls)
        }
        ZooInput::Tree(tree) => {
            Input::new(Wiring::Zoo(ZooInput::Tree(IndexedTree { index: number, ..tree })), 1)
        }
        input => Input::new(Wiring::Zoo(input), 1),
    })
}
