//! Reduction: keeps only the orders in which a set is consecutive.
//!
//! A reduction has three steps, each in a module of its own: [label](crate::label) the nodes,
//! [check](crate::check) that the set can be made consecutive, and [rearrange](crate::rearrange)
//! the tree. The first two write only marks, so a failed reduction has nothing to undo.
//! [`can_reduce`](PqTree::can_reduce) runs these two.

use crate::conflict::{LeafError, ReduceError};
use crate::node::NodeId;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;

/// The result of a successful reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Reduced {
    /// True if the tree now admits fewer orders. If false, the set was consecutive in every order
    /// already and no node changed. [`PqTree::changed`] lists the changed nodes.
    pub changed: bool,
    /// The node that holds the set: either the set is all leaves of this node, or the node is a
    /// Q-node and the set is the leaves of some neighbouring children. `None` for the empty set.
    pub home: Option<NodeId>,
}

/// The first of several sets that could not be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct ReduceAllError {
    /// The index of the set, from 0.
    pub index: usize,
    /// The reason.
    pub error: ReduceError,
}

impl PqTree {
    /// Keeps only the orders in which the leaves of `set` are consecutive. The leaves may be named
    /// in any order.
    ///
    /// After an error the tree is unchanged. The empty set, a single leaf and the set of all leaves
    /// change nothing.
    ///
    /// *Cost*: O(|S|) parent lookups, amortised over the reductions of a tree. An error costs
    /// O(|S| + depth) lookups.
    ///
    /// ```
    /// # use pqtree::{PqTree, ReduceError};
    /// let mut tree = PqTree::new(5);
    /// tree.reduce(&[1, 2])?;
    /// tree.reduce(&[2, 3])?;
    /// assert_eq!(tree.to_string(), "(0 4 [1 2 3])");
    /// assert!(!tree.reduce(&[1, 2, 3])?.changed);
    /// assert_eq!(tree.reduce(&[1, 3]), Err(ReduceError::Conflict));
    /// # Ok::<(), ReduceError>(())
    /// ```
    pub fn reduce(&mut self, set: &[u32]) -> Result<Reduced, ReduceError> {
        let found = self.find(set);
        if found.is_ok() {
            self.begin_change();
        }
        let result = match found {
            Ok(Place::Trivial(home)) => Ok(Reduced { changed: false, home }),
            Ok(Place::Apex(apex)) if self.work.has_work(apex) => {
                let home = self.work.rearrange(&mut self.nodes, apex);
                Ok(Reduced { changed: true, home: Some(home) })
            }
            Ok(Place::Apex(apex)) => {
                Ok(Reduced { changed: false, home: Some(self.work.home(apex)) })
            }
            Err(error) => Err(error),
        };
        self.work.finish(set);
        self.nodes.compact();
        result
    }

    /// Checks that [`reduce`](Self::reduce) would succeed. Takes the tree mutably because it writes
    /// marks, which it clears again.
    pub fn can_reduce(&mut self, set: &[u32]) -> Result<(), ReduceError> {
        let found = self.find(set).map(|_| ());
        self.work.finish(set);
        found
    }

    /// Returns true if the set is consecutive in every order that the tree admits. Reducing it
    /// would change nothing.
    ///
    /// ```
    /// let mut tree: pqtree::PqTree = "(0 [1 2 3])".parse()?;
    /// assert!(tree.is_consecutive(&[2, 3])? && !tree.is_consecutive(&[0, 1])?);
    /// assert!(tree.is_consecutive(&[4]).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn is_consecutive(&mut self, set: &[u32]) -> Result<bool, LeafError> {
        let found = self.find(set);
        self.work.finish(set);
        match found {
            Ok(Place::Trivial(_)) => Ok(true),
            Ok(Place::Apex(apex)) => Ok(!self.work.has_work(apex)),
            Err(ReduceError::Conflict) => Ok(false),
            Err(ReduceError::Leaf(error)) => Err(error),
        }
    }

    /// Reduces all of several sets, or none: at the first failure, the tree goes back to its state
    /// before the call. Counts as one change for [`changed`](Self::changed).
    pub fn reduce_all<S: AsRef<[u32]>>(
        &mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<(), ReduceAllError> {
        self.attempt(|tree| {
            for (index, set) in sets.into_iter().enumerate() {
                tree.reduce(set.as_ref()).map_err(|error| ReduceAllError { index, error })?;
            }
            Ok(())
        })
    }

    /// Reduces each set in turn and skips the sets that do not fit. Returns a flag for each set:
    /// true if it was reduced.
    ///
    /// # Errors
    ///
    /// If a set has a leaf that is out of range or repeated. All sets are checked before the first
    /// is reduced, so the tree is unchanged then.
    pub fn reduce_greedy<S: AsRef<[u32]>>(
        &mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<Vec<bool>, ReduceAllError> {
        let sets: Vec<S> = sets.into_iter().collect();
        for (index, set) in sets.iter().enumerate() {
            let checked = self.work.check_leaves(&self.nodes, set.as_ref());
            self.work.finish(set.as_ref());
            checked.map_err(|error| ReduceAllError { index, error: error.into() })?;
        }
        let mut is_changed = false;
        let mut reduce = |set: S| {
            let reduced = self.reduce(set.as_ref());
            is_changed |= reduced.is_ok_and(|reduced| reduced.changed);
            reduced.is_ok()
        };
        let reduced = sets.into_iter().map(&mut reduce).collect();
        self.all_changed_if(is_changed);
        Ok(reduced)
    }

    /// Labels the nodes, and checks that the set can be made consecutive.
    fn find(&mut self, set: &[u32]) -> Result<Place, ReduceError> {
        if self.is_trivial(set) {
            return self.find_trivial(set);
        }
        let found = self.work.label(&mut self.nodes, set).and_then(|apex| {
            self.work.check(&self.nodes, apex)?;
            Ok(Place::Apex(apex))
        });
        self.work.unmark(&mut self.nodes);
        found
    }

    /// Returns true if a set of this length is consecutive in every order, provided that it has no
    /// repeated leaf.
    pub(crate) fn is_trivial(&self, set: &[u32]) -> bool {
        set.len() < 2 || set.len() >= self.len() as usize
    }

    fn find_trivial(&mut self, set: &[u32]) -> Result<Place, ReduceError> {
        self.work.check_leaves(&self.nodes, set)?;
        Ok(Place::Trivial(match *set {
            [] => None,
            [leaf] => Some(NodeId(leaf)),
            _ => Some(self.nodes.root),
        }))
    }
}

/// The home of a set that is consecutive because of its size, or the place in `touched` of the apex
/// of another set.
enum Place {
    Trivial(Option<NodeId>),
    Apex(u32),
}

impl fmt::Display for ReduceAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}: {}", self.index, self.error)
    }
}

impl core::error::Error for ReduceAllError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}
