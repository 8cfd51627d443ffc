//! The lines of a slot's store that are in use, and the free rows.
//!
//! A row takes whole lines, in the layout that it has in the arena, so that it is moved by one
//! copy. Rows of equal length share a list of free rows. If the list is empty, a slab of rows is
//! taken from the end of the store. So memory is reused exactly, and nothing is ever moved.

use edbatch_graph::RecordId;
use edbatch_layout::{LINE, Program};
use edbatch_runtime::BackendError;

/// The number of rows that are taken from the end of the store together.
const SLAB: usize = 64;

/// The exclusive limit of line numbers.
const MAX_LINES: usize = 1 << 32;

/// The rows of a store.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// By record: the index of its length in `lengths`.
    length_of: Vec<u16>,
    lengths: Vec<Rows>,
    /// The number of lines of all slabs.
    end: usize,
    /// The number of lines of the rows in use.
    in_use: usize,
}

/// The rows of one length.
#[derive(Debug)]
struct Rows {
    /// The number of lines of a row.
    lines: usize,
    /// The number of rows in all slabs. The list of free rows has the capacity for all of them.
    all: usize,
    /// The first lines of the free rows.
    free: Vec<u32>,
    /// The number of rows that [`Store::reserve`] was asked for.
    needed: usize,
}

impl Store {
    /// An empty store for the records of a program.
    pub(crate) fn new(program: &Program) -> Self {
        let records = 0..program.network().records().len();
        let lines = |record| program.record(RecordId(record as u16)).stride as usize / LINE;
        let mut all: Vec<usize> = records.clone().map(lines).collect();
        all.sort_unstable();
        all.dedup();
        let length_of = |record| all.binary_search(&lines(record)).expect("listed above") as u16;
        let length_of = records.map(length_of).collect();
        let rows = |lines| Rows { lines, all: 0, free: Vec::new(), needed: 0 };
        let lengths = all.iter().copied().map(rows).collect();
        Self { length_of, lengths, end: 0, in_use: 0 }
    }

    /// Makes sure that there is a free row for each of these records.
    ///
    /// # Errors
    /// If memory cannot be allocated, or the lines cannot be numbered. The store is then as it
    /// was.
    pub(crate) fn reserve(
        &mut self,
        records: impl Iterator<Item = RecordId>,
    ) -> Result<(), BackendError> {
        self.lengths.iter_mut().for_each(|rows| rows.needed = 0);
        for record in records {
            self.lengths[usize::from(self.length_of[usize::from(record.0)])].needed += 1;
        }
        let before = self.end;
        let added = self.lengths.iter_mut().try_for_each(|rows| rows.add_slabs(&mut self.end));
        if added.is_err() {
            self.shrink(before);
        }
        added
    }

    /// Takes a free row, which must be [reserved](Self::reserve). Returns its first line.
    pub(crate) fn take(&mut self, record: RecordId) -> u32 {
        let rows = &mut self.lengths[usize::from(self.length_of[usize::from(record.0)])];
        self.in_use += rows.lines;
        rows.free.pop().expect("rows are reserved")
    }

    /// Frees a row in use.
    pub(crate) fn free(&mut self, record: RecordId, line: u32) {
        let rows = &mut self.lengths[usize::from(self.length_of[usize::from(record.0)])];
        self.in_use -= rows.lines;
        debug_assert!(rows.free.len() < rows.all, "a row is freed once");
        rows.free.push(line);
    }

    /// Frees all rows, of all lengths.
    pub(crate) fn clear(&mut self) {
        for rows in &mut self.lengths {
            rows.free.clear();
            rows.all = 0;
        }
        (self.end, self.in_use) = (0, 0);
    }

    /// Gives back the slabs from this line on. None of their rows may be in use.
    pub(crate) fn shrink(&mut self, end: usize) {
        for rows in &mut self.lengths {
            let before = rows.free.len();
            rows.free.retain(|&line| (line as usize) < end);
            rows.all -= before - rows.free.len();
        }
        self.end = end;
    }

    /// Returns the number of lines that the backend must hold.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Returns the number of bytes of the rows in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.in_use * LINE * size_of::<f32>()) as u64
    }

    /// Returns the number of bytes of a row.
    pub(crate) fn bytes_of(&self, record: RecordId) -> u64 {
        let rows = &self.lengths[usize::from(self.length_of[usize::from(record.0)])];
        (rows.lines * LINE * size_of::<f32>()) as u64
    }
}

