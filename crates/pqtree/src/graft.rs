//! Leaves that come and go, in time of what is touched: inserted, replaced by trees, and whole sets
//! of them merged or replaced.
//!
//! Leaves are numbered without gaps. New ones get the numbers from [`PqTree::len`] on; numbers that
//! become free are taken by the largest ones. Between the leaves and the inner nodes there are
//! numbers to spare, so that the inner nodes keep theirs, but for when the spare numbers run out:
//! all inner nodes get new ones then, which is paid for by the leaves that came.
//!
//! Replacing the leaves that a reduction made consecutive is what planarity tests by vertex
//! addition do at each vertex.
//!
//! *Source*: A. Lempel, S. Even and I. Cederbaum, "An algorithm for planarity testing of graphs"
//! (1967); Booth and Lueker (1976), section 4, for replacing the full leaves.

use crate::conflict::{LeafError, ReduceError};
use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::tree::{PqTree, check_count};
use crate::walk::Event;
use crate::work::NIL;
use alloc::vec::Vec;

/// The leaves that came for a set of others, and those that have other numbers for that. See
/// [`PqTree::replace_set`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// The new leaves, in ascending order.
    pub leaves: Vec<u32>,
    /// The leaves that have another number now: the old one and the new one, both ascending.
    pub moved: Vec<(u32, u32)>,
}

impl PqTree {
    /// Makes numbers for further leaves, so that the numbers of inner nodes do not change when
    /// these come. Those of the inner nodes that there are may change now.
    ///
    /// *Cost*: O(n), and 12 bytes for each of the leaves.
    pub fn reserve(&mut self, leaves: u32) -> Result<(), LeafError> {
        check_count(u64::from(self.len()) + u64::from(leaves))?;
        if self.nodes.reserve_leaves(leaves) > 0 {
            self.work = self.work.clone();
        }
        Ok(())
    }

    /// Adds a leaf that no restriction binds: it can stand anywhere but within a set that is
    /// consecutive in every order. Returns its number, which is the old [`len`](Self::len).
    ///
    /// *Cost*: O(1) amortised.
    pub fn insert(&mut self) -> Result<u32, LeafError> {
        if let Some(root) = self.root() {
            return self.insert_under(root);
        }
        self.replace_nodes(Nodes::universal(1));
        Ok(0)
    }

