//! Rows of a batch: where a kernel reads them and where it writes them.

use std::{marker::PhantomData, mem::MaybeUninit, ops::Range};

/// Rows to read, in the order of the batch. A kernel follows the list itself: nothing is gathered
/// before it.
#[derive(Clone, Copy, Debug)]
pub enum RowsRef<'a> {
    /// Row `i` starts at `data[i * stride]`. The last row may end before a whole stride.
    Span {
        /// The rows, from the first float of the first one.
        data: &'a [f32],
        /// Floats from the start of a row to the start of the next, at least 1.
        stride: usize,
    },
    /// Row `i` starts at `data[offsets[i]]`. Rows may repeat and overlap.
    List {
        /// The memory that the offsets point into.
        data: &'a [f32],
        /// The first float of each row, in floats.
        offsets: &'a [u32],
    },
    /// As a list, in a memory of which another part is written meanwhile.
    Around {
        /// The memory that the offsets point into.
        data: Around<'a>,
        /// The first float of each row, in floats from the start of the whole memory.
        offsets: &'a [u32],
    },
}

impl<'a> RowsRef<'a> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            RowsRef::Span { data, stride } => data.len().div_ceil(*stride),
            RowsRef::List { offsets, .. } | RowsRef::Around { offsets, .. } => offsets.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `width` floats of row `i`.
    ///
    /// # Panics
    ///
    /// If there is no such row, or it leaves the memory.
    #[inline(always)]
    pub fn row(&self, i: usize, width: usize) -> &'a [f32] {
        match *self {
            RowsRef::Span { data, stride } => &data[i * stride..][..width],
            RowsRef::List { data, offsets } => &data[offsets[i] as usize..][..width],
            RowsRef::Around { data, offsets } => data.at(offsets[i] as usize, width),
        }
    }

    /// Writes to `starts[i]` where row `first + i` starts, from column `columns.start` on. It can
    /// be read, but not written, up to `columns.end`.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[inline]
    pub(super) fn starts(
        &self,
        first: usize,
        columns: Range<usize>,
        starts: &mut [MaybeUninit<*mut f32>],
    ) {
        match *self {
            RowsRef::Span { data, stride } => {
                let Some(last) = starts.len().checked_sub(1) else { return };
                // Where the last row is there, so are those before it.
                let _: &[f32] = &data[(first + last) * stride..][..columns.end];
                let mut start = data[first * stride..][columns.start..].as_ptr().cast_mut();
                for to in starts {
                    to.write(start);
                    start = start.wrapping_add(stride);
                }
            }
            _ => {
                for (i, to) in starts.iter_mut().enumerate() {
                    let row = self.row(first + i, columns.end);
                    to.write(row[columns.start..].as_ptr().cast_mut());
                }
            }
        }
    }

    /// The rows of a sub-range of the batch.
    ///
    /// # Panics
    ///
    /// If the range ends behind the last row.
    pub fn slice(&self, range: Range<usize>) -> RowsRef<'a> {
        match *self {
            RowsRef::Span { data, stride } => {
                assert!(range.end <= self.len(), "rows {range:?} of {}", self.len());
                RowsRef::Span {
                    data: &data[range.start * stride..data.len().min(range.end * stride)],
                    stride,
                }
            }
            RowsRef::List { data, offsets } => RowsRef::List { data, offsets: &offsets[range] },
            RowsRef::Around { data, offsets } => RowsRef::Around { data, offsets: &offsets[range] },
        }
    }
}

/// What can still be read of a memory while one range of it is written.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    before: &'a [f32],
    after: &'a [f32],
    /// Where `after` starts in the whole memory.
    resumes: usize,
}

/// Divides `memory` into the range to be written and the rest, which stays addressed by offsets
/// into the whole.
///
/// ```
/// use edbatch_runtime::kernels::rows::split_around;
/// let mut arena = [0.0, 1.0, 2.0, 3.0];
/// let (rest, written) = split_around(&mut arena, 1..3);
/// written.copy_from_slice(rest.list(&[3]).row(0, 1).repeat(2).as_slice());
/// assert_eq!(arena, [0.0, 3.0, 3.0, 3.0]);
/// ```
pub fn split_around(memory: &mut [f32], written: Range<usize>) -> (Around<'_>, &mut [f32]) {
    let (before, rest) = memory.split_at_mut(written.start);
    let (hole, after) = rest.split_at_mut(written.len());
    (Around { before, after, resumes: written.end }, hole)
}

impl<'a> Around<'a> {
    /// The same memory for rows that are read from column `by` on: offsets still name the rows'
    /// first columns, and a row lies on one side of what is written.
    pub fn shifted(self, by: usize) -> Around<'a> {
        let from = |side: &'a [f32]| &side[by.min(side.len())..];
        Around { before: from(self.before), after: from(self.after), resumes: self.resumes }
    }

    /// Rows at `offsets` into the whole memory.
    pub fn list(self, offsets: &'a [u32]) -> RowsRef<'a> {
        RowsRef::Around { data: self, offsets }
    }

    /// Rows `stride` apart in `range` of the whole memory.
    ///
    /// # Panics
    ///
    /// If the range touches what is written.
    pub fn span(self, range: Range<usize>, stride: usize) -> RowsRef<'a> {
        RowsRef::Span { data: self.at(range.start, range.len()), stride }
    }

    #[inline(always)]
    fn at(self, offset: usize, width: usize) -> &'a [f32] {
        if offset < self.before.len() {
            &self.before[offset..][..width]
        } else {
            assert!(offset >= self.resumes, "row at {offset} is being written");
            &self.after[offset - self.resumes..][..width]
        }
    }
}

