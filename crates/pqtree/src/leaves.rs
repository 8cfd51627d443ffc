//! Trees over other leaves: a tree projected onto some of its leaves; leaves inserted, removed, replaced.
//!
//! Leaves are numbered without gaps, and inner nodes after them, so each of these makes the tree anew, in O(n). Every
//! [`NodeId`] of an inner node is void afterwards. All can be rolled back like a reduction.

use crate::builder::Builder;
use crate::conflict::LeafError;
use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::tree::PqTree;
use crate::walk::Event;
use alloc::vec::Vec;

impl PqTree {
    /// The tree that admits the orders of this one with all but the given leaves left out. Leaf `i` of the new tree is
    /// `leaves[i]` of this one.
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

    /// Adds a leaf that no restriction binds: it can stand anywhere but within a set that is consecutive in every order.
    /// Returns its number, which is the old [`len`](Self::len).
    pub fn insert(&mut self) -> u32 {
        match self.root() {
            Some(root) => self.insert_under(root),
            None => {
                self.replace_nodes(Nodes::universal(1));
                0
            }
        }
    }

    /// Adds a leaf to those below a node: as a further child of a P-node; beside a leaf or a Q-node, under a new P-node.
    /// Returns its number, which is the old [`len`](Self::len).
    pub fn insert_under(&mut self, node: NodeId) -> u32 {
        let new = self.len();
        let mut builder = Builder::new(new + 1);
        let joins = self.kind(node) == Kind::P;
        for event in self.events() {
            let here =
                matches!(event, Event::Open(this) if this == node) || event == Event::Leaf(node.0);
            if here && !joins {
                builder.open(Kind::P);
            }
            match event {
                Event::Open(node) => builder.open(self.kind(node)),
                Event::Leaf(leaf) => builder.leaf(leaf),
                Event::Close(this) if this == node && joins => {
                    builder.leaf(new);
                    builder.close();
                }
                Event::Close(_) => builder.close(),
            }
            let done = event == Event::Close(node) || event == Event::Leaf(node.0);
            if done && !joins {
                builder.leaf(new);
                builder.close();
            }
        }
        self.replace_nodes(builder.finish());
        new
    }

    /// Removes a leaf; those after it move up, to numbers less by one.
    pub fn remove(&mut self, leaf: u32) -> Result<(), LeafError> {
        self.check_leaf(leaf)?;
        let others: Vec<u32> = (0..self.len()).filter(|&other| other != leaf).collect();
        let smaller = self.project(&others)?;
        self.replace_nodes(smaller.nodes);
        Ok(())
    }

    /// Puts a tree in the place of a leaf. Leaf 0 of that tree takes the number of the old leaf, leaf `i` the number
    /// `len() + i - 1`. The empty tree removes the leaf.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let mut tree: PqTree = "[0 1 2]".parse()?;
    /// tree.replace(1, &PqTree::new(3))?;
    /// assert_eq!(tree.to_string(), "[0 (1 3 4) 2]");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn replace(&mut self, leaf: u32, by: &Self) -> Result<(), LeafError> {
        self.check_leaf(leaf)?;
        if by.is_empty() {
            return self.remove(leaf);
        }
        let old = self.len();
        let mut builder = Builder::new(old + by.len() - 1);
        for event in self.events() {
            if event == Event::Leaf(leaf) {
                by.events().for_each(|event| match event {
                    Event::Open(node) => builder.open(by.kind(node)),
                    Event::Leaf(0) => builder.leaf(leaf),
                    Event::Leaf(inner) => builder.leaf(old + inner - 1),
                    Event::Close(_) => builder.close(),
                });
                continue;
            }
            match event {
                Event::Open(node) => builder.open(self.kind(node)),
                Event::Leaf(leaf) => builder.leaf(leaf),
                Event::Close(_) => builder.close(),
            }
        }
        self.replace_nodes(builder.finish());
        Ok(())
    }

    fn check_leaf(&self, leaf: u32) -> Result<(), LeafError> {
        let leaves = self.len();
        if leaf < leaves { Ok(()) } else { Err(LeafError::OutOfRange { leaf, leaves }) }
    }

    fn replace_nodes(&mut self, nodes: Nodes) {
        self.nodes.replace(nodes);
        self.work = self.work.clone();
    }
}