    /// Adds a leaf to those below a node: as a further child of a P-node; beside a leaf or a
    /// Q-node, under a new P-node. Returns its number, which is the old [`len`](Self::len).
    ///
    /// *Cost*: O(1) amortised.
    ///
    /// ```
    /// # use pqtree::{NodeId, PqTree};
    /// let mut tree: PqTree = "[0 1 2]".parse()?;
    /// tree.insert_under(NodeId::of_leaf(1))?;
    /// tree.insert()?;
    /// assert_eq!(tree.to_string(), "([0 (1 3) 2] 4)");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn insert_under(&mut self, node: NodeId) -> Result<u32, LeafError> {
        let joins = self.kind(node) == Kind::P;
        check_count(u64::from(self.len()) + 1)?;
        let is_leaf = self.nodes.is_leaf(node);
        let by = self.nodes.reserve_leaves(1);
        let node = if is_leaf { node } else { NodeId(node.0 + by) };
        self.work.changed.clear();
        let new = self.new_leaves(1);
        if joins {
            let degree = self.nodes.tag(node).degree();
            self.nodes.append(node, NodeId(new));
            self.nodes.set_degree(node, Kind::P, degree + 1);
            self.work.changed.push(node);
        } else {
            let group = self.nodes.allocate();
            self.take_place(node, group);
            self.nodes.set_children(group, Kind::P, &[node, NodeId(new)]);
            self.work.changed.push(group);
        }
        Ok(new)
    }

    /// Puts a tree in the place of a leaf. Leaf 0 of that tree takes the number of the old leaf,
    /// leaf `i` the number `len() + i - 1`. The empty tree [removes](Self::remove) the leaf.
    ///
    /// *Cost*: O(leaves of the other tree) amortised, if it has any.
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
        let Some(more) = by.len().checked_sub(1) else {
            return self.remove(leaf);
        };
        check_count(u64::from(self.len()) + u64::from(more))?;
        self.work.changed.clear();
        if more == 0 {
            return Ok(());
        }
        self.nodes.reserve_leaves(more);
        let first = self.new_leaves(more);
        let top = self.nodes.allocate();
        self.take_place(NodeId(leaf), top);
        let (mut children, mut begins) = (Vec::new(), Vec::new());
        for event in by.events() {
            match event {
                Event::Open(_) => begins.push(children.len()),
                Event::Leaf(0) => children.push(NodeId(leaf)),
                Event::Leaf(inner) => children.push(NodeId(first + inner - 1)),
                Event::Close(node) => {
                    let begin = begins.pop().expect("opened before");
                    let new = if begins.is_empty() { top } else { self.nodes.allocate() };
                    self.nodes.set_children(new, by.kind(node), &children[begin..]);
                    self.work.changed.push(new);
                    children.truncate(begin);
                    children.push(new);
                }
            }
        }
        Ok(())
    }

    /// [Reduces](Self::reduce) a set and puts so many new leaves in its place, which may stand in
    /// any order. All or nothing.
    ///
    /// The new leaves take the smallest numbers of the set and then those from [`len`](Self::len)
    /// on. If they are fewer than the set, the numbers left over are taken, the smallest first, by
    /// the leaves whose numbers would be too large now, the smallest first.
    ///
    /// *Cost*: that of the reduction, and of so many leaves.
    ///
    /// # Errors
    ///
    /// As of [`reduce`](Self::reduce); and if the set is empty, or the tree would become too large.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let mut tree: PqTree = "(0 [1 2 3] 4 5)".parse()?;
    /// let replaced = tree.replace_set(&[3, 2, 4], 2)?;
    /// assert_eq!((replaced.leaves, replaced.moved), (vec![2, 3], vec![(5, 4)]));
    /// assert_eq!(tree.canonical().to_string(), "(0 (1 (2 3)) 4)");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn replace_set(&mut self, set: &[u32], count: u32) -> Result<Replaced, ReduceError> {
        if set.is_empty() {
            return Err(LeafError::NoLeaf.into());
        }
        let others = u64::from(self.len()).saturating_sub(set.len() as u64);
        check_count(others + u64::from(count))?;
        self.reduce(set)?;
        let mut changed = core::mem::take(&mut self.work.changed);
        let more = count.saturating_sub(set.len() as u32);
        let by = self.nodes.reserve_leaves(more);
        changed.iter_mut().for_each(|node| node.0 += by);
        let (place, full_nodes) = self.find_full(set);
        let first = self.new_leaves(more);
        let mut old = set.to_vec();
        old.sort_unstable();
        let kept = old.len().min(count as usize);
        let leaves: Vec<u32> = old[..kept].iter().copied().chain(first..first + more).collect();
        let new = match *leaves.as_slice() {
            [] => NodeId::NONE,
            [leaf] => NodeId(leaf),
            _ => self.nodes.allocate(),
        };
        self.work.changed = changed;
        self.put(&place, new);
        full_nodes.iter().for_each(|&node| self.nodes.release(node));
        if leaves.len() > 1 {
            let children: Vec<NodeId> = leaves.iter().map(|&leaf| NodeId(leaf)).collect();
            self.nodes.set_children(new, Kind::P, &children);
            self.work.changed.push(new);
        }
        let moved = self.close_gaps(&old[kept..]);
        self.work.changed.sort_unstable();
        self.work.changed.dedup();
        Ok(Replaced { leaves, moved })
    }

    /// [Reduces](Self::reduce) a set and makes it one leaf, which takes the smallest number of the
    /// set. As [`replace_set`](Self::replace_set) by one leaf.
    pub fn merge(&mut self, set: &[u32]) -> Result<Replaced, ReduceError> {
        self.replace_set(set, 1)
    }

    /// Where a set that is consecutive lies, and the inner nodes that are full.
    fn find_full(&mut self, set: &[u32]) -> (Full, Vec<NodeId>) {
        if let [leaf] = *set {
            return (Full::Node(NodeId(leaf)), Vec::new());
        }
        if set.len() == self.len() as usize {
            return (Full::Node(self.nodes.root), self.inner_nodes());
        }
        let found = self.work.label(&mut self.nodes, set);
        let touched = self.work.touched[found.expect("it was reduced")];
        let (node, full) = (touched.node, touched.full());
        let mut borders = Vec::new();
        let mut place = touched.last_full;
        while place != NIL {
            let marked = self.work.marked[place];
            let siblings = self.nodes.siblings(marked.node).map(|beside| (marked.node, beside));
            let is_border = |&(_, beside): &(NodeId, NodeId)| {
                beside == NodeId::NONE || !self.work.is_full(&self.nodes, beside)
            };
            borders.extend(siblings.into_iter().filter(is_border));
            place = marked.next;
        }
        let place = match *borders {
            [(only, _), _] if full == 1 => Full::Node(only),
            [first, last] => Full::Run { of: node, count: full, borders: [first, last] },
            _ => unreachable!("the full children of the apex are one run"),
        };
        let full_nodes = self.work.full_nodes.iter().copied().collect();
        self.work.unmark(&mut self.nodes);
        self.work.finish(set);
        (place, full_nodes)
    }

    fn inner_nodes(&self) -> Vec<NodeId> {
        self.pre_order().filter(|&node| !self.nodes.is_leaf(node)).collect()
    }

    /// Puts a node, or nothing, where the full nodes are.
    fn put(&mut self, full: &Full, new: NodeId) {
        match *full {
            Full::Node(node) if node == new => {}
            Full::Node(node) if new != NodeId::NONE => self.take_place(node, new),
            Full::Node(node) => {
                let parent = self.nodes.parent(node);
                if parent == NodeId::NONE {
                    self.nodes.root = NodeId::NONE;
                    return;
                }
                self.nodes.unlink(parent, node);
                self.shrink(parent, 1);
            }
            Full::Run { of, count, borders: [(first, before), (last, after)] } => {
                let [to_before, to_after] =
                    if new == NodeId::NONE { [after, before] } else { [new; 2] };
                self.nodes.relink(of, before, first, to_before);
                self.nodes.relink(of, after, last, to_after);
                if new == NodeId::NONE {
                    return self.shrink(of, count);
                }
                self.nodes.set_up(new, of);
                self.nodes.set_siblings(new, [before, after]);
                self.shrink(of, count - 1);
            }
        }
    }

    /// Lessens the degree of a node whose children were taken out.
    fn shrink(&mut self, node: NodeId, by: u32) {
        let tag = self.nodes.tag(node);
        match tag.degree() - by {
            1 => {
                let [child, _] = self.nodes.ends(node);
                self.take_place(node, child);
                self.nodes.release(node);
            }
            degree => {
                let kind = if tag.is_q() && degree > 2 { Kind::Q } else { Kind::P };
                self.nodes.set_degree(node, kind, degree);
                self.work.changed.push(node);
            }
        }
    }

    fn take_place(&mut self, old: NodeId, new: NodeId) {
        self.nodes.take_place(old, new);
        let parent = self.nodes.parent(new);
        self.work.changed.extend(Some(parent).filter(|&parent| parent != NodeId::NONE));
    }

    /// Counts further leaves, for which there are numbers. Returns the first.
    fn new_leaves(&mut self, count: u32) -> u32 {
        let first = self.nodes.leaves;
        self.nodes.leaves += count;
        first
    }

    /// Gives numbers of leaves that are gone, ascending, to the leaves with the largest numbers.
    fn close_gaps(&mut self, gone: &[u32]) -> Vec<(u32, u32)> {
        let left = self.nodes.leaves - gone.len() as u32;
        let is_left = |leaf: &u32| gone.binary_search(leaf).is_err();
        let too_large = (left..self.nodes.leaves).filter(is_left);
        let moved: Vec<(u32, u32)> = too_large.zip(gone.iter().copied()).collect();
        for &(old, new) in &moved {
            self.take_place(NodeId(old), NodeId(new));
        }
        self.nodes.leaves = left;
        moved
    }
}

/// Where the leaves of a set are that is consecutive.
enum Full {
    /// Below this node.
    Node(NodeId),
    /// Below some neighbouring children of a Q-node. `borders` are the two outermost of them, each
    /// with the sibling beyond it.
    Run { of: NodeId, count: u32, borders: [(NodeId, NodeId); 2] },
}
