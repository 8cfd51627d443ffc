//! Trees over fewer leaves: a tree projected onto some of its leaves; a leaf removed, and the ones
//! after it renumbered.
//!
//! Both make a new tree, in O(n). Every [`NodeId`] of an inner node is void afterwards. [`graft`]
//! changes leaves in time of what it touches.
//!
//! [`NodeId`]: crate::NodeId
//! [`graft`]: crate::graft

use crate::builder::Builder;
use crate::conflict::LeafError;
use crate::nodes::Nodes;
use crate::tree::PqTree;
use crate::walk::Event;
use alloc::vec::Vec;

impl PqTree {
    /// The tree that admits the orders of this one with all but the given leaves left out. Leaf `i`
    /// of the new tree is `leaves[i]` of this one.
    ///
    /// *Cost*: O(n).
    ///
    /// ```
    /// let tree: pqtree::PqTree = "(0 [1 2 (3 4) 5] 6)".parse()?;
    /// assert_eq!(tree.project(&[1, 3, 4, 6])?.to_string(), "((0 (1 2)) 3)");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn project(&self, leaves: &[u32]) -> Result<Self, LeafError> {
        let mut new_name = alloc::vec![None; self.len() as usize];
        for (new, &leaf) in (0..).zip(leaves) {
            let name = new_name
                .get_mut(leaf as usize)
                .ok_or(LeafError::OutOfRange { leaf, leaves: self.len() })?;
            if name.replace(new).is_some() {
                return Err(LeafError::Repeated { leaf });
            }
        }
        let mut builder = Builder::new(leaves.len() as u32);
        for event in self.events() {
            match event {
                Event::Open(node) => builder.open(self.kind(node)),
                Event::Leaf(leaf) => {
                    new_name[leaf as usize].into_iter().for_each(|name| builder.leaf(name))
                }
                Event::Close(_) => builder.close(),
            }
        }
        Ok(Self::from_nodes(builder.finish()))
    }

    /// Removes a leaf; those after it move up, to numbers less by one. Can be rolled back.
    ///
    /// *Cost*: O(n). [`replace_set`](Self::replace_set) by no leaf moves at most one leaf instead.
    pub fn remove(&mut self, leaf: u32) -> Result<(), LeafError> {
        self.check_leaf(leaf)?;
        let others: Vec<u32> = (0..self.len()).filter(|&other| other != leaf).collect();
        let smaller = self.project(&others)?;
        self.replace_nodes(smaller.nodes);
        Ok(())
    }

    pub(crate) fn check_leaf(&self, leaf: u32) -> Result<(), LeafError> {
        let leaves = self.len();
        if leaf < leaves { Ok(()) } else { Err(LeafError::OutOfRange { leaf, leaves }) }
    }

    pub(crate) fn replace_nodes(&mut self, nodes: Nodes) {
        self.nodes.replace(nodes);
        self.work = self.work.clone();
    }
}
