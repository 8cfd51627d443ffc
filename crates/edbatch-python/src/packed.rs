//! Runs whose given rows are one array for each record, and whose outputs are one array.
//!
//! The rows of an input are the slots of its call list, or of the list that `build` fills.

use std::sync::{Arc, Mutex, PoisonError};

use edbatch::Rows;
use edbatch::graph::RecordId;
use edbatch::models::{self, Slots};
use edbatch::runtime::GivenPlace;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange, PyTuple};

use crate::errors::CallError;
use crate::record::Record;
use crate::{arrays, errors};

/// The records, each once; an array `[rows, width]` for each; the offsets of inputs in each, if not
/// by slots; the record of all emitted values, if fixed; and if `build` gets lists, not ranges.
/// `edbatch.torch` checks shapes and offsets.
pub(crate) type Arguments<'py, R = Bound<'py, PyAny>> =
    (Vec<Bound<'py, Record>>, Vec<R>, Option<Vec<Vec<usize>>>, Option<Bound<'py, Record>>, bool);

/// The given rows of a run.
pub(crate) struct Given {
    records: Vec<(RecordId, String, usize)>,
    /// The elements of each record; none if they are in borrowed memory.
    pub(crate) rows: Elements,
    /// The number of elements of each record.
    counts: Vec<usize>,
    offsets: Option<Vec<Vec<usize>>>,
    emits: Option<RecordId>,
    lists: bool,
    /// The next row of each record, while inputs are wired in order.
    next: Mutex<Vec<usize>>,
}

/// The elements of the rows of each record.
type Elements = Arc<Vec<Vec<f32>>>;
type Places = Vec<Vec<Place>>;

/// The given rows of a run, and the places of an input's rows.
pub(crate) struct Placed {
    pub(crate) rows: Elements,
    pub(crate) places: Vec<Place>,
    /// The places of all given values of the input, if rows are borrowed.
    pub(crate) borrowed: Vec<GivenPlace>,
}

/// The place of the rows of some slots of an input.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The index of the first slot among the given values of the input.
    slot: usize,
    /// The index of the record.
    pub(crate) array: usize,
    /// The first element in the array.
    pub(crate) first: usize,
    /// The number of elements.
    pub(crate) count: usize,
}

impl Given {
    /// Copies the rows, without the interpreter.
    pub(crate) fn read(
        py: Python<'_>,
        (records, rows, offsets, emits, lists): Arguments<'_>,
    ) -> PyResult<Self> {
        let arrays = rows.iter().map(|rows| arrays::floats::<CallError>(rows, || "given".into()));
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let slices: Vec<_> = arrays.iter().map(|each| each.as_slice().expect("C order")).collect();
        let rows: Vec<_> = py.detach(|| slices.iter().map(|elements| elements.to_vec()).collect());
        let counts = slices.iter().map(|elements| elements.len()).collect();
        Ok(Self::of((records, counts, offsets, emits, lists), rows))
    }

    /// Takes the numbers of elements of rows in borrowed memory.
    pub(crate) fn borrowed(arguments: Arguments<'_, usize>) -> Self {
        Self::of(arguments, Vec::new())
    }

    fn of(
        (records, counts, offsets, emits, lists): Arguments<'_, usize>,
        rows: Vec<Vec<f32>>,
    ) -> Self {
        let record = |record: &Record| (record.id, record.name.clone(), record.elements());
        let records = records.iter().map(|each| record(each.get())).collect();
        let emits = emits.map(|record| record.get().id);
        let next = Mutex::new(vec![0; counts.len()]);
        Self { records, rows: Arc::new(rows), counts, offsets, emits, lists, next }
    }

