//! The smallest consecutive superset of a set.
//!
//! Find the lowest node with the whole set below it. If it is a P-node, the result is all its
//! leaves, because any set that is consecutive in every order either lies within one child or holds
//! all of them. If it is a Q-node, the result is the leaves of the children from the first to the
//! last that have leaves of the set.

use crate::conflict::LeafError;
use crate::node::{Kind, NodeId};
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// Returns the smallest superset of `set` that is consecutive in every order, in the order of
    /// the frontier.
    ///
    /// *Cost*: O(n).
    ///
    /// ```
    /// let tree: pqtree::PqTree = "(0 [1 2 (3 4) 5] 6)".parse()?;
    /// assert_eq!(tree.smallest_consecutive_superset(&[2, 5])?, [2, 3, 4, 5]);
    /// assert_eq!(tree.smallest_consecutive_superset(&[0, 2])?, [0, 1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn smallest_consecutive_superset(&self, set: &[u32]) -> Result<Vec<u32>, LeafError> {
        // The number of leaves of the set below each node.
        let mut below = alloc::vec![0; self.node_bound()];
        for &leaf in set {
            let leaves = self.len();
            if leaf >= leaves {
                return Err(LeafError::OutOfRange { leaf, leaves });
            }
            if core::mem::replace(&mut below[leaf as usize], 1) == 1 {
                return Err(LeafError::Repeated { leaf });
            }
        }
        let Some(apex) = self.lowest_above(set.len() as u32, &mut below) else {
            return Ok(Vec::new());
        };
        if self.kind(apex) != Kind::Q {
            return Ok(self.leaves_of(apex).collect());
        }
        let children: Vec<NodeId> = self.children(apex).collect();
        let has_some = |child: &NodeId| below[child.index()] > 0;
        let first = children.iter().position(has_some).expect("the apex has the set below it");
        let last = children.iter().rposition(has_some).expect("the apex has the set below it");
        Ok(children[first..=last].iter().flat_map(|&child| self.leaves_of(child)).collect())
    }

    /// Returns the lowest node with all `count` leaves of a set below it. On the way, `below` gets
    /// the number of these leaves below each inner node.
    fn lowest_above(&self, count: u32, below: &mut [u32]) -> Option<NodeId> {
        self.post_order().find(|&node| {
            let sum = self.children(node).map(|child| below[child.index()]).sum::<u32>();
            below[node.index()] += sum;
            count > 0 && below[node.index()] == count
        })
    }
}