/// Rows to write: `rows` of them, `width` columns each, `stride` apart. Like a `&mut [f32]` with
/// holes, it can be divided by rows or by columns and handed to several threads.
#[derive(Debug)]
pub struct RowsMut<'a> {
    /// *Invariant*: for r < rows and c < width, `start + r * stride + c` is writable during `'a`
    /// and reachable through nothing else.
    start: *mut f32,
    rows: usize,
    width: usize,
    stride: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: by the invariant it stands for exclusive references to floats, which may move to another
// thread.
unsafe impl Send for RowsMut<'_> {}
// SAFETY: nothing can be read or written through a shared reference to it.
unsafe impl Sync for RowsMut<'_> {}

impl<'a> RowsMut<'a> {
    /// As many rows of `width` columns as `data` holds, `stride >= width` apart; the last may end
    /// before a whole stride.
    ///
    /// # Panics
    ///
    /// If the stride is zero or less than the width, or the last row is not whole.
    pub fn new(data: &'a mut [f32], width: usize, stride: usize) -> RowsMut<'a> {
        assert!(stride >= width.max(1), "rows of {width} columns, but a stride of {stride}");
        let rows = data.len().div_ceil(stride);
        let needed = rows.saturating_sub(1) * stride + if rows > 0 { width } else { 0 };
        assert!(
            data.len() >= needed,
            "{rows} rows of {width} by {stride} need {needed} floats, got {}",
            data.len()
        );
        RowsMut { start: data.as_mut_ptr(), rows, width, stride, memory: PhantomData }
    }

    /// Contiguous rows of `width` columns.
    pub fn contiguous(data: &'a mut [f32], width: usize) -> RowsMut<'a> {
        RowsMut::new(data, width, width)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline(always)]
    pub fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: i < rows, so by the invariant the `width` floats are ours; `&mut self` makes this
        // the one borrow.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.width) }
    }

    /// Writes to `starts[i]` where row `first + i` starts, from column `column` on: until the next
    /// use of `self`, they may be written up to the rows' width.
    ///
    /// # Panics
    ///
    /// If there are fewer rows or columns.
    #[inline]
    pub(super) fn starts(
        &mut self,
        first: usize,
        column: usize,
        starts: &mut [MaybeUninit<*mut f32>],
    ) {
        assert!(first + starts.len() <= self.rows && column <= self.width, "rows to write");
        let mut start = self.start.wrapping_add(first * self.stride + column);
        for to in starts {
            to.write(start);
            start = start.wrapping_add(self.stride);
        }
    }

    /// The same rows, for a shorter time.
    pub fn reborrow(&mut self) -> RowsMut<'_> {
        RowsMut { memory: PhantomData, ..*self }
    }

    /// The rows before `at`, and the others.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn split_rows(self, at: usize) -> (RowsMut<'a>, RowsMut<'a>) {
        assert!(at <= self.rows, "row {at} of {}", self.rows);
        let start = self.start.wrapping_add(at * self.stride);
        (RowsMut { rows: at, ..self }, RowsMut { start, rows: self.rows - at, ..self })
    }

    /// The columns before `at` of every row, and the others.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn split_columns(self, at: usize) -> (RowsMut<'a>, RowsMut<'a>) {
        assert!(at <= self.width, "column {at} of {}", self.width);
        let start = self.start.wrapping_add(at);
        (RowsMut { width: at, ..self }, RowsMut { start, width: self.width - at, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [f32; 7] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

    #[test]
    fn spans_and_lists_are_read_and_sliced() {
        let span = RowsRef::Span { data: &DATA, stride: 3 };
        assert_eq!((span.len(), span.row(2, 1)), (3, &[6.0][..]));
        assert_eq!(span.slice(1..3).row(0, 2), [3.0, 4.0]);
        assert_eq!(span.slice(0..2).len(), 2);
        let list = RowsRef::List { data: &DATA, offsets: &[5, 0, 2] };
        assert_eq!(list.slice(1..3).row(1, 3), [2.0, 3.0, 4.0]);
        assert!(RowsRef::Span { data: &[], stride: 3 }.is_empty());
    }

    #[test]
    fn around_a_hole_offsets_count_the_whole() {
        let mut data = DATA;
        let (rest, hole) = split_around(&mut data, 2..4);
        assert_eq!(hole, [2.0, 3.0]);
        assert_eq!(rest.list(&[0, 4]).row(1, 3), [4.0, 5.0, 6.0]);
        assert_eq!(rest.span(4..7, 2).row(1, 1), [6.0]);
    }

    #[test]
    fn rows_around_a_hole_are_read_from_a_column_on() {
        let mut data = DATA;
        let (rest, _) = split_around(&mut data, 2..4);
        let columns = rest.shifted(1).list(&[0, 4]);
        assert_eq!((columns.row(0, 1), columns.row(1, 2)), (&[1.0][..], &[5.0, 6.0][..]));
        assert!(rest.shifted(9).list(&[0, 4]).row(1, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "is being written")]
    fn a_row_in_the_hole_cannot_be_read() {
        let mut data = DATA;
        split_around(&mut data, 2..4).0.list(&[3]).row(0, 1);
    }

    #[test]
    fn divided_rows_are_written_apart() {
        let mut data = [0.0; 8];
        let (left, right) = RowsMut::new(&mut data, 3, 4).split_columns(2);
        let (mut upper, mut lower) = left.split_rows(1);
        upper.row(0).fill(1.0);
        lower.row(0).fill(2.0);
        { right }.row(1).fill(3.0);
        assert_eq!(data, [1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 3.0, 0.0]);
    }

    #[test]
    #[should_panic(expected = "need 7 floats")]
    fn a_row_that_is_cut_off_is_refused() {
        RowsMut::new(&mut [0.0; 6], 3, 4);
    }
}
