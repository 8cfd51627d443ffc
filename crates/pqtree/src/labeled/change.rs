//! Other labels: inserted, removed, replaced; trees put together by labels.

use super::{Labeled, LabeledError};
use crate::conflict::{LeafError, ReduceError};
use crate::graft::Replaced;
use crate::node::NodeId;
use alloc::vec::Vec;
use core::hash::Hash;

impl<T: Eq + Hash> Labeled<T> {
    /// Adds a label that no restriction binds. See [`PqTree::insert`](crate::PqTree::insert).
    pub fn insert(&mut self, label: T) -> Result<u32, LabeledError> {
        self.check_new(core::slice::from_ref(&label), &[])?;
        let leaf = self.tree.insert()?;
        self.add(label);
        Ok(leaf)
    }

    /// Adds a label to those below a node. See
    /// [`PqTree::insert_under`](crate::PqTree::insert_under).
    ///
    /// # Panics
    ///
    /// If there is no such node.
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

    /// Removes a label. The leaves after it get numbers less by one.
    pub fn remove(&mut self, label: &T) -> Result<(), LabeledError> {
        let leaf = self.leaf(label).ok_or(LabeledError::Unknown { index: 0 })?;
        self.tree.remove(leaf)?;
        let old = (0..=self.tree.len()).filter(|&other| other != leaf);
        self.change(old.map(Ok), Vec::new());
        Ok(())
    }

    /// Puts a tree in the place of a label. See [`PqTree::replace`](crate::PqTree::replace).
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

    /// Reduces a set of labels and puts others in its place, which may stand in any order. See
    /// [`PqTree::replace_set`](crate::PqTree::replace_set).
    ///
    /// # Errors
    ///
    /// As of [`reduce`](Self::reduce); and if the set is empty, or a new label is one that stays.
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

    /// Reduces a set of labels and makes it one. See [`PqTree::merge`](crate::PqTree::merge).
    pub fn merge(&mut self, set: &[T], label: T) -> Result<Replaced, LabeledError> {
        self.replace_set(set, [label].into())
    }

    /// Keeps only those orders that `other` admits too. See
    /// [`PqTree::intersect`](crate::PqTree::intersect).
    ///
    /// # Errors
    ///
    /// If there is no such order, or the trees have not the same labels.
    pub fn intersect(&mut self, other: &Self) -> Result<bool, LabeledError> {
        let leaves = self.leaves_in(other).ok_or(LabeledError::Unknown { index: 0 })?;
        let other = other.tree.project(&leaves)?;
        Ok(self.tree.intersect(&other)?)
    }

    /// The tree of the orders of this one with all but some labels left out. See
    /// [`PqTree::project`](crate::PqTree::project).
    pub fn project(&self, labels: &[T]) -> Result<Self, LabeledError>
    where
        T: Clone,
    {
        let leaves = self.leaves(labels)?;
        Self::with_tree(self.tree.project(&leaves)?, labels.to_vec())
    }

    /// An error if a new label is there twice, or is one of a leaf that stays.
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