impl Rows {
    /// Takes slabs from the end of the store, until there are as many free rows as needed.
    fn add_slabs(&mut self, end: &mut usize) -> Result<(), BackendError> {
        let missing = self.needed.saturating_sub(self.free.len()).next_multiple_of(SLAB);
        let what = "the list of stored values";
        let bytes = (size_of::<u32>() * (self.all + missing)) as u64;
        let lines = missing.checked_mul(self.lines).and_then(|lines| lines.checked_add(*end));
        let Some(new_end) = lines.filter(|&lines| lines <= MAX_LINES) else {
            let bytes = (missing as u64).saturating_mul((self.lines * LINE * 4) as u64);
            return Err(BackendError::Memory { what: "the stored values", bytes });
        };
        // Also for the rows in use, so that freeing them allocates nothing.
        self.free
            .try_reserve(self.all + missing - self.free.len())
            .map_err(|_| BackendError::Memory { what, bytes })?;
        // The row with the lowest line is taken first.
        self.free.extend((*end..new_end).step_by(self.lines).rev().map(|line| line as u32));
        (self.all, *end) = (self.all + missing, new_end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use edbatch_graph::{Network, Shape};
    use edbatch_layout::CellStyle;
    use edbatch_testing::networks::Random;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Records of one line, three lines, one line and four lines.
    fn store() -> Store {
        let mut network = Network::new();
        for (name, width) in [("a", 5), ("b", 40), ("c", 16), ("d", 49)] {
            network.record(name, [(name, Shape::Vector(width))]).unwrap();
        }
        Store::new(&Program::new(Arc::new(network), CellStyle::default()).unwrap())
    }

    const LINES: [usize; 4] = [1, 3, 1, 4];

    #[test]
    fn rows_in_use_never_overlap_and_freed_rows_are_used_again() {
        let (mut store, mut rng) = (store(), Random::seed_from_u64(1));
        let mut used: Vec<(RecordId, u32)> = Vec::new();
        let (mut owner, mut most) = (Vec::new(), 0);
        for round in 0..2_000 {
            let taken: Vec<RecordId> =
                (0..rng.random_range(0..100)).map(|_| RecordId(rng.random_range(0..4))).collect();
            store.reserve(taken.iter().copied()).unwrap();
            owner.resize(store.end(), false);
            for record in taken {
                let line = store.take(record);
                let range = line as usize..line as usize + LINES[usize::from(record.0)];
                assert!(!owner[range.clone()].contains(&true), "round {round}");
                owner[range].fill(true);
                used.push((record, line));
            }
            // Keep at most 150 rows.
            while used.len() > 150 || !used.is_empty() && rng.random_bool(0.9) {
                let (record, line) = used.swap_remove(rng.random_range(0..used.len()));
                owner[line as usize..line as usize + LINES[usize::from(record.0)]].fill(false);
                store.free(record, line);
            }
            most = most.max(store.end());
            if rng.random_bool(0.01) {
                store.clear();
                used.clear();
                owner.clear();
                assert_eq!(store.end(), 0);
            }
        }
        // At most 250 rows were in use, in slabs of three lengths.
        assert!(most <= (250 + 3 * SLAB) * 4, "{most} lines");
    }

    #[test]
    fn slabs_are_given_back_if_lines_cannot_be_numbered() {
        let mut store = store();
        store.reserve([RecordId(0)].into_iter()).unwrap();
        let kept = store.take(RecordId(2));
        let end = store.end();
        assert_eq!((kept, end), (0, SLAB));
        store.end = MAX_LINES - 3 * SLAB - 1;
        let before = store.end;
        // The slab of one line fits, the one of three lines does not.
        let records = (0..SLAB).map(|_| RecordId(0)).chain([RecordId(1)]);
        let error = store.reserve(records).unwrap_err();
        let what = "the stored values";
        assert!(matches!(error, BackendError::Memory { what: got, .. } if got == what), "{error}");
        assert_eq!(store.end, before);
        let free: Vec<usize> = store.lengths.iter().map(|rows| rows.free.len()).collect();
        assert_eq!(free, [SLAB - 1, 0, 0]);
        store.free(RecordId(0), kept);
        store.reserve((0..SLAB).map(|_| RecordId(2))).unwrap();
        assert_eq!(store.end, before);
    }
}
