//! Rows of a batch, to read ([`RowsRef`]) and to write ([`RowsMut`]).

use std::{marker::PhantomData, mem::MaybeUninit, ops::Range};

/// Rows to read, in the order of the batch. Kernels follow a list of offsets themselves, so rows
/// need not be gathered first.
#[derive(Clone, Copy, Debug)]
pub enum RowsRef<'a> {
    /// Row `i` starts at `data[i * stride]`. The last row may be shorter than the stride.
    Span {
        /// The memory of the rows, starting with the first row.
        data: &'a [f32],
        /// Distance in floats from the start of a row to the start of the next, at least 1.
        stride: usize,
    },
    /// Row `i` starts at `data[offsets[i]]`. Rows may repeat and overlap.
    List {
        /// The memory that the offsets point into.
        data: &'a [f32],
        /// The offset of each row, in floats.
        offsets: &'a [u32],
    },
    /// Like `List`, but one range of the memory is being written and must not be read.
    Around {
        /// The memory that the offsets point into.
        data: Around<'a>,
        /// The offset of each row, in floats from the start of the whole memory.
        offsets: &'a [u32],
    },
}

impl<'a> RowsRef<'a> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            RowsRef::Span { data, stride } => data.len().div_ceil(*stride),
            RowsRef::List { offsets, .. } | RowsRef::Around { offsets, .. } => offsets.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first `width` floats of row `i`.
    ///
    /// # Panics
    ///
    /// If there is no row `i`, or it extends past the end of the memory.
    #[inline(always)]
    pub fn row(&self, i: usize, width: usize) -> &'a [f32] {
        match *self {
            RowsRef::Span { data, stride } => &data[i * stride..][..width],
            RowsRef::List { data, offsets } => &data[offsets[i] as usize..][..width],
            RowsRef::Around { data, offsets } => data.at(offsets[i] as usize, width),
        }
    }

    /// Sets `starts[i]` to a pointer to column `columns.start` of row `first + i`. The row can be
    /// read through it, but not written, up to column `columns.end`.
    ///
    /// # Panics
    ///
    /// If a row does not exist or is shorter than `columns.end`.
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
                // If the last row is within `data`, so are the rows before it.
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
}

/// Memory that can be read except for one range, which is being written.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    before: &'a [f32],
    after: &'a [f32],
    /// The offset of `after` in the whole memory.
    after_offset: usize,
}

/// Splits `memory` into the range `written`, to be written, and the rest, to be read. Offsets into
/// the rest still count from the start of `memory`.
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
    (Around { before, after, after_offset: written.end }, hole)
}

impl<'a> Around<'a> {
    /// Returns the same memory, shifted by `by` floats: the offset of a row now points to the
    /// row's column `by`.
    pub fn shifted(self, by: usize) -> Around<'a> {
        let from = |side: &'a [f32]| &side[by.min(side.len())..];
        Around {
            before: from(self.before),
            after: from(self.after),
            after_offset: self.after_offset,
        }
    }

    /// Returns the rows at `offsets` into the whole memory.
    pub fn list(self, offsets: &'a [u32]) -> RowsRef<'a> {
        RowsRef::Around { data: self, offsets }
    }

    /// Returns the rows in `range` of the whole memory, `stride` floats apart.
    ///
    /// # Panics
    ///
    /// If the range overlaps the written range.
    pub fn span(self, range: Range<usize>, stride: usize) -> RowsRef<'a> {
        RowsRef::Span { data: self.at(range.start, range.len()), stride }
    }

    #[inline(always)]
    fn at(self, offset: usize, width: usize) -> &'a [f32] {
        if offset < self.before.len() {
            &self.before[offset..][..width]
        } else {
            assert!(offset >= self.after_offset, "row at {offset} is being written");
            &self.after[offset - self.after_offset..][..width]
        }
    }
}

/// Rows to write: `rows` rows of `width` columns, `stride` floats apart, like a `&mut [f32]` with
/// gaps. Can be split by columns, so that several threads write parts of the same rows.
#[derive(Debug)]
pub struct RowsMut<'a> {
    /// *Invariant*: for r < rows and c < width, `start + r * stride + c` is writable during `'a`,
    /// and no other reference reaches it.
    start: *mut f32,
    rows: usize,
    width: usize,
    stride: usize,
    memory: PhantomData<&'a mut [f32]>,
}

