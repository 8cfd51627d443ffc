//! Sessions: values that outlive a run. Arguments are read before the session is locked, because
//! reading may run code of Python, which may use the same session.

mod calls;
mod statistics;

use std::sync::{Mutex, MutexGuard};

use edbatch::{Handle, SessionOptions};
use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays;
use crate::call_list::operands::{self, Operand, as_ints, check_count};
use crate::cell::Cell;
use crate::engine::Engine;
use crate::errors::{self, CallError};
use crate::exclusive::{self, Processes};
use crate::from_arrays::Given;
use crate::ints::{int, ready};
use crate::network::Network;
use crate::record::Record;
use calls::{Calls, call_error};
pub(crate) use statistics::SessionStatistics;

/// Values that outlive a run, on the weights of an engine, with its threads, precision, policy and
/// device.
///
/// Calls and given values are pending until `run`, which computes all of them together. After that
/// they are stored until they are released, and later calls may read them. A value is an int, its
/// handle, which no other value of the session ever gets; initial values are negative.
///
/// `memory_limit` is the maximum number of bytes of weights, stored values and values of a run.
///
/// What fails adds, releases and changes nothing. Raises CallError if a call or a value does not
/// fit, MemoryError over the limit, and RuntimeError if another thread uses the session.
#[pyclass(frozen, weakref, module = "edbatch")]
pub(crate) struct Session {
    inner: Mutex<Inner>,
    network: Py<Network>,
    processes: Processes,
}

struct Inner {
    session: edbatch::Session,
    /// The operands of a call, kept for their memory.
    rows: Vec<u32>,
    values: Vec<Handle>,
}

impl Session {
    fn of(session: edbatch::Session, network: Py<Network>, processes: Processes) -> Self {
        let inner = Inner { session, rows: Vec::new(), values: Vec::new() };
        Self { inner: Mutex::new(inner), network, processes }
    }

    /// Returns the session, unless another thread uses it or its threads are gone.
    fn lock(&self) -> PyResult<MutexGuard<'_, Inner>> {
        let instead = "use `fork()`, an empty session for another thread on the same weights";
        let Processes { threads, device } = self.processes;
        exclusive::lock(&self.inner, threads.or(device), "session", instead)
    }

    fn check_cell(&self, cell: &Cell) -> PyResult<()> {
        if cell.network.get().is(self.network.get()) {
            return Ok(());
        }
        let name = &cell.name;
        Err(CallError::new_err(format!(
            "call of {name}: expected a cell of the session's network, got one of another"
        )))
    }

    /// Adds calls, without the interpreter.
    fn add_calls<'py>(
        &self,
        py: Python<'py>,
        calls: &Calls,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let session = &mut self.lock()?.session;
        let added = py.detach(|| calls.add_to(session));
        let handles = added.map_err(|error| calls.error(session.network(), error))?;
        Ok(array_of(py, handles))
    }
}

impl Inner {
    /// Reads the operands of a call, like [`operands::read`].
    #[inline]
    fn read_operands<'a, 'py: 'a>(
        &mut self,
        cell: &Cell,
        operands: impl Iterator<Item = Borrowed<'a, 'py, PyAny>>,
    ) -> PyResult<bool> {
        let handle = |bits, _| Ok(Handle::from_bits(bits));
        operands::read(cell, operands, (&mut self.rows, &mut self.values), handle)
    }
}

/// Values of a request: one, or several in a sequence or an array.
struct Handles {
    all: Vec<Handle>,
    is_one: bool,
}

impl Handles {
    /// Reads values. May run code of Python.
    fn read(request: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let one = match ready(object) {
            Some(bits) => Some(bits),
            None if object.try_iter().is_ok() => None,
            None => Some(int(object, || request.into(), "a value")?),
        };
        if let Some(bits) = one {
            return Ok(Self { all: vec![Handle::from_bits(bits)], is_one: true });
        }
        let all = arrays::integers::<i64, CallError>(request, object)?;
        Ok(Self { all: all.into_iter().map(Handle::from_bits).collect(), is_one: false })
    }
}

