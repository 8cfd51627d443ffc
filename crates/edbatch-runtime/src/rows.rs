//! Rows of elements: outputs, given values and their gradients.

use std::mem;

use smallvec::SmallVec;

use crate::ThreadPool;
use crate::kernels::{OutOfMemory, extend_in_pieces, try_reserve_huge};

/// Minimum number of elements that threads copy together, and about how many a thread copies at
/// a time.
const MIN_SHARED: usize = 1 << 18;
const PIECE: usize = 1 << 15;

/// The outputs of one input: a list of rows of f32, one per emitted value, in the order of
/// emission.
///
/// A row holds the fields of its value, one after another.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    elements: Vec<f32>,
    ends: Vec<usize>,
}

impl Rows {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns a row.
    ///
    /// # Panics
    /// If the index is out of range.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.elements[start..self.ends[index]]
    }

    /// Returns all rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Returns the elements of all rows, one row after another.
    #[must_use]
    pub fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// Returns the elements of all rows, one row after another, and the end of each row in them.
    ///
    /// ```
    /// use edbatch_runtime::Rows;
    ///
    /// let mut rows = Rows::new();
    /// rows.push(&[1.0, 2.0]);
    /// rows.push(&[3.0]);
    /// assert_eq!(rows.into_parts(), (vec![1.0, 2.0, 3.0], vec![2, 3]));
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (Vec<f32>, Vec<usize>) {
        (self.elements, self.ends)
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[f32]) {
        self.elements.extend_from_slice(row);
        self.ends.push(self.elements.len());
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.elements.clear();
        self.ends.clear();
    }

    /// Reserves memory for at least this number of further rows and elements. Many elements are in
    /// huge pages, where the system has them.
    ///
    /// ```
    /// let mut rows = edbatch_runtime::Rows::new();
    /// assert!(rows.try_reserve(2, 6).is_ok());
    /// assert!(rows.try_reserve(1, usize::MAX).is_err());
    /// ```
    ///
    /// # Errors
    /// If the system is out of memory.
    pub fn try_reserve(&mut self, rows: usize, elements: usize) -> Result<(), OutOfMemory> {
        let bytes = (size_of::<usize>() as u64).saturating_mul(rows as u64);
        self.ends.try_reserve(rows).map_err(|_| OutOfMemory { bytes })?;
        try_reserve_huge(&mut self.elements, elements)
    }

    /// Appends a row. `write` appends the row's elements to the vector.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<f32>)) {
        write(&mut self.elements);
        self.ends.push(self.elements.len());
    }

    /// Appends a number of rows: `fields` returns the fields of the row with an index. If there are
    /// many elements and the pool is free, its threads share the copies.
    ///
    /// # Errors
    /// If the system is out of memory.
    pub(crate) fn try_extend<'a, F: Iterator<Item = &'a [f32]>>(
        &mut self,
        rows: usize,
        fields: impl Fn(usize) -> F + Sync,
        pool: Option<&ThreadPool>,
    ) -> Result<(), OutOfMemory> {
        let Self { elements, ends } = self;
        ends.try_reserve(rows).map_err(|_| OutOfMemory { bytes: 8 * rows as u64 })?;
        let (first, start) = (ends.len(), elements.len());
        let mut end = start;
        ends.extend((0..rows).map(|row| {
            end += fields(row).map(<[f32]>::len).sum::<usize>();
            end
        }));
        let reserved = try_reserve_huge(elements, end - start);
        reserved.inspect_err(|_| ends.truncate(first))?;
        let mut workers = pool.filter(|_| end - start >= MIN_SHARED).and_then(ThreadPool::claim);
        // Rows of a piece, all of them without threads.
        let each = match workers {
            Some(_) => (PIECE * rows / (end - start)).max(1),
            None => rows.max(1),
        };
        let mut from = start;
        let last = ends[first..].chunks(each).map(|rows| rows[rows.len() - 1]);
        let lens: SmallVec<[usize; 1]> =
            last.map(|end| end - mem::replace(&mut from, end)).collect();
        let slices = |piece| (piece * each..rows.min((piece + 1) * each)).flat_map(&fields);
        extend_in_pieces(elements, &lens, slices, |pieces, write| match &mut workers {
            Some(workers) => workers.share(pieces.into_iter(), |_, piece| write(piece)),
            None => pieces.into_iter().for_each(write),
        });
        Ok(())
    }

    /// Like [`push_with`](Self::push_with), but appends nothing if `write` fails.
    ///
    /// # Errors
    /// The error of `write`.
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