// SAFETY: by the invariant it is an exclusive reference to floats, which may move to another
// thread.
unsafe impl Send for RowsMut<'_> {}
// SAFETY: a shared reference to it gives no access to the floats.
unsafe impl Sync for RowsMut<'_> {}

impl<'a> RowsMut<'a> {
    /// Rows of `width` columns that fill `data`, `stride` floats apart. The last row may be shorter
    /// than the stride.
    ///
    /// # Panics
    ///
    /// If the stride is zero or less than the width, or the last row is shorter than the width.
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

    /// Contiguous rows of `width` columns that fill `data`.
    ///
    /// # Panics
    ///
    /// If the width is zero, or the last row is shorter than the width.
    pub fn contiguous(data: &'a mut [f32], width: usize) -> RowsMut<'a> {
        RowsMut::new(data, width, width)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of columns of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns row `i`.
    ///
    /// # Panics
    ///
    /// If there is no row `i`.
    #[inline(always)]
    pub fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: i < rows, so by the invariant the `width` floats are ours, and `&mut self` makes
        // this the only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.stride), self.width) }
    }

    /// Sets `starts[i]` to a pointer to column `column` of row `first + i`. It may be written up to
    /// the width of the row, until the next use of `self`.
    ///
    /// # Panics
    ///
    /// If a row or the column does not exist.
    #[inline]
    pub(super) fn starts(
        &mut self,
        first: usize,
        column: usize,
        starts: &mut [MaybeUninit<*mut f32>],
    ) {
        assert!(
            first + starts.len() <= self.rows && column <= self.width,
            "rows {first}..{} from column {column} of {self:?}",
            first + starts.len()
        );
        let mut start = self.start.wrapping_add(first * self.stride + column);
        for to in starts {
            to.write(start);
            start = start.wrapping_add(self.stride);
        }
    }

    /// Splits every row into the columns before `at` and the columns from `at` on.
    ///
    /// # Panics
    ///
    /// If there are fewer than `at` columns.
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
    fn rows_of_spans_and_lists() {
        let span = RowsRef::Span { data: &DATA, stride: 3 };
        assert_eq!((span.len(), span.row(2, 1)), (3, &[6.0][..]));
        let list = RowsRef::List { data: &DATA, offsets: &[5, 0, 2] };
        assert_eq!((list.len(), list.row(2, 3)), (3, &[2.0, 3.0, 4.0][..]));
        assert!(RowsRef::Span { data: &[], stride: 3 }.is_empty());
    }

    #[test]
    fn offsets_around_a_hole_count_from_the_start() {
        let mut data = DATA;
        let (rest, hole) = split_around(&mut data, 2..4);
        assert_eq!(hole, [2.0, 3.0]);
        assert_eq!(rest.list(&[0, 4]).row(1, 3), [4.0, 5.0, 6.0]);
        assert_eq!(rest.span(4..7, 2).row(1, 1), [6.0]);
    }

    #[test]
    fn shifted_memory_skips_columns() {
        let mut data = DATA;
        let (rest, _) = split_around(&mut data, 2..4);
        let columns = rest.shifted(1).list(&[0, 4]);
        assert_eq!((columns.row(0, 1), columns.row(1, 2)), (&[1.0][..], &[5.0, 6.0][..]));
        assert!(rest.shifted(9).list(&[0, 4]).row(1, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "is being written")]
    fn reading_a_row_in_the_hole_panics() {
        let mut data = DATA;
        split_around(&mut data, 2..4).0.list(&[3]).row(0, 1);
    }

    #[test]
    fn split_columns_are_disjoint() {
        let mut data = [0.0; 8];
        let (mut left, mut right) = RowsMut::new(&mut data, 3, 4).split_columns(2);
        left.row(0).fill(1.0);
        left.row(1).fill(2.0);
        right.row(1).fill(3.0);
        assert_eq!(data, [1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 3.0, 0.0]);
    }

    #[test]
    #[should_panic(expected = "need 7 floats")]
    fn incomplete_last_row_panics() {
        RowsMut::new(&mut [0.0; 6], 3, 4);
    }
}
