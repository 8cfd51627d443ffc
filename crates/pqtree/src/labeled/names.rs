//! The mapping between leaves and labels.
//!
//! Labels are kept in the order of their insertion and found by a hash table. Leaves change their
//! numbers, so one table maps leaves to labels and another one labels to leaves. While a checkpoint
//! is open, no label is dropped and earlier tables are kept.

use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};

const NONE: u32 = u32::MAX;

/// Labels and their leaves.
#[derive(Clone)]
pub(super) struct Names<T> {
    labels: Vec<T>,
    /// For each leaf, the place of its label in `labels`.
    of_leaf: Vec<u32>,
    /// For each label, by place: its leaf, or `NONE` if the leaf was removed.
    leaf_of: Vec<u32>,
    /// A hash table with open addressing: places of labels with a leaf, or `NONE`. Its length is a
    /// power of two, and it is at most half full.
    slots: Vec<u32>,
    /// The values of `of_leaf` before each change since the first open checkpoint was opened.
    history: Vec<Vec<u32>>,
}

/// The number of labels, and of earlier tables in `history`, at a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    labels: usize,
    changes: usize,
}

impl<T> Names<T> {
    pub(super) fn label(&self, leaf: u32) -> &T {
        &self.labels[self.of_leaf[leaf as usize] as usize]
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { labels: self.labels.len(), changes: self.history.len() }
    }

    /// Returns the labels by leaf.
    pub(super) fn into_labels(self) -> Vec<T> {
        let mut labels: Vec<Option<T>> = self.labels.into_iter().map(Some).collect();
        let take = |&place: &u32| labels[place as usize].take().expect("each label has one leaf");
        self.of_leaf.iter().map(take).collect()
    }
}

impl<T: Eq + Hash> Names<T> {
    /// Takes a label for each leaf. Fails with the index of a repeated label.
    pub(super) fn new(labels: Vec<T>) -> Result<Self, usize> {
        let of_leaf = (0..labels.len() as u32).collect();
        let mut names = Self { labels, of_leaf, ..Self::default() };
        names.index().map(|()| names)
    }

    pub(super) fn leaf<Q: Eq + Hash + ?Sized>(&self, label: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
    {
        let place = *self.slots.get(self.slot(label)?)?;
        (place != NONE).then(|| self.leaf_of[place as usize])
    }

    /// Assigns labels to leaves. For each leaf, `of_leaf` holds the leaf that had its label before,
    /// or `Err` with the index of its label in `new`.
    pub(super) fn change(
        &mut self,
        of_leaf: impl IntoIterator<Item = Result<u32, usize>>,
        new: Vec<T>,
        keep: bool,
    ) {
        let first = self.labels.len();
        let place = |leaf| match leaf {
            Ok(old) => self.of_leaf[old as usize],
            Err(new) => (first + new) as u32,
        };
        let changed = of_leaf.into_iter().map(place).collect();
        let old = core::mem::replace(&mut self.of_leaf, changed);
        self.labels.extend(new);
        if keep {
            self.history.push(old);
        } else {
            self.forget();
        }
        self.index().expect("the caller checked that no label is repeated");
    }

    /// Restores the labels and leaves of a checkpoint.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        let old = self.history.drain(mark.changes..).next();
        if let Some(old) = old {
            self.of_leaf = old;
            self.labels.truncate(mark.labels);
            self.index().expect("no label was repeated at the mark");
        }
    }

    /// Drops labels and tables that no checkpoint needs.
    pub(super) fn forget(&mut self) {
        self.history.clear();
        if self.labels.len() > self.of_leaf.len() {
            let mut labels: Vec<Option<T>> =
                core::mem::take(&mut self.labels).into_iter().map(Some).collect();
            let take =
                |&place: &u32| labels[place as usize].take().expect("each label has one leaf");
            self.labels = self.of_leaf.iter().map(take).collect();
            self.of_leaf = (0..self.labels.len() as u32).collect();
            self.index().expect("no label was repeated before");
        }
    }

    /// Rebuilds the tables. Fails with a leaf whose label is repeated.
    fn index(&mut self) -> Result<(), usize> {
        self.leaf_of = alloc::vec![NONE; self.labels.len()];
        self.slots = alloc::vec![NONE; (2 * self.of_leaf.len()).next_power_of_two().max(2)];
        for (leaf, &place) in self.of_leaf.iter().enumerate() {
            self.leaf_of[place as usize] = leaf as u32;
            let slot = self.slot(&self.labels[place as usize]).ok_or(leaf)?;
            if self.slots[slot] != NONE {
                return Err(leaf);
            }
            self.slots[slot] = place;
        }
        Ok(())
    }

    /// Returns the slot of a label, or the empty slot where it belongs.
    fn slot<Q: Eq + Hash + ?Sized>(&self, label: &Q) -> Option<usize>
    where
        T: Borrow<Q>,
    {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = mixed_hash(label) as usize & mask;
        let is_other = |place: u32| self.labels[place as usize].borrow() != label;
        while self.slots[slot] != NONE && is_other(self.slots[slot]) {
            slot = (slot + 1) & mask;
        }
        Some(slot)
    }
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        let (labels, of_leaf, leaf_of, slots, history) = Default::default();
        Self { labels, of_leaf, leaf_of, slots, history }
    }
}

/// Returns a hash of a label, the same in every process.
pub(super) fn mixed_hash(label: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    label.hash(&mut hasher);
    mix(hasher.finish())
}

/// Spreads each bit over all others.
pub(super) fn mix(number: u64) -> u64 {
    let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product ^ product >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_right(32)
}

/// The Fowler–Noll–Vo hash function: short, and good enough for a table without adversarial keys.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
