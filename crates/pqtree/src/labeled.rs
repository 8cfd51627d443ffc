//! Trees whose leaves have names of any type.

mod change;
mod error;
mod names;
mod orders;
#[cfg(feature = "serde")]
mod serde;
mod text;

pub use error::{LabeledAllError, LabeledError};
pub use text::LabeledParseError;

use crate::journal::{Checkpoint, Undo, attempt};
use crate::node::Kind;
use crate::reduce::Reduced;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use names::{Mark, Names, mix, mixed_hash};

/// A [`PqTree`] whose leaves are labels of any type that implements `Eq` and `Hash`.
///
/// Reductions and queries of one set accept any borrowed form of the labels, like the maps of the
/// standard library: `Labeled<String>` takes `["ant", "bee"]`. Other methods take slices of `T`,
/// which need fewer type annotations.
///
/// It has the methods of [`PqTree`], with labels for leaves. Looking up a set costs one hash per
/// label. Adding or removing leaves rebuilds the table of labels in O(n). Two trees are equal if
/// they admit the same orders of the same labels.
///
/// Call methods that do not involve labels on [`tree`](Self::tree): access to nodes, walks,
/// [`bytes`](PqTree::bytes). There is no `write_frontier`, because an iterator of references is
/// enough; no `canonical`, which would need ordered labels; and no `reserve`, because each new
/// label costs O(n) anyway.
///
/// With the feature `serde`, it is serialised as the text of the tree, such as `(0 1)`, in a field
/// `tree`, and the labels by leaf in a field `labels`.
///
/// ```
/// # use pqtree::Labeled;
/// let mut tree = Labeled::new(["ant", "bee", "cat", "dog"])?;
/// tree.reduce(&["bee", "dog"])?;
/// assert_eq!(tree.to_string(), "(ant cat (dog bee))");
/// # Ok::<(), pqtree::LabeledError>(())
/// ```
#[derive(Clone)]
pub struct Labeled<T> {
    tree: PqTree,
    names: Names<T>,
}

/// A state of a tree to return to, made by [`Labeled::checkpoint`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a checkpoint makes the tree log its changes until it is rolled back or committed"]
pub struct LabeledCheckpoint {
    tree: Checkpoint,
    names: Mark,
}

/// Labels that prove that a set cannot be made consecutive: a [`Conflict`](crate::Conflict) with
/// labels for leaves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct LabeledConflict<'a, T> {
    /// Labels of the set.
    pub inside: Vec<&'a T>,
    /// Labels outside the set.
    pub outside: Vec<&'a T>,
    /// The same proof by leaves, with its kind.
    pub conflict: crate::Conflict,
}

impl<T: Eq + Hash> Labeled<T> {
    /// Creates a tree that admits every order of these labels.
    pub fn new(labels: impl IntoIterator<Item = T>) -> Result<Self, LabeledError> {
        let labels: Vec<T> = labels.into_iter().collect();
        let leaves = u32::try_from(labels.len()).unwrap_or(u32::MAX);
        Self::with_tree(PqTree::try_new(leaves)?, labels)
    }

    /// Creates a tree from a tree of leaf numbers and a label for each leaf.
    ///
    /// # Panics
    ///
    /// If the number of labels is not the number of leaves, or a checkpoint of the tree is open.
    pub fn with_tree(tree: PqTree, labels: Vec<T>) -> Result<Self, LabeledError> {
        assert_eq!(tree.len() as usize, labels.len(), "expected one label per leaf");
        assert!(!tree.nodes.journal.is_open(), "a checkpoint of the tree is open: close it first");
        match Names::new(labels) {
            Ok(names) => Ok(Self { tree, names }),
            Err(index) => Err(LabeledError::Repeated { index }),
        }
    }