fn array_of(py: Python<'_>, handles: Vec<Handle>) -> Bound<'_, PyArray1<i64>> {
    PyArray1::from_vec(py, handles.into_iter().map(Handle::to_bits).collect())
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (engine, *, memory_limit=None))]
    fn new(engine: &Bound<'_, Engine>, memory_limit: Option<u64>) -> PyResult<Self> {
        let options =
            memory_limit.into_iter().fold(SessionOptions::new(), SessionOptions::memory_limit);
        let (session, processes) = engine.get().session(options)?;
        Ok(Self::of(session, engine.get().wirer.network.clone_ref(engine.py()), processes))
    }

    /// Adds a call of a cell: a row for each table, then a value for each port, and a list of
    /// values, or another iterable, for a port of any number. Returns the value of the result.
    ///
    /// Raises CallError if an operand does not fit, and TypeError for a bool in its place.
    #[pyo3(
        signature = (
            cell, first=Operand(None), second=Operand(None), third=Operand(None), /, *more
        ),
        text_signature = "($self, cell, /, *operands)"
    )]
    fn call<'py>(
        slf: &Bound<'py, Self>,
        cell: &Bound<'py, Cell>,
        first: Operand<'_, 'py>,
        second: Operand<'_, 'py>,
        third: Operand<'_, 'py>,
        more: &Bound<'py, PyTuple>,
    ) -> PyResult<i64> {
        let (this, cell) = (slf.get(), cell.get());
        this.check_cell(cell)?;
        let first = [first.0, second.0, third.0];
        let operands = || first.iter().copied().flatten().chain(more.iter_borrowed());
        check_count(cell, first.iter().flatten().count() + more.len())?;
        let mut inner = this.lock()?;
        if !inner.read_operands(cell, operands())? {
            drop(inner);
            let ints = as_ints(slf.py(), cell, operands())?;
            inner = this.lock()?;
            inner.read_operands(cell, ints.iter_borrowed())?;
        }
        let Inner { session, rows, values } = &mut *inner;
        let called = session.call(cell.kind, rows, values);
        Ok(called.map_err(|error| call_error(cell, values, error))?.to_bits())
    }

    /// Gives a value of your own: an array with the shape of the record's field, or an array for
    /// each field. Returns the value. The array is copied.
    ///
    /// Raises CallError if a shape is another, or an element is not a 32-bit float.
    #[pyo3(signature = (record, /, *arrays))]
    fn give(&self, record: &Bound<'_, Record>, arrays: &Bound<'_, PyTuple>) -> PyResult<i64> {
        let record = record.get();
        let given = Given::read(record, arrays)?;
        record.check(self.network.get())?;
        let handle = self.lock()?.session.give(record.id, &given.elements());
        Ok(handle.map_err(|error| errors::session(error, None))?.to_bits())
    }

    /// Adds many calls of a cell, all of them or none. Returns an int64 array of their values.
    ///
    /// `rows` is [n, tables], or [n] for one table; None for a cell without tables. `values` is
    /// [n, k]: for each call a value for each port, then the list of the port of any number; or [n]
    /// if k is 1. If their number differs, it is one flat array, and call i has
    /// `values[offsets[i]:offsets[i + 1]]`. None for a cell without ports.
    ///
    /// Raises CallError with the number of the call.
    #[pyo3(signature = (cell, rows, values, offsets=None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        cell: &Bound<'py, Cell>,
        rows: Option<&Bound<'py, PyAny>>,
        values: Option<&Bound<'py, PyAny>>,
        offsets: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let cell = cell.get();
        self.check_cell(cell)?;
        self.add_calls(py, &Calls::of_cell(cell, rows, values, offsets)?)
    }

    /// Gives many values of a record, all of them or none: an array [n, width] with a row for each,
    /// its fields in order. Returns an int64 array of their values. The array is copied.
    ///
    /// Raises CallError if the shape is another, or an element is not a 32-bit float.
    #[pyo3(signature = (record, matrix, /))]
    fn give_many<'py>(
        &self,
        record: &Bound<'py, Record>,
        matrix: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let (py, record) = (record.py(), record.get());
        let name = || format!("give_many of record {}", record.name());
        let matrix = arrays::floats::<CallError>(matrix, name)?;
        record.check(self.network.get())?;
        let (shape, width) = (matrix.shape(), record.elements());
        if shape != [0] && !matches!(*shape, [_, columns] if columns == width) {
            return Err(CallError::new_err(format!(
                "{}: expected an array of shape [n, {width}], got one of shape {shape:?}",
                name()
            )));
        }
        let mut handles = Vec::new();
        let elements = matrix.as_slice().expect("C order");
        let given = self.lock()?.session.give_many(record.id, elements, &mut handles);
        given.map_err(|error| errors::session(error, None))?;
        Ok(array_of(py, handles))
    }

    /// Adds calls of several cells, all of them or none. Returns an int64 array of their values.
    ///
    /// `kinds` has the kind of each call (uint16, `Cell.kind`), `operands` the operands of all
    /// calls (int64): rows, then values. Call i has `operands[offsets[i]:offsets[i + 1]]`;
    /// `offsets` (uint32) has an entry more than there are calls. A number below 2³² in the place
    /// of a value is the number of an earlier call of these arrays, from 0.
    ///
    /// Raises CallError with the number of the call.
    #[pyo3(signature = (kinds, operands, offsets))]
    fn add_arrays<'py>(
        &self,
        py: Python<'py>,
        kinds: &Bound<'py, PyAny>,
        operands: &Bound<'py, PyAny>,
        offsets: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let cells = self.network.get().with(|network| network.cells().len());
        self.add_calls(py, &Calls::of_cells(cells, kinds, operands, offsets)?)
    }

    /// Computes all pending values together, and stores those that are not released. Does nothing
    /// if nothing is pending.
    ///
    /// Raises MemoryError over the memory limit. The pending values stay pending: release some and
    /// run again, or discard them.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let session = &mut self.lock()?.session;
        py.detach(|| session.run()).map_err(|error| errors::session(error, None))
    }

    /// Returns the elements of a stored value, [width], or of several, an array [n, width] or a
    /// list of vectors if they differ in width. The arrays are copies, of float32.
    ///
    /// Raises CallError if a value is pending or does not exist.
    #[pyo3(signature = (values, /))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Handles { all, is_one } = Handles::read("fetch", values)?;
        let session = &mut self.lock()?.session;
        let mut elements = Vec::new();
        let fetched = match is_one {
            true => session.fetch(&all, &mut elements),
            false => py.detach(|| {
                // The session is lent whole: it cannot be shared with another thread.
                let session: &mut edbatch::Session = session;
                session.fetch(&all, &mut elements)
            }),
        };
        fetched.map_err(|error| errors::session(error, None))?;
        if is_one {
            return Ok(PyArray1::from_vec(py, elements).into_any());
        }
        let mut end = 0;
        let ends = all.iter().map(|&value| {
            let record = session.record_of(value).expect("it was fetched");
            let fields = &session.network().fields(record).fields;
            end += fields.iter().map(|field| field.shape.elements()).sum::<usize>();
            end
        });
        arrays::of_parts(py, elements, &ends.collect::<Vec<_>>())
    }

    /// Releases a value, or several in a sequence or an array, all of them or none. Pending calls
    /// that read them still do. A pending value that is released is computed and not stored.
    ///
    /// Raises CallError if a value does not exist, is an initial value, or occurs twice.
    #[pyo3(signature = (values, /))]
    fn release(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let Handles { all, .. } = Handles::read("release", values)?;
        let released = self.lock()?.session.release(&all);
        released.map_err(|error| errors::session(error, None))
    }

    /// Removes all pending values.
    fn discard(&self) -> PyResult<()> {
        self.lock()?.session.discard();
        Ok(())
    }

    /// Removes all values, pending or stored. Keeps the memory.
    fn clear(&self) -> PyResult<()> {
        self.lock()?.session.clear();
        Ok(())
    }

    /// Returns an empty session for another thread: on the same weights, with the same memory limit
    /// and one thread.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let fork = self.lock()?.session.fork().map_err(errors::engine)?;
        let processes = Processes { threads: None, ..self.processes };
        Ok(Self::of(fork, self.network.clone_ref(py), processes))
    }

    /// Counts of values, memory and runs.
    #[getter]
    fn statistics(&self) -> PyResult<SessionStatistics> {
        Ok(SessionStatistics::of(&self.lock()?.session.statistics()))
    }

    /// The number of stored values.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.lock()?.session.statistics().stored as usize)
    }

    fn __repr__(&self) -> String {
        // A session that runs in another thread, and its threads after a fork, do not matter here.
        match self.inner.try_lock() {
            Ok(inner) => {
                let edbatch::SessionStatistics { stored, pending, .. } = inner.session.statistics();
                format!("<edbatch.Session: {stored} values, {pending} pending>")
            }
            Err(_) => "<edbatch.Session: in use>".into(),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.network)
    }
}
