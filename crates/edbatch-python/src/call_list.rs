//! Call lists: the calls of one input, checked while they are made.

mod numbers;
pub(crate) mod operands;

use std::mem;
use std::sync::Arc;

use edbatch::graph::{Dag, RecordId, Value};
use edbatch::models;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyRange, PyTuple};

use crate::cell::Cell;
use crate::errors::{self, CallError, FileError};
use crate::from_arrays::{self, Arrays, Given};
use crate::html;
use crate::ints::int;
use crate::network::Network;
use crate::record::Record;
pub(crate) use numbers::Numbers;
use operands::{Operand, as_ints, check_count, place};

/// The calls of one input, with the values that it gives and emits. It can be run again and again,
/// and pickled.
///
/// A value is an int: values are numbered as they are made. Initial values are negative.
#[pyclass(subclass, module = "edbatch")]
pub(crate) struct CallList {
    list: List,
    pub(crate) numbers: Numbers,
    /// The operands of a call, kept for their memory.
    rows: Vec<u32>,
    values: Vec<Value>,
}

/// The calls. A list that is run is shared until it changes.
#[expect(clippy::large_enum_variant, reason = "another indirection would slow each call down")]
enum List {
    Own(models::CallList),
    Shared(Arc<models::CallList>),
    /// The input of a Build has ended, or awaits.
    Ended,
}

impl List {
    /// Returns the list, to change it.
    #[inline]
    fn own(&mut self) -> PyResult<&mut models::CallList> {
        match self {
            Self::Own(list) => Ok(list),
            _ => self.unshare(),
        }
    }

    #[cold]
    fn unshare(&mut self) -> PyResult<&mut models::CallList> {
        if let Self::Shared(list) = mem::replace(self, Self::Ended) {
            *self = Self::Own(Arc::unwrap_or_clone(list));
        }
        match self {
            Self::Own(list) => Ok(list),
            _ => Err(ended()),
        }
    }
}

impl CallList {
    pub(crate) fn of(network: Py<Network>, list: models::CallList) -> Self {
        let made = from_arrays::values_of(&list);
        Self::of_values(network, list, made)
    }

    /// `made` has the values of the list, by number.
    fn of_values(network: Py<Network>, list: models::CallList, made: Vec<Value>) -> Self {
        let (rows, values) = (Vec::with_capacity(8), Vec::with_capacity(8));
        Self { list: List::Own(list), numbers: Numbers { network, made, first: 0 }, rows, values }
    }

    /// Returns the list, to read it.
    pub(crate) fn read(&self) -> PyResult<&models::CallList> {
        match &self.list {
            List::Own(list) => Ok(list),
            List::Shared(list) => Ok(list),
            List::Ended => Err(ended()),
        }
    }

    /// Returns the list, to run it. Later changes do not affect it.
    pub(crate) fn share(&mut self) -> PyResult<Arc<models::CallList>> {
        let list = mem::replace(&mut self.list, List::Ended);
        self.list = match list {
            List::Own(list) => List::Shared(Arc::new(list)),
            other => other,
        };
        match &self.list {
            List::Shared(list) => Ok(list.clone()),
            _ => Err(ended()),
        }
    }

    /// Ends a round: returns its calls.
    pub(crate) fn take(&mut self) -> PyResult<models::CallList> {
        self.list.own()?;
        let List::Own(list) = mem::replace(&mut self.list, List::Ended) else {
            unreachable!("own() returned the list")
        };
        self.numbers.clear();
        Ok(list)
    }

    /// Begins a round with an empty list, and carries values with the records of `carried`, which
    /// are values of the list of the round before. Returns the number of the first.
    pub(crate) fn begin(&mut self, mut list: models::CallList, records: &[RecordId]) -> i64 {
        for &record in records {
            let value = list.carried(record).expect("a record of this network, before given ones");
            self.numbers.push(value);
        }
        self.list = List::Own(list);
        self.numbers.first
    }

