//! The distinct rows of a table that calls name.

use std::collections::HashMap;

use super::{BackendError, out_of_memory, reserve};

/// The distinct rows of a table, in the order in which they are named first.
///
/// The gradients of a table's rows have this order on every backend: the order of calls, over all
/// parts of a mini-batch.
#[derive(Clone, Debug, Default)]
pub struct NamedRows {
    rows: Vec<u32>,
    /// For each row: its index in `rows`.
    index: HashMap<u32, u32>,
}

/// The purpose of the memory, as out-of-memory errors name it.
const NAMED: &str = "the rows of a table that a mini-batch names";

impl NamedRows {
    /// Rows that are distinct already.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn of(rows: Vec<u32>) -> Result<Self, BackendError> {
        let mut index = HashMap::new();
        index.try_reserve(rows.len()).map_err(|_| out_of_memory::<u64>(rows.len(), NAMED))?;
        index.extend(rows.iter().copied().zip(0..));
        Ok(Self { rows, index })
    }

    /// Returns the index of a row among the distinct ones. A new row is the last one.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn add(&mut self, row: u32) -> Result<usize, BackendError> {
        if let Some(&index) = self.index.get(&row) {
            return Ok(index as usize);
        }
        let next = self.rows.len();
        reserve(&mut self.rows, 1, NAMED)?;
        self.index.try_reserve(1).map_err(|_| out_of_memory::<u64>(next, NAMED))?;
        self.rows.push(row);
        self.index.insert(row, next as u32);
        Ok(next)
    }

    /// Returns the distinct rows, in the order in which they were named first.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the distinct rows, like [`rows`](Self::rows).
    #[must_use]
    pub fn into_rows(self) -> Vec<u32> {
        self.rows
    }

    /// Removes all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_in_which_they_are_named_first() {
        let mut named = NamedRows::of(vec![7, 3]).unwrap();
        let indices = [3, 9, 7, 9, 0, 3].map(|row| named.add(row).unwrap());
        assert_eq!((indices, named.rows()), ([1, 2, 0, 2, 3, 1], &[7, 3, 9, 0][..]));
        named.clear();
        assert_eq!((named.add(9).unwrap(), named.into_rows()), (0, vec![9]));
    }
}