    /// Declares the rows of an input as slots of its list. Returns the values for `build`.
    pub(crate) fn add_to<'py>(
        &self,
        py: Python<'py>,
        list: &mut models::CallList,
        input: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let Some(offsets) = &self.offsets else {
            let text = "offsets: expected them, because an input is no CallList with slots";
            return Err(PyValueError::new_err(text));
        };
        let (mut first, mut values) = (0, vec![]);
        for ((record, ..), offsets) in self.records.iter().zip(offsets) {
            let rows = offsets[input + 1] - offsets[input];
            list.add_slots(*record, rows).map_err(errors::give)?;
            let end = first + rows as isize;
            values.push(match self.lists {
                true => PyList::new(py, first..end)?.into_any(),
                false => PyRange::new(py, first, end)?.into_any(),
            });
            first = end;
        }
        Ok(values)
    }

    /// Finds the rows of an input's slots, and checks what it emits.
    pub(crate) fn places(&self, list: &models::CallList, input: usize) -> PyResult<Placed> {
        let records = list.emitted().iter().filter_map(|&value| list.graph().record_of(value));
        let name = |record| &list.network().fields(record).name;
        if let Some(expected) = self.emits
            && let Some(got) = records.into_iter().find(|&record| record != expected)
        {
            let (expected, got) = (name(expected), name(got));
            let text = format!("emits: expected values of record {expected}, got one of {got}");
            return Err(PyValueError::new_err(text));
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offsets) = &self.offsets {
            next.iter_mut().zip(offsets).for_each(|(next, offsets)| *next = offsets[input]);
        }
        let mut places = Vec::with_capacity(list.slots().len());
        let initial = list.network().initial_values().len();
        let is_borrowed = self.rows.is_empty() && !self.records.is_empty();
        let given = if is_borrowed { list.graph().given().len() - initial } else { 0 };
        let mut borrowed = vec![GivenPlace::Host; given];
        for &Slots { record, first, count } in list.slots() {
            let Some(array) = self.records.iter().position(|(id, ..)| *id == record) else {
                return Err(CallError::new_err(list.missing(record).to_string()));
            };
            let width = self.records[array].2;
            let (slot, begin) = (first - initial, next[array] * width);
            places.push(Place { slot, array, first: begin, count: count * width });
            next[array] += count;
            if is_borrowed {
                let start = self.counts[..array].iter().sum::<usize>() + begin;
                for (row, place) in borrowed[slot..][..count].iter_mut().enumerate() {
                    *place = GivenPlace::Borrowed((start + row * width) as u32);
                }
            }
        }
        for (array, &end) in next.iter().enumerate() {
            match &self.offsets {
                Some(offsets) => self.check(array, end, offsets[array][input + 1], true)?,
                None => self.check(array, end, self.count(array), false)?,
            }
        }
        Ok(Placed { rows: self.rows.clone(), places, borrowed })
    }

    /// Checks that all rows are slots, after the last input.
    pub(crate) fn finish(&self) -> PyResult<()> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = next.iter().enumerate();
        all.try_for_each(|(array, &end)| self.check(array, end, self.count(array), true))
    }

    fn count(&self, array: usize) -> usize {
        self.counts[array] / self.records[array].2
    }

    fn check(&self, array: usize, slots: usize, rows: usize, all: bool) -> PyResult<()> {
        if slots == rows || (slots < rows && !all) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "slots: expected {slots} rows of record {} up to this input, one for each slot of call \
             lists, got {rows}",
            self.records[array].1
        )))
    }
}

/// The shapes of a packed run, for the way back.
pub(crate) struct Packed {
    given: Elements,
    places: Places,
    /// The ends of the rows of each input in the array of its elements.
    ends: Vec<Vec<usize>>,
}

impl Packed {
    /// Joins the outputs of all inputs.
    pub(crate) fn of(given: Elements, places: Places, outputs: Vec<Rows>) -> (Self, Vec<f32>) {
        let (all, ends): (Vec<_>, Vec<_>) = outputs.into_iter().map(Rows::into_parts).unzip();
        // The array of a single input, such as a large graph, is not copied.
        let elements = match <[_; 1]>::try_from(all) {
            Ok([elements]) => elements,
            Err(all) => all.concat(),
        };
        (Self { given, places, ends }, elements)
    }

    /// Returns all elements, the offsets of inputs among the rows, and the width of each row.
    pub(crate) fn outputs<'py>(
        &self,
        py: Python<'py>,
        elements: Vec<f32>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let [offsets, widths] = Self::shapes(py, &self.ends);
        (PyArray1::from_vec(py, elements), offsets, widths).into_pyobject(py)
    }

    /// Returns the offsets of inputs among the rows, and the width of each row.
    pub(crate) fn shapes<'py>(
        py: Python<'py>,
        ends: &[Vec<usize>],
    ) -> [Bound<'py, PyArray1<i64>>; 2] {
        let (mut widths, mut offsets) = (vec![], vec![0]);
        for ends in ends {
            let starts = [0].into_iter().chain(ends.iter().copied());
            widths.extend(starts.zip(ends).map(|(start, &end)| (end - start) as i64));
            offsets.push(widths.len() as i64);
        }
        [offsets, widths].map(|numbers| PyArray1::<i64>::from_vec(py, numbers))
    }

    /// Divides the gradients of all elements by input and row, unless their number is another.
    pub(crate) fn output_gradients(&self, mut elements: &[f32]) -> Option<Vec<Rows>> {
        let mut all = Vec::with_capacity(self.ends.len());
        for ends in &self.ends {
            let (mut rows, mut start) = (Rows::new(), 0);
            for &end in ends {
                rows.push(elements.get(start..end)?);
                start = end;
            }
            elements = &elements[start..];
            all.push(rows);
        }
        elements.is_empty().then_some(all)
    }

    /// Collects the gradients of the given rows of each record from all given values.
    pub(crate) fn given_gradients(&self, of_given: Vec<Rows>) -> Vec<Vec<f32>> {
        let zeros = self.given.iter().map(|elements| vec![0.0; elements.len()]);
        let mut gradients: Vec<Vec<f32>> = zeros.collect();
        for (places, rows) in self.places.iter().zip(of_given) {
            let (elements, ends) = rows.into_parts();
            for &Place { slot, array, first, count } in places {
                let from = slot.checked_sub(1).map_or(0, |last| ends[last]);
                gradients[array][first..first + count].copy_from_slice(&elements[from..][..count]);
            }
        }
        gradients
    }
}
