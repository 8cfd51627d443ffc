//! Removes values of a session.

use edbatch_runtime::StoredRow;

use super::entries::{Entry, NONE, State};
use super::handle::{Handle, Named};
use super::{Session, SessionError};

impl Session {
    /// Releases values, all of them or none: their handles are invalid from now on, and their
    /// memory is used again.
    ///
    /// Pending calls that read a released value still do. A pending value that is released is
    /// computed, and not stored.
    ///
    /// # Errors
    /// If a value does not exist, is an initial value, or occurs twice.
    pub fn release(&mut self, values: &[Handle]) -> Result<(), SessionError> {
        for (checked, &value) in values.iter().enumerate() {
            if let Err(error) = self.mark(value) {
                for value in &values[..checked] {
                    if let Named::Entry { index, .. } = value.named() {
                        self.entries.get(index).is_marked = false;
                    }
                }
                return Err(error);
            }
        }
        for value in values {
            if let Named::Entry { index, .. } = value.named() {
                self.release_entry(index);
            }
        }
        Ok(())
    }

    /// Marks a value that is about to be released. Fails if it cannot be.
    fn mark(&mut self, value: Handle) -> Result<(), SessionError> {
        let Some(entry) = self.find(value)? else { return Err(SessionError::Initial { value }) };
        if entry.is_marked {
            return Err(SessionError::Twice { value });
        }
        if let Named::Entry { index, .. } = value.named() {
            self.entries.get(index).is_marked = true;
        }
        Ok(())
    }

    fn release_entry(&mut self, index: u32) {
        let Entry { state, record, at, read, .. } = *self.entries.get(index);
        self.entries.remove(index);
        if state == State::Pending {
            self.pending[at as usize].entry = NONE;
            return;
        }
        self.counts.stored -= 1;
        self.counts.stored_bytes -= self.store.bytes_of(record);
        // A run must not write a row that it reads.
        match self.reads.get(read as usize) {
            Some(read) if read.entry == index => {
                self.deferred.push(StoredRow { record, line: at });
            }
            _ => self.store.free(record, at),
        }
    }

    /// Removes all pending values. Their handles are invalid from now on.
    pub fn discard(&mut self) {
        for pending in &self.pending {
            if pending.entry != NONE {
                self.entries.remove(pending.entry);
            }
        }
        self.clear_graph();
    }

    /// Removes all values, pending or stored. Keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.clear_graph();
        self.store.clear();
        (self.counts.stored, self.counts.stored_bytes) = (0, 0);
    }

    /// Clears the graph and all that belongs to it. Nothing reads released rows any more.
    pub(super) fn clear_graph(&mut self) {
        self.deferred.drain(..).for_each(|row| self.store.free(row.record, row.line));
        self.graph.clear();
        self.pending.clear();
        self.reads.clear();
        self.places.clear();
        self.host.clear();
    }
}