    /// Returns the leaf with a label.
    pub fn leaf<Q: Eq + Hash + ?Sized>(&self, label: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
    {
        self.names.leaf(label)
    }

    /// Returns the leaves with the given labels.
    ///
    /// # Errors
    ///
    /// If one of the labels belongs to no leaf.
    pub fn leaves<'a, Q: Eq + Hash + ?Sized + 'a>(
        &self,
        set: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<u32>, LabeledError>
    where
        T: Borrow<Q>,
    {
        let leaf = |(index, label)| self.leaf(label).ok_or(LabeledError::Unknown { index });
        set.into_iter().enumerate().map(leaf).collect()
    }

    /// Explains why [`reduce`](Self::reduce) refuses a set. See [`PqTree::conflict`].
    pub fn conflict<'a, Q: Eq + Hash + ?Sized + 'a>(
        &mut self,
        set: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Option<LabeledConflict<'_, T>>, LabeledError>
    where
        T: Borrow<Q>,
    {
        let leaves = self.leaves(set)?;
        let found = self.tree.conflict(&leaves)?;
        Ok(found.map(|conflict| LabeledConflict {
            inside: self.labels(conflict.inside()),
            outside: self.labels(conflict.outside()),
            conflict,
        }))
    }

    /// Returns the smallest superset that is consecutive in every order, from left to right. See
    /// [`PqTree::smallest_consecutive_superset`].
    pub fn smallest_consecutive_superset(&self, set: &[T]) -> Result<Vec<&T>, LabeledError> {
        let leaves = self.leaves(set)?;
        Ok(self.labels(self.tree.smallest_consecutive_superset(&leaves)?))
    }

    /// Reduces all of several sets, or none. See [`PqTree::reduce_all`].
    pub fn reduce_all<S: AsRef<[T]>>(
        &mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<(), LabeledAllError> {
        self.attempt(|tree| {
            for (index, set) in sets.into_iter().enumerate() {
                tree.reduce(set.as_ref()).map_err(|error| LabeledAllError { index, error })?;
            }
            Ok(())
        })
    }

    /// Reduces each set in turn and skips those that do not fit. See [`PqTree::reduce_greedy`].
    ///
    /// # Errors
    ///
    /// If a set has an unknown or repeated label. The tree is unchanged then.
    pub fn reduce_greedy<S: AsRef<[T]>>(
        &mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<Vec<bool>, LabeledAllError> {
        let sets = self.leaves_of_sets(sets)?;
        Ok(self.tree.reduce_greedy(sets)?)
    }

    /// Finds a minimal conflict among sets that cannot all be reduced. See
    /// [`PqTree::minimal_conflict`].
    pub fn minimal_conflict<S: AsRef<[T]>>(
        &mut self,
        sets: &[S],
    ) -> Result<Option<Vec<usize>>, LabeledAllError> {
        let sets = self.leaves_of_sets(sets)?;
        Ok(self.tree.minimal_conflict(&sets)?)
    }

    fn leaves_of_sets<S: AsRef<[T]>>(
        &self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<Vec<Vec<u32>>, LabeledAllError> {
        let leaves = |(index, set): (usize, S)| {
            self.leaves(set.as_ref()).map_err(|error| LabeledAllError { index, error })
        };
        sets.into_iter().enumerate().map(leaves).collect()
    }

    /// Runs `change`, and restores the tree if it fails. See [`PqTree::attempt`].
    pub fn attempt<R, E>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        attempt(self, change)
    }

    /// Opens a checkpoint. See [`PqTree::checkpoint`].
    pub fn checkpoint(&mut self) -> LabeledCheckpoint {
        LabeledCheckpoint { tree: self.tree.checkpoint(), names: self.names.mark() }
    }

    /// Restores the state at `checkpoint`, labels included. See [`PqTree::rollback`].
    ///
    /// # Panics
    ///
    /// If the checkpoint is not open in this tree.
    pub fn rollback(&mut self, checkpoint: LabeledCheckpoint) {
        self.tree.rollback(checkpoint.tree);
        self.names.roll_back(checkpoint.names);
    }

    /// Keeps all changes since `checkpoint`. See [`PqTree::commit`].
    ///
    /// # Panics
    ///
    /// If the checkpoint is not open in this tree.
    pub fn commit(&mut self, checkpoint: LabeledCheckpoint) {
        self.tree.commit(checkpoint.tree);
        self.forget_names_if_idle();
    }

    fn forget_names_if_idle(&mut self) {
        if !self.tree.nodes.journal.is_open() {
            self.names.forget();
        }
    }

    /// For each leaf, returns the leaf of `other` with its label. `None` if the labels differ.
    fn leaves_in(&self, other: &Self) -> Option<Vec<u32>> {
        let leaves = 0..self.tree.len();
        let other_leaves = leaves.map(|leaf| other.leaf(self.label(leaf)));
        if self.tree.len() == other.tree.len() { other_leaves.collect() } else { None }
    }
}

/// Declares methods that look up a set of labels and call the same method of the tree.
macro_rules! of_sets {
    ($($(#[$doc:meta])* $name:ident -> $Found:ty,)*) => {
        impl<T: Eq + Hash> Labeled<T> {$(
            $(#[$doc])*
            pub fn $name<'a, Q: Eq + Hash + ?Sized + 'a>(
                &mut self,
                set: impl IntoIterator<Item = &'a Q>,
            ) -> Result<$Found, LabeledError>
            where
                T: Borrow<Q>,
            {
                let leaves = self.leaves(set)?;
                Ok(self.tree.$name(&leaves)?)
            }
        )*}
    };
}

of_sets! {
    /// Keeps only the orders in which these labels are consecutive. See [`PqTree::reduce`].
    reduce -> Reduced,
    /// Checks that [`reduce`](Self::reduce) would succeed. See [`PqTree::can_reduce`].
    can_reduce -> (),
    /// Returns true if the labels are consecutive in every order. See [`PqTree::is_consecutive`].
    is_consecutive -> bool,
}

impl<T> Labeled<T> {
    /// Returns the tree of leaf numbers.
    pub fn tree(&self) -> &PqTree {
        &self.tree
    }

    /// Returns the tree of leaf numbers, and the labels by leaf.
    pub fn into_parts(self) -> (PqTree, Vec<T>) {
        (self.tree, self.names.into_labels())
    }

    /// Returns the number of labels.
    pub fn len(&self) -> u32 {
        self.tree.len()
    }

    /// Returns true if there are no labels.
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Returns the label of a leaf.
    ///
    /// # Panics
    ///
    /// If the leaf does not exist.
    pub fn label(&self, leaf: u32) -> &T {
        self.names.label(leaf)
    }

    /// Returns the labels of some leaves.
    fn labels(&self, leaves: impl IntoIterator<Item = u32>) -> Vec<&T> {
        leaves.into_iter().map(|leaf| self.label(leaf)).collect()
    }
}

impl<T: Eq + Hash> Undo for Labeled<T> {
    type Checkpoint = LabeledCheckpoint;

    fn open(&mut self) -> LabeledCheckpoint {
        LabeledCheckpoint { tree: self.tree.open(), names: self.names.mark() }
    }

    fn is_open(&self, checkpoint: &LabeledCheckpoint) -> bool {
        self.tree.is_open(&checkpoint.tree)
    }

    fn keep(&mut self, checkpoint: LabeledCheckpoint) {
        self.tree.keep(checkpoint.tree);
        self.forget_names_if_idle();
    }

    fn undo(&mut self, checkpoint: LabeledCheckpoint) {
        self.tree.undo(checkpoint.tree);
        self.names.roll_back(checkpoint.names);
    }
}

impl<T> Default for Labeled<T> {
    /// Returns the tree without labels.
    fn default() -> Self {
        Self { tree: PqTree::default(), names: Names::default() }
    }
}

impl<T: Eq + Hash> PartialEq for Labeled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.leaves_in(other)
            .is_some_and(|leaves| other.tree.project(&leaves).is_ok_and(|other| other == self.tree))
    }
}

impl<T: Eq + Hash> Eq for Labeled<T> {}

impl<T: Eq + Hash> Hash for Labeled<T> {
    /// Hashes the labels and the nodes, regardless of the numbers of the leaves, the order of the
    /// children of a P-node and the direction of a Q-node. *Cost*: O(n).
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut hashes = alloc::vec![0u64; self.tree.node_bound()];
        for node in self.tree.post_order() {
            let children = self.tree.children(node).map(|child| hashes[child.index()]);
            hashes[node.index()] = match self.tree.kind(node) {
                Kind::Leaf => mixed_hash(self.label(node.0)),
                Kind::P => mix(children.fold(0, u64::wrapping_add)),
                Kind::Q => {
                    // The hashes of the children are the digits of a number, read from either end.
                    const BASE: u64 = 0x9fb2_1c65_1e98_df25;
                    let (mut forwards, mut backwards, mut power) = (0u64, 0u64, 1u64);
                    for child in children {
                        forwards = forwards.wrapping_mul(BASE).wrapping_add(child);
                        backwards = backwards.wrapping_add(power.wrapping_mul(child));
                        power = power.wrapping_mul(BASE);
                    }
                    mix(forwards).wrapping_add(mix(backwards))
                }
            };
        }
        (self.len(), self.tree.root().map(|root| hashes[root.index()])).hash(state);
    }
}
