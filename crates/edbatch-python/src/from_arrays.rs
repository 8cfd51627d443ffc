//! Call lists and given values from arrays, and back.

use std::borrow::Cow;

use edbatch::graph::{Dag, Kind, NodeId, Source, Value};
use edbatch::models;
use edbatch::runtime::try_memory;
use numpy::{PyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};

use crate::errors::{self, CallError};
use crate::ints::ready;
use crate::network::Network;
use crate::record::Record;
use crate::{arrays, shapes};

/// The calls of a list as arrays.
pub(crate) struct Arrays {
    kinds: Vec<u16>,
    operands: Vec<i32>,
    offsets: Vec<u32>,
    emit: Vec<i32>,
}

impl Arrays {
    pub(crate) fn read(
        kinds: &Bound<'_, PyAny>,
        operands: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        emit: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let kinds = arrays::integers::<u16, CallError>("kinds", kinds)?;
        let operands = arrays::integers::<i32, CallError>("operands", operands)?;
        let offsets = arrays::integers::<u32, CallError>("offsets", offsets)?;
        let emit = arrays::integers::<i32, CallError>("emit", emit)?;
        if offsets.len() != kinds.len() + 1 {
            let (expected, got) = (kinds.len() + 1, offsets.len());
            return Err(CallError::new_err(format!(
                "offsets: expected {expected} entries, one more than there are kinds, got {got}"
            )));
        }
        let ends = (offsets[0], offsets[kinds.len()] as usize);
        if ends != (0, operands.len()) || !offsets.is_sorted() {
            return Err(CallError::new_err(format!(
                "offsets: expected ascending numbers from 0 to {}, the number of operands, got {} \
                 to {}{}",
                operands.len(),
                ends.0,
                ends.1,
                if offsets.is_sorted() { "" } else { ", not ascending" }
            )));
        }
        Ok(Self { kinds, operands, offsets, emit })
    }

    /// Appends the calls to a list that has only given values. Returns all values, by number.
    pub(crate) fn append_to(&self, list: &mut models::CallList) -> PyResult<Vec<Value>> {
        let network = list.network().clone();
        let cells = network.cells();
        let mut made = values_of(list);
        made.reserve(self.kinds.len());
        let calls = self.kinds.len();
        list.reserve(calls, self.operands.len(), self.operands.len()).map_err(errors::call)?;
        let value = |made: &[Value], number: i32, place: &dyn Fn() -> String| {
            let value = match usize::try_from(number) {
                Ok(number) => made.get(number).copied(),
                Err(_) => network.initial_value((-1 - i64::from(number)) as usize),
            };
            value.ok_or_else(|| no_value(&place(), number, made.len()))
        };
        let (mut rows, mut values): (Vec<u32>, Vec<Value>) = (vec![], vec![]);
        for (index, (&kind, ends)) in self.kinds.iter().zip(self.offsets.windows(2)).enumerate() {
            let operands = &self.operands[ends[0] as usize..ends[1] as usize];
            let Some(cell) = cells.get(usize::from(kind)) else {
                return Err(CallError::new_err(format!(
                    "call {index}: cell {kind} does not exist: the network has {} cells",
                    cells.len()
                )));
            };
            let (of_tables, of_ports) = operands.split_at(cell.tables().len().min(operands.len()));
            rows.clear();
            values.clear();
            // Negative rows become rows that do not exist.
            rows.extend(of_tables.iter().map(|&row| row as u32));
            let place = || format!("call {index}: call of {}", cell.name());
            for &number in of_ports {
                values.push(value(&made, number, &place)?);
            }
            let called = list.call(Kind(kind), &rows, &values);
            made.push(called.map_err(|error| of_call(index, of_tables, error))?);
        }
        for &number in &self.emit {
            let value = value(&made, number, &|| "emit".into())?;
            list.emit(value).map_err(|error| CallError::new_err(error.to_string()))?;
        }
        Ok(made)
    }
}

#[cold]
fn no_value(place: &str, number: i32, made: usize) -> PyErr {
    CallError::new_err(format!(
        "{place}: value {number} does not exist: expected a number below {made}, or that of an \
         initial value"
    ))
}

#[cold]
fn of_call(index: usize, rows: &[i32], error: edbatch::graph::CallError) -> PyErr {
    match rows.iter().find(|&&row| row < 0) {
        Some(row) => CallError::new_err(format!(
            "call {index}: call of {}: row {row} does not exist: rows begin at 0",
            error.cell
        )),
        None => CallError::new_err(format!("call {index}: {error}")),
    }
}

/// Returns the values of a list in the order of their numbers in a file: given ones, then calls.
pub(crate) fn values_of(list: &models::CallList) -> Vec<Value> {
    let (graph, initial) = (list.graph(), list.network().initial_values().len());
    let given = (initial..graph.given().len()).filter_map(|index| graph.given_value(index));
    // Room for the calls of a small input, made one by one.
    let mut values = Vec::with_capacity((graph.given().len() - initial + graph.nodes()).max(64));
    values.extend(given.chain((0..graph.nodes()).map(|node| Value::from(NodeId::new(node)))));
    values
}

/// The arrays of a value: one for each field, or a single one with all elements.
pub(crate) struct Given<'py>(Vec<PyReadonlyArrayDyn<'py, f32>>);

