//! Rows of numbers, each of its own width.

use edbatch_graph::Network;

use crate::Parameters;

/// A list of rows of f32: what one instance emitted, in order.
///
/// A row holds the fields of one emitted value, one after the other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    elements: Vec<f32>,
    ends: Vec<usize>,
}

impl Rows {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The row with this index.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.elements[start..self.ends[index]]
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[f32]) {
        self.elements.extend_from_slice(row);
        self.ends.push(self.elements.len());
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.elements.clear();
        self.ends.clear();
    }

    /// Appends a row that `write` appends to the elements.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<f32>)) {
        write(&mut self.elements);
        self.ends.push(self.elements.len());
    }

    /// As [`push_with`](Self::push_with), if `write` succeeds. Otherwise there is no new row.
    ///
    /// # Errors
    /// As `write`.
    pub fn try_push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<f32>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.elements.len();
        let written = write(&mut self.elements);
        match written {
            Ok(()) => self.ends.push(self.elements.len()),
            Err(_) => self.elements.truncate(before),
        }
        written
    }
}

/// The network's initial values, as backends take them: a row each, field after field.
#[must_use]
pub fn initial_rows(network: &Network, parameters: &Parameters) -> Rows {
    let mut rows = Rows::new();
    for initial in network.initial_values() {
        rows.push_with(|row| {
            initial.parameters.iter().for_each(|&id| row.extend_from_slice(parameters.get(id)));
        });
    }
    rows
}
