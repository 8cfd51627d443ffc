//! Adds, replaces, merges and removes leaves, in time proportional to the affected part.
//!
//! Leaves are numbered without gaps. New leaves get the numbers from [`PqTree::len`] on. A number
//! that becomes free goes to the leaf with the largest number. Spare numbers separate the leaves
//! from the inner nodes, so that inner nodes keep their numbers. When the spare numbers run out,
//! all inner nodes are renumbered; the cost is amortised over the added leaves.
//!
//! Planarity tests by vertex addition replace a set of leaves at each vertex, after a reduction has
//! made them consecutive.
//!
//! *Source*: A. Lempel, S. Even and I. Cederbaum, "An algorithm for planarity testing of graphs"
//! (1967); Booth and Lueker (1976), section 4, for replacing the full leaves.

use crate::conflict::{LeafError, ReduceError};
use crate::node::{Kind, NodeId};
use crate::nodes::{Nodes, room};
use crate::tree::{PqTree, check_count};
use crate::walk::Event;
use crate::work::NIL;
use alloc::vec::Vec;

/// The new leaves that replaced a set, and the existing leaves that got other numbers. See
/// [`PqTree::replace_set`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// The new leaves, in ascending order.
    pub leaves: Vec<u32>,
    /// The old and the new number of each renumbered leaf, both ascending.
    pub moved: Vec<(u32, u32)>,
}

impl PqTree {
    /// Reserves numbers for `leaves` more leaves, so that adding them does not renumber inner
    /// nodes. This call itself may renumber them.
    ///
    /// *Cost*: O(n), and 12 bytes for each reserved leaf.
    pub fn reserve(&mut self, leaves: u32) -> Result<(), LeafError> {
        check_count(u64::from(self.len()) + u64::from(leaves))?;
        let by = self.nodes.reserve_leaves(leaves)?;
        if by > 0 {
            self.begin_change();
            self.all_changed_if(true);
        }
        Ok(())
    }

    /// Adds a leaf without restrictions: it may be anywhere except inside a set that is consecutive
    /// in every order. Returns its number, which is the old [`len`](Self::len).
    ///
    /// *Cost*: O(1) amortised.
    pub fn insert(&mut self) -> Result<u32, LeafError> {
        if let Some(root) = self.root() {
            return self.insert_under(root);
        }
        self.replace_nodes(Nodes::universal(1)?);
        Ok(0)
    }

    /// Adds a leaf at a node: as a new child of a P-node, or next to a leaf or Q-node under a new
    /// P-node. Returns its number, which is the old [`len`](Self::len).
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
        let by = self.nodes.reserve_leaves(1)?;
        let node = if is_leaf { node } else { NodeId(node.0 + by) };
        self.begin_change();
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
        self.all_changed_if(by > 0);
        Ok(new)
    }

    /// Replaces a leaf by a tree. Leaf 0 of that tree takes the number of the old leaf, and leaf
    /// `i` gets the number `len() + i - 1`. An empty tree [removes](Self::remove) the leaf.
    ///
    /// *Cost*: O(leaves of the other tree) amortised, or O(n) if it is empty.
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
        let shift = self.nodes.reserve_leaves(more)?;
        self.begin_change();
        if more == 0 {
            return Ok(());
        }
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
                    let begin = begins.pop().expect("each close follows an open");
                    let new = if begins.is_empty() { top } else { self.nodes.allocate() };
                    self.nodes.set_children(new, by.kind(node), &children[begin..]);
                    self.work.changed.push(new);
                    children.truncate(begin);
                    children.push(new);
                }
            }
        }
        self.all_changed_if(shift > 0);
        Ok(())
    }

    /// [Reduces](Self::reduce) a set and replaces its leaves by `count` new ones, which may be in
    /// any order. After an error the tree is unchanged.
    ///
    /// The new leaves take the smallest numbers of the set, then the numbers from
    /// [`len`](Self::len) on. If there are fewer new leaves than old ones, the leaves whose numbers
    /// are now too large move to the free numbers, both in ascending order.
    ///
    /// *Cost*: a reduction, and O(`count`).
    ///
    /// # Errors
    ///
    /// Fails like [`reduce`](Self::reduce), and also if the set is empty or the tree would become
    /// too large for [`MAX_LEAVES`](Self::MAX_LEAVES) or the memory.
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
        let leaves = others + u64::from(count);
        check_count(leaves)?;
        let more = u64::from(count).saturating_sub(set.len() as u64) as u32;
        let mut new: Vec<NodeId> = room(count as usize, leaves as u32)?;
        if self.nodes.must_renumber(more) {
            // A refusal must not renumber nodes.
            self.can_reduce(set)?;
        }
        let by = self.nodes.reserve_leaves(more)?;
        self.reduce(set)?;
        let (place, full_nodes) = self.find_full(set);
        let first = self.new_leaves(more);
        let mut old = set.to_vec();
        old.sort_unstable();
        let kept = old.len().min(count as usize);
        new.extend(old[..kept].iter().copied().chain(first..first + more).map(NodeId));
        let node = match *new.as_slice() {
            [] => NodeId::NONE,
            [leaf] => leaf,
            _ => self.nodes.allocate(),
        };
        self.put(&place, node);
        full_nodes.iter().for_each(|&node| self.nodes.release(node));
        if new.len() > 1 {
            self.nodes.set_children(node, Kind::P, &new);
            self.work.changed.push(node);
        }
        let moved = self.close_gaps(&old[kept..]);
        self.work.changed.sort_unstable();
        self.work.changed.dedup();
        self.all_changed_if(by > 0);
        let leaves = new.into_iter().map(|leaf| leaf.0).collect();
        Ok(Replaced { leaves, moved })
    }

    /// [Reduces](Self::reduce) a set and replaces it by one leaf, which takes the smallest number
    /// of the set. Like [`replace_set`](Self::replace_set) with a count of 1.
    pub fn merge(&mut self, set: &[u32]) -> Result<Replaced, ReduceError> {
        self.replace_set(set, 1)
    }

    /// Finds the place of a consecutive set, and the full inner nodes.
    fn find_full(&mut self, set: &[u32]) -> (Full, Vec<NodeId>) {
        if let [leaf] = *set {
            return (Full::Node(NodeId(leaf)), Vec::new());
        }
        if set.len() == self.len() as usize {
            return (Full::Node(self.nodes.root), self.inner_nodes());
        }
        let found = self.work.label(&mut self.nodes, set);
        let touched = self.work.touched[found.expect("the set was reduced")];
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

    /// Replaces the nodes that `full` describes by the node `new`, or removes them if it is `NONE`.
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

    /// Reduces a node's degree by the `by` children taken out. If one child is left, it replaces
    /// the node.
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

    /// Adds `count` leaves, whose numbers must be free. Returns the first.
    fn new_leaves(&mut self, count: u32) -> u32 {
        let first = self.nodes.leaves;
        self.nodes.leaves += count;
        first
    }

    /// Closes the gaps that removing the leaves `gone` (ascending) left in the numbers: leaves
    /// whose numbers are now too large take the free ones, in order. Returns old and new numbers.
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

/// The place of the leaves of a consecutive set.
enum Full {
    /// Below this node.
    Node(NodeId),
    /// Below some neighbouring children of a Q-node. `borders` holds the first and the last of
    /// these children, each with the sibling outside.
    Run { of: NodeId, count: u32, borders: [(NodeId, NodeId); 2] },
}
