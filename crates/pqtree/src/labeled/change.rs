//! Changes of labels: inserting, removing, replacing, and combining trees by their labels.

use super::{Labeled, LabeledError};
use crate::conflict::{LeafError, ReduceError};
use crate::graft::Replaced;
use crate::node::NodeId;
use alloc::vec::Vec;
use core::hash::Hash;

impl<T: Eq + Hash> Labeled<T> {
    /// Adds a label without restrictions. See [`PqTree::insert`](crate::PqTree::insert).
    pub fn insert(&mut self, label: T) -> Result<u32, LabeledError> {
        self.check_new(core::slice::from_ref(&label), &[])?;
        let leaf = self.tree.insert()?;
        self.add(label);
        Ok(leaf)
    }

    /// Adds a label at a node. See [`PqTree::insert_under`](crate::PqTree::insert_under).
    ///
    /// # Panics
    ///
    /// If the node does not exist.
    pub fn insert_under(&mut self, node: NodeId, label: T) -> Result<u32, LabeledError> {
        self.check_new(core::slice::from_ref(&label), &[])?;
        let leaf = self.tree.insert_under(node)?;
        self.add(label);
        Ok(leaf)
    }

    fn add(&mut self, label: T) {
        let old = 0..self.tree.len() - 1;
        self.change(old.map(Ok).chain([Err(0)]), [label].into());
    }

    /// Removes a label, and reduces the numbers of all later leaves by one.
    pub fn remove(&mut self, label: &T) -> Result<(), LabeledError> {
        let leaf = self.leaf(label).ok_or(LabeledError::Unknown { index: 0 })?;
        self.tree.remove(leaf)?;
        let old = (0..=self.tree.len()).filter(|&other| other != leaf);
        self.change(old.map(Ok), Vec::new());
        Ok(())
    }

    /// Replaces a label by a tree. See [`PqTree::replace`](crate::PqTree::replace).
    pub fn replace(&mut self, label: &T, by: Self) -> Result<(), LabeledError> {
        let leaf = self.leaf(label).ok_or(LabeledError::Unknown { index: 0 })?;
        let old = self.tree.len();
        let (tree, labels) = by.into_parts();
        self.check_new(&labels, &[leaf])?;
        if labels.is_empty() {
            return self.remove(label);
        }
        self.tree.replace(leaf, &tree)?;
        let name = |other| if other == leaf { Err(0) } else { Ok(other) };
        let new = 1..labels.len();
        self.change((0..old).map(name).chain(new.map(Err)), labels);
        Ok(())
    }

    /// Reduces a set of labels and replaces it by others, which may be in any order. See
    /// [`PqTree::replace_set`](crate::PqTree::replace_set).
    ///
    /// # Errors
    ///
    /// Fails like [`reduce`](Self::reduce), and also if the set is empty or a new label is already
    /// in the tree.
    pub fn replace_set(&mut self, set: &[T], by: Vec<T>) -> Result<Replaced, LabeledError> {
        let leaves = self.leaves(set)?;
        let count = u32::try_from(by.len()).map_err(|_| too_many(by.len()))?;
        self.check_new(&by, &leaves)?;
        let old = self.tree.len();
        let replaced = self.tree.replace_set(&leaves, count)?;
        let mut names: Vec<_> = (0..old.max(self.tree.len())).map(Ok).collect();
        for &(from, to) in &replaced.moved {
            names[to as usize] = Ok(from);
        }
        for (new, &leaf) in replaced.leaves.iter().enumerate() {
            names[leaf as usize] = Err(new);
        }
        names.truncate(self.tree.len() as usize);
        self.change(names, by);
        Ok(replaced)
    }

    /// Reduces a set of labels and replaces it by one. See [`PqTree::merge`](crate::PqTree::merge).
    pub fn merge(&mut self, set: &[T], label: T) -> Result<Replaced, LabeledError> {
        self.replace_set(set, [label].into())
    }

    /// Keeps only the orders that `other` admits too. See
    /// [`PqTree::intersect`](crate::PqTree::intersect).
    ///
    /// # Errors
    ///
    /// If there is no common order, or the trees have different labels.
    pub fn intersect(&mut self, other: &Self) -> Result<bool, LabeledError> {
        let leaves = self.leaves_in(other).ok_or(LabeledError::Unknown { index: 0 })?;
        let other = other.tree.project(&leaves)?;
        Ok(self.tree.intersect(&other)?)
    }

    /// Returns the tree of the given labels alone. See [`PqTree::project`](crate::PqTree::project).
    pub fn project(&self, labels: &[T]) -> Result<Self, LabeledError>
    where
        T: Clone,
    {
        let leaves = self.leaves(labels)?;
        Self::with_tree(self.tree.project(&leaves)?, labels.to_vec())
    }

    /// Fails if a new label is repeated, or belongs to a leaf that is not in `gone`.
    fn check_new(&self, labels: &[T], gone: &[u32]) -> Result<(), LabeledError> {
        let is_taken = |label| self.leaf(label).is_some_and(|leaf| !gone.contains(&leaf));
        let refs = labels.iter().collect();
        super::Names::new(refs).map_err(|index| LabeledError::Repeated { index })?;
        match labels.iter().position(is_taken) {
            Some(index) => Err(LabeledError::Repeated { index }),
            None => Ok(()),
        }
    }

    fn change(&mut self, of_leaf: impl IntoIterator<Item = Result<u32, usize>>, new: Vec<T>) {
        self.names.change(of_leaf, new, self.tree.nodes.journal.is_open());
    }
}

fn too_many(leaves: usize) -> ReduceError {
    LeafError::TooMany { leaves: leaves as u64 }.into()
}