impl<'py> Given<'py> {
    /// Reads arrays, which may run code of Python.
    pub(crate) fn read(record: &Record, given: &Bound<'py, PyTuple>) -> PyResult<Self> {
        let one = given.len() == 1;
        let expected_arrays = if one { 1 } else { record.shapes.len() };
        if given.len() != expected_arrays {
            let (name, expected, got) = (record.name(), record.expected(), given.len());
            return Err(CallError::new_err(format!(
                "give of record {name}: expected {expected}, got {got} arrays"
            )));
        }
        let mut arrays = Vec::with_capacity(given.len());
        for (index, array) in given.iter_borrowed().enumerate() {
            let name = || match one {
                true => format!("give of record {}", record.name()),
                false => format!("give of record {}: {}", record.name(), record.shapes[index].0),
            };
            arrays.push(arrays::floats::<CallError>(&array, name)?);
        }
        for (index, array) in arrays.iter().enumerate() {
            let shape = array.shape();
            let fits = match (one, record.shapes.as_slice()) {
                (true, [_, _, ..]) => *shape == [record.elements()],
                (_, fields) => *shape == *shapes::dims_of(fields[index].1),
            };
            if !fits {
                let (name, expected) = (record.name(), record.expected());
                return Err(CallError::new_err(format!(
                    "give of record {name}: expected {expected}, got an array of shape {shape:?}"
                )));
            }
        }
        Ok(Self(arrays))
    }

    /// Returns the elements of all fields.
    pub(crate) fn elements(&self) -> Cow<'_, [f32]> {
        let slice = |index: usize| self.0[index].as_slice().expect("C order");
        match self.0.len() {
            1 => Cow::Borrowed(slice(0)),
            arrays => (0..arrays).flat_map(|index| slice(index).to_vec()).collect(),
        }
    }

    /// Gives the value to a list.
    pub(crate) fn to(&self, list: &mut models::CallList, record: &Record) -> PyResult<Value> {
        list.give(record.id, &self.elements()).map_err(errors::give)
    }
}

/// Declares slots of a record.
pub(crate) fn add_slots(
    list: &mut models::CallList,
    record: &Record,
    count: i64,
) -> PyResult<Vec<Value>> {
    let count = usize::try_from(count).map_err(|_| {
        let name = record.name();
        CallError::new_err(format!("slots of record {name}: expected a count from 0, got {count}"))
    })?;
    try_memory(count.saturating_mul(32), "slots").map_err(errors::backend)?;
    list.add_slots(record.id, count).map_err(errors::give)
}

/// Gives pairs of a record and an array, or of a record and a number of slots.
pub(crate) fn give_all(
    list: &mut models::CallList,
    network: &Network,
    pairs: &Bound<'_, PyAny>,
) -> PyResult<()> {
    for pair in pairs.try_iter()? {
        let (record, array): (Bound<'_, Record>, Bound<'_, PyAny>) = pair?.extract()?;
        let record = record.get();
        record.check(network)?;
        if let Some(count) = ready(&array).filter(|_| !array.is_instance_of::<PyBool>()) {
            add_slots(list, record, count)?;
            continue;
        }
        Given::read(record, &PyTuple::new(array.py(), [array.clone()])?)?.to(list, record)?;
    }
    Ok(())
}

/// Returns a list as arrays: kinds, operands, offsets, emit, give.
pub(crate) fn to_arrays<'py>(
    py: Python<'py>,
    network: &Bound<'py, Network>,
    list: &models::CallList,
) -> PyResult<Bound<'py, PyTuple>> {
    let (graph, initial) = (list.graph(), list.network().initial_values().len());
    let given = &graph.given()[initial..];
    let number = |value: Value| match value.source() {
        Source::Node(node) => (given.len() + node.index()) as i32,
        Source::Given(index) if index < initial => -1 - index as i32,
        Source::Given(index) => (index - initial) as i32,
    };
    let (mut kinds, mut operands, mut offsets) = (vec![], vec![], vec![0u32]);
    for node in (0..graph.nodes()).map(NodeId::new) {
        kinds.push(graph.kind(node).0);
        operands.extend(graph.rows(node).iter().map(|&row| row as i32));
        operands.extend(graph.values(node).map(number));
        offsets.push(operands.len() as u32);
    }
    let emit: Vec<i32> = list.emitted().iter().map(|&value| number(value)).collect();
    let (mut elements, mut slots) = (list.given(), list.slots().iter().peekable());
    let give = PyList::empty(py);
    let mut index = initial;
    while let Some(&id) = graph.given().get(index) {
        let record = Record::of(network, id)?;
        if let Some(slots) = slots.next_if(|slots| slots.first == index) {
            give.append((record, slots.count))?;
            index += slots.count;
            continue;
        }
        index += 1;
        let (row, rest) = elements.split_at(record.elements());
        elements = rest;
        let array = match record.shapes.as_slice() {
            [(_, shape)] => arrays::shaped(py, row.to_vec(), &shapes::dims_of(*shape)),
            _ => arrays::vector(py, row).into_any(),
        };
        give.append((record, array))?;
    }
    (
        PyArray1::from_vec(py, kinds),
        PyArray1::from_vec(py, operands),
        PyArray1::from_vec(py, offsets),
        PyArray1::from_vec(py, emit),
        give,
    )
        .into_pyobject(py)
}
