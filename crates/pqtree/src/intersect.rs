//! Intersection: the tree of the orders that two trees both admit.
//!
//! A tree admits an order if the leaves of each of its inner nodes are consecutive in it, and those
//! of each two neighbouring children of a Q-node. So these sets of one tree are reduced in the
//! other.
//!
//! *Cost*: O(sum of the sizes of these sets), at most O(n · depth).

use crate::conflict::ReduceError;
use crate::node::{Kind, NodeId};
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// Keeps only those orders that `other` admits too. All or nothing: if there is no such order,
    /// the tree stays as it was and there is a set that `other` keeps together and this tree
    /// cannot. Returns whether an order was lost.
    ///
    /// # Panics
    ///
    /// If the trees have not the same number of leaves.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let mut tree: PqTree = "(0 [1 2 3])".parse()?;
    /// tree.intersect(&"((0 1) 2 3)".parse()?)?;
    /// assert_eq!(tree.canonical().to_string(), "[0 1 2 3]");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn intersect(&mut self, other: &Self) -> Result<bool, ReduceError> {
        assert_eq!(self.len(), other.len(), "only trees over the same leaves can be intersected");
        self.attempt(|tree| {
            other.try_for_each_restriction(|set| tree.reduce(set).map(|reduced| reduced.changed))
        })
    }

    /// The sets that, reduced in a new tree, give this one.
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

    /// Returns whether any of the calls did.
    fn try_for_each_restriction<E>(
        &self,
        mut reduce: impl FnMut(&[u32]) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut frontier = alloc::vec![0; self.len() as usize];
        self.write_frontier(&mut frontier);
        // Of each node, where its leaves begin and end in the frontier.
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
