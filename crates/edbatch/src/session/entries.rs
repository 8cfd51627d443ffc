//! The table of a session's values: the state and the place of each.
//!
//! An entry is used again when its value is released, with the next generation, so that old
//! handles are recognized. An entry whose generations are used up is not used again.

use edbatch_graph::RecordId;
use edbatch_runtime::BackendError;
use edbatch_runtime::kernels::prefetch;

use super::handle::{Handle, Named};

/// The last generation of an entry.
const MAX_GENERATION: u32 = (1 << 31) - 1;

/// The maximum number of entries, so that [`NONE`] is no index.
const MAX_ENTRIES: usize = u32::MAX as usize;

/// No index.
pub(super) const NONE: u32 = u32::MAX;

/// A value, or a free entry. Sessions may have millions, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Half of the handle, from 1.
    generation: u32,
    /// The index among the pending values, or the line of the row.
    pub(super) at: u32,
    /// The index among the stored values that pending calls read, if the entry there names this
    /// one.
    pub(super) read: u32,
    pub(super) record: RecordId,
    pub(super) state: State,
    /// True while a list of values with this one is checked.
    pub(super) is_marked: bool,
}

/// The state of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Pending,
    Stored,
}

/// All entries of a session.
#[derive(Debug, Default)]
pub(super) struct Entries {
    all: Vec<Entry>,
    /// The free entries. Has the capacity for all entries, so that removing one allocates nothing.
    free: Vec<u32>,
}

impl Entries {
    /// Makes room for more entries.
    ///
    /// # Errors
    /// If memory cannot be allocated, or there are too many entries.
    #[inline]
    pub(super) fn reserve(&mut self, additional: usize) -> Result<(), BackendError> {
        match self.free.len() >= additional {
            true => Ok(()),
            false => self.allocate(additional - self.free.len()),
        }
    }

    #[cold]
    fn allocate(&mut self, additional: usize) -> Result<(), BackendError> {
        let len = self.all.len().saturating_add(additional);
        let bytes = (len as u64).saturating_mul((size_of::<Entry>() + size_of::<u32>()) as u64);
        let error = BackendError::Memory { what: "the table of a session's values", bytes };
        if len > MAX_ENTRIES || self.all.try_reserve(additional).is_err() {
            return Err(error);
        }
        let free = self.all.capacity() - self.free.len();
        self.free.try_reserve(free).map_err(|_| error)
    }

    /// Adds a pending value. There must be [room](Self::reserve).
    #[inline]
    pub(super) fn add(&mut self, record: RecordId, at: u32) -> Handle {
        let (state, read, is_marked) = (State::Pending, NONE, false);
        if let Some(index) = self.free.pop() {
            let entry = &mut self.all[index as usize];
            *entry = Entry { at, read, record, state, is_marked, ..*entry };
            return Handle::of_entry(index, entry.generation);
        }
        let index = self.all.len() as u32;
        self.all.push(Entry { generation: 1, at, read, record, state, is_marked });
        Handle::of_entry(index, 1)
    }

    /// Returns the entry of a value, or `None` if it does not exist.
    #[inline]
    pub(super) fn find(&self, index: u32, generation: u32) -> Option<&Entry> {
        let entry = self.all.get(index as usize)?;
        (entry.generation == generation && entry.state != State::Free).then_some(entry)
    }

    /// Returns an entry by its index.
    #[inline]
    pub(super) fn get(&mut self, index: u32) -> &mut Entry {
        &mut self.all[index as usize]
    }

    /// Frees an entry. Its handle is invalid from now on.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) {
        let entry = &mut self.all[index as usize];
        (entry.state, entry.read) = (State::Free, NONE);
        if entry.generation < MAX_GENERATION {
            entry.generation += 1;
            self.free.push(index);
        }
    }

    /// Frees all entries.
    pub(super) fn clear(&mut self) {
        for index in 0..self.all.len() as u32 {
            if self.all[index as usize].state != State::Free {
                self.remove(index);
            }
        }
    }

    /// Prefetches the entry of a value, if it has one.
    #[inline]
    pub(super) fn prefetch(&self, value: Handle) {
        if let Named::Entry { index, .. } = value.named()
            && let Some(entry) = self.all.get(index as usize)
        {
            prefetch(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 20 - 4);
    }

    #[test]
    fn an_entry_whose_generations_are_used_up_is_not_used_again() {
        let mut entries = Entries::default();
        entries.reserve(1).unwrap();
        let first = entries.add(RecordId(0), 0);
        assert_eq!(first.to_bits(), 1 << 32);
        entries.get(0).generation = MAX_GENERATION - 1;
        entries.remove(0);
        entries.reserve(1).unwrap();
        let last = entries.add(RecordId(0), 0);
        assert_eq!(last.to_bits() >> 32, i64::from(MAX_GENERATION));
        assert!(last.to_bits() > 0 && entries.find(0, MAX_GENERATION).is_some());
        entries.remove(0);
        assert!(entries.find(0, MAX_GENERATION).is_none());
        entries.reserve(1).unwrap();
        let next = entries.add(RecordId(0), 0);
        assert_eq!(next.to_bits(), 1 << 32 | 1, "another entry");
        entries.clear();
        entries.reserve(2).unwrap();
        let handles = [0, 1].map(|at| entries.add(RecordId(0), at).to_bits());
        assert_eq!(handles, [2 << 32 | 1, 1 << 32 | 2]);
    }

    #[test]
    fn too_many_entries_are_an_error() {
        let mut entries = Entries::default();
        let error = entries.reserve(MAX_ENTRIES + 1).unwrap_err();
        assert!(matches!(error, BackendError::Memory { .. }), "{error}");
        entries.reserve(1).unwrap();
    }
}
