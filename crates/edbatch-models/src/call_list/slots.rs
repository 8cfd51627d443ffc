//! Slots: given values whose elements come with each run of a list.

use edbatch_graph::{Appended, CallError, CallErrorReason, Graph, RecordId, Value};

use super::CallList;
use crate::build::check_given;
use crate::{Build, GiveError};

/// Consecutive given values of one record, whose elements come with each run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// The record.
    pub record: RecordId,
    /// The index of the first one in [`Graph::given`].
    pub first: usize,
    /// The number of values.
    pub count: usize,
}

impl CallList {
    /// Declares a number of given values whose elements come with each run, by
    /// [`append_with_rows`](Self::append_with_rows). Returns the values. Slots of one record that
    /// follow each other become one entry of [`slots`](Self::slots).
    ///
    /// # Errors
    /// If the network has no such record, or the list would have more than the
    /// [maximum number](Graph::MAX_ENTRIES) of given values. The list is then unchanged.
    pub fn add_slots(&mut self, record: RecordId, count: usize) -> Result<Vec<Value>, GiveError> {
        check_given(&self.graph, record, None)?;
        let first = self.graph.given().len();
        if count > Graph::MAX_ENTRIES - first {
            return Err(GiveError::TooMany);
        }
        match self.slots.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.record == record && last.first + last.count == first => {
                last.count += count;
            }
            _ => self.slots.push(Slots { record, first, count }),
        }
        Ok((0..count).map(|_| self.graph.give(record)).collect())
    }

    /// Returns the slots in the order of their values.
    #[must_use]
    pub fn slots(&self) -> &[Slots] {
        &self.slots
    }

    /// Checks that the list can run without rows.
    ///
    /// # Errors
    /// If it has slots.
    pub fn without_slots(&self) -> Result<(), CallError> {
        let Some(slots) = self.slots.first() else { return Ok(()) };
        Err(CallError { cell: "an appended call list".into(), reason: self.missing(slots.record) })
    }

    /// Returns the reason why a run without rows of a record is an error.
    #[must_use]
    pub fn missing(&self, record: RecordId) -> CallErrorReason {
        let of_record = self.slots.iter().filter(|slots| slots.record == record);
        let rows = of_record.map(|slots| slots.count).sum();
        CallErrorReason::Slots { rows, record: self.network().fields(record).name.clone() }
    }

    /// Appends the list like [`append_to`](Self::append_to). `rows` has the elements of each entry
    /// of [`slots`](Self::slots), value after value.
    ///
    /// # Errors
    /// Like [`append_to`](Self::append_to). A list that carries values is an error.
    ///
    /// # Panics
    /// If the slots have another number of elements.
    pub fn append_with_rows<'r>(
        &'r self,
        build: &Build<'_>,
        mut rows: impl Iterator<Item = &'r [f32]>,
    ) -> Result<Appended<'static>, CallError> {
        if self.slots.is_empty() || self.carried > 0 {
            return self.append_to(build, &[]);
        }
        let mut parts = Vec::with_capacity(2 * self.slots.len() + 1);
        let (mut next, mut rest) = (self.network().initial_values().len(), self.given.as_slice());
        for &Slots { record, first, count } in &self.slots {
            let before = self.graph.given()[next..first].iter();
            let (own, after) = rest.split_at(before.map(|&record| self.width(record)).sum());
            let elements = rows.next().filter(|row| row.len() == count * self.width(record));
            parts.extend([own, elements.expect("the elements of all slots")]);
            (next, rest) = (first + count, after);
        }
        parts.push(rest);
        build.append(&self.graph, parts, &self.emitted, &[])
    }

    /// Appends the list like [`append_with_rows`](Self::append_with_rows), but gives no elements
    /// for slots: the caller gives them to the backend.
    ///
    /// # Errors
    /// Like [`append_with_rows`](Self::append_with_rows).
    pub fn append_without_rows(&self, build: &Build<'_>) -> Result<Appended<'static>, CallError> {
        if self.carried > 0 {
            return self.append_to(build, &[]);
        }
        build.append(&self.graph, [self.given.as_slice()], &self.emitted, &[])
    }

    /// Returns the number of elements of all fields of a record.
    fn width(&self, record: RecordId) -> usize {
        self.network().fields(record).fields.iter().map(|field| field.shape.elements()).sum()
    }
}
