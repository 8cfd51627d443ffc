//! Trees over fewer leaves: projection onto some leaves, and removal of a leaf.
//!
//! Both make a new tree in O(n), which invalidates the [`NodeId`] of every inner node. [`graft`]
//! changes leaves in time proportional to the affected part.
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
    /// Returns the tree of the given leaves alone. It admits the orders of this tree, with the
    /// other leaves left out. Its leaf `i` is `leaves[i]` of this tree.
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

    /// Removes a leaf, and reduces the numbers of all later leaves by one. Can be rolled back.
    ///
    /// *Cost*: O(n). [`replace_set`](Self::replace_set) with a count of 0 removes a leaf faster and
    /// renumbers at most one other leaf.
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
        self.begin_change();
        self.nodes.replace(nodes);
        self.work = self.work.clone();
        self.all_changed_if(true);
    }
}
