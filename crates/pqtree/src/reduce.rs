//! Reduction: keeping only those orders in which a set is consecutive.
//!
//! Three steps, each with a module of its own: [label](crate::label) the nodes,
//! [check](crate::check) that the set can be made consecutive, [rearrange](crate::rearrange) the
//! tree. The first two write nothing but marks, so that
//! [`can_reduce`](PqTree::can_reduce) is the same code and a reduction that fails has nothing to undo.

use crate::conflict::{LeafError, ReduceError};
use crate::node::NodeId;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::fmt;

/// What a successful reduction did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Reduced {
    /// Whether some order was lost. If not, the set was consecutive in every order already, and no
    /// node has changed. Which nodes have, [`PqTree::changed`] says.
    pub changed: bool,
    /// Where the set is now: it consists of the leaves of this node, or of those of neighbouring
    /// children of it if it is a Q-node. `None` for the empty set.
    pub home: Option<NodeId>,
}

/// The first set of several that could not be reduced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct ReduceAllError {
    /// Which of the sets, from 0.
    pub index: usize,
    /// Why.
    pub error: ReduceError,
}

impl PqTree {
    /// Keeps only those orders in which the leaves of `set`, named in any order, are consecutive.
    /// All or nothing: after an error the tree is as it was. Sets of at most one leaf, or of all,
    /// change nothing.
    ///
    /// *Cost*: O(|S|) finds of a parent, amortised over the reductions of a tree; a refusal
    /// O(|S| + depth) of them.
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
        let result = match self.find(set) {
            Ok(Place::Trivial(home)) => {
                self.work.changed.clear();
                Ok(Reduced { changed: false, home })
            }
            Ok(Place::Apex(apex)) if self.work.has_work(apex) => {
                let home = self.work.rearrange(&mut self.nodes, apex);
                Ok(Reduced { changed: true, home: Some(home) })
            }
            Ok(Place::Apex(apex)) => {
                self.work.changed.clear();
                Ok(Reduced { changed: false, home: Some(self.work.home(apex)) })
            }
            Err(error) => Err(error),
        };
        self.work.finish(set);
        self.nodes.compact();
        result
    }

    /// Whether [`reduce`](Self::reduce) would succeed. Writes only marks, which is why it needs the
    /// tree mutably.
    pub fn can_reduce(&mut self, set: &[u32]) -> Result<(), ReduceError> {
        let found = self.find(set).map(|_| ());
        self.work.finish(set);
        found
    }

    /// Whether the set is consecutive in every order that the tree admits, so that reducing it
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

    /// Reduces several sets, all or nothing: at the first failure the sets before it are taken
    /// back.
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

    /// Reduces those of several sets that can be, each after the ones before it; says of each
    /// whether it was.
    ///
    /// # Errors
    ///
    /// If a set has a leaf that is out of range, or named twice. The sets before it stay reduced,
    /// and those after it are not looked at.
    pub fn reduce_greedy<S: AsRef<[u32]>>(
        &mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<Vec<bool>, ReduceAllError> {
        let mut reduce = |(index, set): (usize, S)| match self.reduce(set.as_ref()) {
            Ok(_) => Ok(true),
            Err(ReduceError::Conflict) => Ok(false),
            Err(error) => Err(ReduceAllError { index, error }),
        };
        sets.into_iter().enumerate().map(&mut reduce).collect()
    }

    /// The inner nodes whose children the last successful [`reduce`](Self::reduce) made or altered,
    /// each once; none if it changed nothing. Any other node that there is has the children that it
    /// had, in the same order. Questions and refusals leave the list as it is; a
    /// [rollback](Self::rollback) empties it. Of several sets reduced together it is that of the
    /// last one.
    ///
    /// The same after [`insert`](Self::insert), [`replace`](Self::replace) and
    /// [`replace_set`](Self::replace_set), as long as no inner node got another number.
    /// [`remove`](Self::remove), after which all nodes are other ones, empties the list.
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.work.changed.iter().copied().filter(|&node| self.nodes.is_live(node))
    }

    /// Labels and checks.
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

    /// Whether a set of that many leaves is consecutive in any order, if it is a set.
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

/// Where a set was found that is consecutive, or can be made so.
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
