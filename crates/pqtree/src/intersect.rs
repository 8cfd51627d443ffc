//! Intersection: the tree of the orders that two trees both admit.
//!
//! A tree admits an order exactly if the leaves of each inner node are consecutive in it, and so
//! are the leaves of each two neighbouring children of a Q-node. Intersection takes these sets of
//! one tree and reduces the other tree by them.
//!
//! *Cost*: O(sum of the sizes of these sets), at most O(n · depth).

use crate::conflict::ReduceError;
use crate::node::{Kind, NodeId};
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// Keeps only the orders that `other` admits too. Returns true if these are fewer than before.
    ///
    /// Fails if there is no common order: `other` keeps some set consecutive that this tree cannot.
    /// The tree is then unchanged.
    ///
    /// # Panics
    ///
    /// If the trees have different numbers of leaves.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let mut tree: PqTree = "(0 [1 2 3])".parse()?;
    /// tree.intersect(&"((0 1) 2 3)".parse()?)?;
    /// assert_eq!(tree.canonical().to_string(), "[0 1 2 3]");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn intersect(&mut self, other: &Self) -> Result<bool, ReduceError> {
        assert_eq!(self.len(), other.len(), "only trees over the same leaves have an intersection");
        self.attempt(|tree| {
            other.try_for_each_restriction(|set| tree.reduce(set).map(|reduced| reduced.changed))
        })
    }

    /// Returns sets by which a new tree can be reduced to make this one.
    pub fn restrictions(&self) -> Vec<Vec<u32>> {
        let mut sets = Vec::new();
        let never: Result<bool, core::convert::Infallible> = self.try_for_each_restriction(|set| {
            sets.push(set.to_vec());
            Ok(false)
        });
        match never {
            Ok(_) => sets,
        }
    }

    /// Calls `reduce` with each set of `restrictions`. Returns true if any call returned true.
    fn try_for_each_restriction<E>(
        &self,
        mut reduce: impl FnMut(&[u32]) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut frontier = alloc::vec![0; self.len() as usize];
        self.write_frontier(&mut frontier);
        // For each node, the begin and end of its leaves in the frontier.
        let mut span = alloc::vec![(0, 0); self.node_bound()];
        let mut changed = false;
        let mut written = 0;
        for node in self.post_order() {
            if self.nodes.is_leaf(node) {
                span[node.index()] = (written, written + 1);
                written += 1;
                continue;
            }
            let [first, last] = self.nodes.ends(node);
            span[node.index()] = (span[first.index()].0, span[last.index()].1);
            if self.kind(node) == Kind::P {
                let (begin, end) = span[node.index()];
                changed |= reduce(&frontier[begin..end])?;
                continue;
            }
            let mut before: Option<NodeId> = None;
            for child in self.children(node) {
                if let Some(before) = before.replace(child) {
                    changed |= reduce(&frontier[span[before.index()].0..span[child.index()].1])?;
                }
            }
        }
        Ok(changed)
    }
}
