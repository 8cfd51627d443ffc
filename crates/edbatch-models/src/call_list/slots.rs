//! Slots: given values whose elements come with each run of a list.

use edbatch_graph::{CallError, CallErrorReason, Graph, RecordId, Value};

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
    /// ```
    /// use std::sync::Arc;
    /// use edbatch_graph::{Network, Shape};
    /// use edbatch_models::CallList;
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(2))])?;
    /// let mut list = CallList::new(Arc::new(network));
    /// let values = list.add_slots(state, 3)?;
    /// list.emit(values[2])?;
    /// assert_eq!((list.slots()[0].first, list.slots()[0].count), (0, 3));
    /// assert!(list.to_json().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Returns the error of a run without rows if the list has slots.
    ///
    /// # Errors
    /// If the list has slots.
    pub fn without_slots(&self) -> Result<(), CallError> {
        let Some(&Slots { record, .. }) = self.slots.first() else { return Ok(()) };
        let of_record = self.slots.iter().filter(|slots| slots.record == record);
        let rows = of_record.map(|slots| slots.count).sum();
        let record = self.network().fields(record).name.clone();
        let reason = CallErrorReason::Slots { rows, record };
        Err(CallError { cell: "an appended call list".into(), reason })
    }

    /// Appends the list like [`append_to`](Self::append_to). `rows` returns the elements of
    /// slots, value after value, for each entry of [`slots`](Self::slots) in order.
    ///
    /// # Errors
    /// Like [`append_to`](Self::append_to), except for slots. A list that carries values is an
    /// error.
    ///
    /// # Panics
    /// If `rows` returns another number of elements than the slots have.
    pub fn append_with_rows<'r>(
        &'r self,
        build: &Build<'_>,
        mut rows: impl FnMut(&Slots) -> &'r [f32],
    ) -> Result<(), CallError> {
        if self.slots.is_empty() || self.carried > 0 {
            return self.append_to(build, &[]).map(drop);
        }
        let mut parts = Vec::with_capacity(2 * self.slots.len() + 1);
        let (mut next, mut rest) = (self.network().initial_values().len(), self.given.as_slice());
        for slots in &self.slots {
            let before = self.graph.given()[next..slots.first].iter();
            let elements = before.map(|&record| self.width(record)).sum();
            let (own, after) = rest.split_at(elements);
            let elements = rows(slots);
            let expected = slots.count * self.width(slots.record);
            assert_eq!(elements.len(), expected, "the elements of all slots");
            parts.extend([own, elements]);
            (next, rest) = (slots.first + slots.count, after);
        }
        parts.push(rest);
        build.append(&self.graph, parts, &self.emitted, &[]).map(drop)
    }

    /// Returns the number of elements of all fields of a record.
    fn width(&self, record: RecordId) -> usize {
        self.network().fields(record).fields.iter().map(|field| field.shape.elements()).sum()
    }
}
