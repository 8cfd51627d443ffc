//! Trees whose leaves have names of any type.

use crate::conflict::ReduceError;
use crate::reduce::Reduced;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

/// A [`PqTree`] whose leaves are labels: anything that can be compared and hashed.
///
/// ```
/// # use pqtree::Labeled;
/// let mut tree = Labeled::new(["ant", "bee", "cat", "dog"])?;
/// tree.reduce(&["bee", "dog"])?;
/// assert_eq!(tree.to_string(), "(ant cat (dog bee))");
/// # Ok::<(), pqtree::LabeledError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Labeled<T> {
    tree: PqTree,
    labels: Vec<T>,
    /// A hash table with open addressing: leaves, or `EMPTY`. A power of two, at most half full.
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

/// Why labels could not be reduced, or made the leaves of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LabeledError {
    /// A label that no leaf has: its place in the list given.
    Unknown {
        /// The place, from 0.
        index: usize,
    },
    /// Two leaves with the same label: the place of the second.
    Repeated {
        /// The place, from 0.
        index: usize,
    },
    /// The reduction failed. Leaves are named by their number.
    Reduce(ReduceError),
}

impl<T: Eq + Hash> Labeled<T> {
    /// The tree that admits every order of these labels.
    pub fn new(labels: impl IntoIterator<Item = T>) -> Result<Self, LabeledError> {
        let labels: Vec<T> = labels.into_iter().collect();
        Self::with_tree(PqTree::new(labels.len() as u32), labels)
    }

    /// A tree, with a label for each of its leaves.
    ///
    /// # Panics
    ///
    /// If there are not as many labels as leaves.
    pub fn with_tree(tree: PqTree, labels: Vec<T>) -> Result<Self, LabeledError> {
        assert_eq!(tree.len() as usize, labels.len(), "one label a leaf");
        let slots = alloc::vec![EMPTY; (2 * labels.len()).next_power_of_two()];
        let mut labeled = Self { tree, labels, slots };
        for index in 0..labeled.labels.len() {
            let slot = labeled.slot(&labeled.labels[index]);
            if labeled.slots[slot] != EMPTY {
                return Err(LabeledError::Repeated { index });
            }
            labeled.slots[slot] = index as u32;
        }
        Ok(labeled)
    }

    /// Keeps only those orders in which these labels are consecutive. See [`PqTree::reduce`].
    pub fn reduce(&mut self, set: &[T]) -> Result<Reduced, LabeledError> {
        let leaf = |(index, label)| self.leaf(label).ok_or(LabeledError::Unknown { index });
        let leaves: Vec<u32> = set.iter().enumerate().map(leaf).collect::<Result<_, _>>()?;
        self.tree.reduce(&leaves).map_err(LabeledError::Reduce)
    }

    /// The leaf with a label.
    pub fn leaf(&self, label: &T) -> Option<u32> {
        let leaf = self.slots[self.slot(label)];
        (leaf != EMPTY).then_some(leaf)
    }

    /// The slot of a label, or the empty one in which it belongs.
    fn slot(&self, label: &T) -> usize {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        label.hash(&mut hasher);
        let mask = self.slots.len() - 1;
        // The high bits of a product are mixed best.
        let mut slot = (hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.slots[slot] != EMPTY && self.labels[self.slots[slot] as usize] != *label {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

impl<T> Labeled<T> {
    /// The tree over leaf numbers.
    pub fn tree(&self) -> &PqTree {
        &self.tree
    }

    /// The tree over leaf numbers and the labels, by leaf.
    pub fn into_parts(self) -> (PqTree, Vec<T>) {
        (self.tree, self.labels)
    }

    /// The label of a leaf.
    ///
    /// # Panics
    ///
    /// If there is no such leaf.
    pub fn label(&self, leaf: u32) -> &T {
        &self.labels[leaf as usize]
    }

    /// The labels from left to right.
    pub fn frontier(&self) -> impl Iterator<Item = &T> {
        self.tree.frontier().map(|leaf| self.label(leaf))
    }
}

impl<T: fmt::Display> fmt::Display for Labeled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.write_text(f, |f, leaf| self.label(leaf).fmt(f))
    }
}

/// The hash function of Fowler, Noll and Vo: short, and good enough for a table that no adversary fills.
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

impl fmt::Display for LabeledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { index } => write!(f, "no leaf has the label at place {index}"),
            Self::Repeated { index } => {
                write!(f, "the label at place {index} was given before: each leaf needs its own")
            }
            Self::Reduce(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LabeledError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Reduce(error) => Some(error),
            _ => None,
        }
    }
}