    /// Reads the operands of a call, like [`operands::read`].
    #[inline]
    fn read_operands<'a, 'py: 'a>(
        &mut self,
        cell: &Cell,
        operands: impl Iterator<Item = Borrowed<'a, 'py, PyAny>>,
    ) -> PyResult<bool> {
        let Self { numbers, rows, values, .. } = self;
        operands::read(cell, operands, (rows, values), |number, index| {
            numbers.value(number, || place(cell, index))
        })
    }
}

#[cold]
fn ended() -> PyErr {
    PyRuntimeError::new_err(
        "the wiring of this input has ended: call, give and emit in `build`, before it returns",
    )
}

#[pymethods]
impl CallList {
    #[new]
    #[pyo3(signature = (network, /))]
    fn new(network: &Bound<'_, Network>) -> PyResult<Self> {
        let list = models::CallList::new(Network::intern(network)?);
        Ok(Self::of(network.clone().unbind(), list))
    }

    /// Calls a cell: a row for each table, then a value for each port, and a list of values, or
    /// another iterable, for a port of any number. Returns the value of the result.
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
        let mut this = slf.try_borrow_mut()?;
        let cell = cell.get();
        if !cell.network.is(&this.numbers.network) {
            this.numbers.check_network(cell)?;
        }
        let first = [first.0, second.0, third.0];
        let operands = || first.iter().copied().flatten().chain(more.iter_borrowed());
        check_count(cell, first.iter().flatten().count() + more.len())?;
        if !this.read_operands(cell, operands())? {
            drop(this);
            let ints = as_ints(slf.py(), cell, operands())?;
            this = slf.try_borrow_mut()?;
            this.read_operands(cell, ints.iter_borrowed())?;
        }
        let Self { list, numbers, rows, values } = &mut *this;
        let made = list.own()?.call(cell.kind, rows, values);
        Ok(numbers.push(made.map_err(errors::call)?))
    }

    /// Gives a value of your own: an array with the shape of the record's field, or an array for
    /// each field. Returns the value. The array is copied.
    ///
    /// Raises CallError if a shape is another, or an element is not a 32-bit float.
    #[pyo3(signature = (record, /, *arrays))]
    fn give<'py>(
        slf: &Bound<'py, Self>,
        record: &Bound<'py, Record>,
        arrays: &Bound<'py, PyTuple>,
    ) -> PyResult<i64> {
        let record = record.get();
        // Reading may run code of Python, which may use the same list.
        let given = Given::read(record, arrays)?;
        let Self { list, numbers, .. } = &mut *slf.try_borrow_mut()?;
        record.check(numbers.network.get())?;
        Ok(numbers.push(given.to(list.own()?, record)?))
    }

    /// Appends any number of values to the outputs of the input. A value may be emitted more than
    /// once.
    ///
    /// Raises CallError if a value does not exist. The ones before it are emitted.
    #[pyo3(signature = (first=Operand(None), /, *more), text_signature = "($self, /, *values)")]
    fn emit<'py>(
        slf: &Bound<'py, Self>,
        first: Operand<'_, 'py>,
        more: &Bound<'py, PyTuple>,
    ) -> PyResult<()> {
        for value in first.0.into_iter().chain(more.iter_borrowed()) {
            let place = || "emit".into();
            let number = int(&value, place, "a value")?;
            let Self { list, numbers, .. } = &mut *slf.try_borrow_mut()?;
            let emitted = list.own()?.emit(numbers.value(number, place)?);
            emitted.map_err(|error| CallError::new_err(error.to_string()))?;
        }
        Ok(())
    }

    /// Declares `count` values of a record that are given with each run, by `packed` and `forward`
    /// of `edbatch.torch.Layer`. Returns them as a range.
    ///
    /// Raises CallError in a `build`, whose rows the Layer gives.
    fn slots<'py>(
        slf: &Bound<'py, Self>,
        record: &Bound<'py, Record>,
        count: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyRange>> {
        let record = record.get();
        let count = int(count, || format!("slots of record {}", record.name), "a count")?;
        let Self { list, numbers, .. } = &mut *slf.try_borrow_mut()?;
        record.check(numbers.network.get())?;
        let first = numbers.end();
        for value in from_arrays::add_slots(list.own()?, record, count)? {
            numbers.push(value);
        }
        PyRange::new(slf.py(), first as isize, numbers.end() as isize)
    }

    /// The network whose cells are called.
    #[getter]
    fn network(&self, py: Python<'_>) -> Py<Network> {
        self.numbers.network.clone_ref(py)
    }

    /// Removes all calls and values. Values made before do not exist any more.
    fn clear(&mut self) -> PyResult<()> {
        self.list.own()?.clear();
        self.numbers.clear();
        Ok(())
    }

    /// Makes a list from arrays of calls, in order. `kinds` has the kind of each call (uint16,
    /// `Cell.kind`), `operands` the operands of all calls (int32): rows, then values. Call i
    /// has `operands[offsets[i]:offsets[i + 1]]`; `offsets` (uint32) has an entry more than there
    /// are calls. `emit` has the emitted values (int32). `give` is a list of pairs of a
    /// record and an array, or of a record and the number of its slots. Given values are numbered
    /// first, from 0, then the calls.
    ///
    /// Raises CallError with the number of the call.
    #[staticmethod]
    #[pyo3(signature = (network, kinds, operands, offsets, emit, give=None))]
    fn from_arrays(
        network: &Bound<'_, Network>,
        kinds: &Bound<'_, PyAny>,
        operands: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        emit: &Bound<'_, PyAny>,
        give: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let arrays = Arrays::read(kinds, operands, offsets, emit)?;
        let mut list = models::CallList::new(Network::intern(network)?);
        if let Some(pairs) = give {
            from_arrays::give_all(&mut list, network.get(), pairs)?;
        }
        let made = arrays.append_to(&mut list)?;
        Ok(Self::of_values(network.clone().unbind(), list, made))
    }

    /// Returns the list as `from_arrays` takes it: kinds, operands, offsets, emit, give.
    fn to_arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        from_arrays::to_arrays(py, self.numbers.network.bind(py), self.read()?)
    }

    /// Reads a list from a line of JSON, as in `calls.jsonl`.
    ///
    /// Raises FileError with the column.
    #[staticmethod]
    #[pyo3(signature = (network, line, /))]
    fn from_json(network: &Bound<'_, Network>, line: &str) -> PyResult<Self> {
        let list = models::CallList::from_json(&Network::intern(network)?, line);
        let list = list.map_err(|fault| FileError::new_err(fault.to_string()))?;
        Ok(Self::of(network.clone().unbind(), list))
    }

    /// Returns the list as a line of JSON, without a line end.
    ///
    /// Raises FileError if a given element is not finite, or if the list has slots.
    fn to_json(&self) -> PyResult<String> {
        self.read()?.to_json().map_err(|error| FileError::new_err(error.to_string()))
    }

    /// The number of calls.
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.read()?.graph().nodes())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        Ok(self.read()? == other.borrow().read()?)
    }

    fn __str__(&self) -> PyResult<String> {
        Ok(self.read()?.graph().to_string())
    }

    fn __repr__(&self) -> PyResult<String> {
        let list = self.read()?;
        let (calls, emitted) = (list.graph().nodes(), list.emitted().len());
        Ok(format!("<edbatch.CallList: {calls} calls, {emitted} emitted>"))
    }

    fn _repr_html_(&self) -> PyResult<String> {
        Ok(html::text(&self.__str__()?))
    }

    /// Pickles the calls, not the numbers of the values: in the copy, given ones come first.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.borrow());
        let mut arguments = vec![this.numbers.network.bind(py).clone().into_any()];
        arguments.extend(this.to_arrays(py)?.iter());
        let make = py.get_type::<Self>().getattr("from_arrays")?;
        Ok((make, PyTuple::new(py, arguments)?))
    }
}
