//! First third of a reduction: which nodes are full, and which are partial.
//!
//! A node is *full* if all leaves below it are in the set, *partial* if some but not all of them
//! are. As the set is never all leaves, the root is not full. Count, at each parent, its full
//! children, beginning with the leaves of the set; a node whose full children are as many as its
//! children is full itself and is counted at its own parent.
//!
//! Nothing but marks is written, so a reduction that fails has nothing to undo.
//!
//! *Source*: Hsu and McConnell (2003), section 3: labelling and finding the terminal path. Ours is
//! rooted above a leaf that is in no set, so that "full" needs no choice of side and the tree is
//! never re-rooted.
//!
//! *Cost*: O(|S|) finds of a parent: as every inner node has two children or more, fewer nodes are
//! full than the set has leaves.

use crate::conflict::{LeafError, ReduceError};
use crate::node::{Kind, NodeId};
use crate::nodes::{CHUNK, Nodes, Tag};
use alloc::vec::Vec;

/// For so few leaves it does not pay to look at their parents together.
const FEW: usize = 4;

/// No index into [`Work::marked`] or [`Work::touched`].
pub(crate) const NIL: u32 = u32::MAX;

/// What a reduction knows about the tree while it runs. Kept only to be allocated once.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// One bit a leaf: in the set. All zero between reductions.
    in_set: Vec<u64>,
    /// The leaves of the set, then the inner nodes that are full, each linked to the previous one
    /// of the same parent.
    pub(crate) marked: Vec<Marked>,
    /// The inner nodes that a reduction met. The tag of such a node is a mark that says where it
    /// stands here.
    pub(crate) touched: Vec<Touched>,
    /// The inner nodes that are full, in the order in which they became so.
    pub(crate) full_nodes: Vec<NodeId>,
    /// The place in `touched` of the only node with two predecessors, or `NIL`.
    pub(crate) fork: u32,
    /// The full children that are moved from one node to another.
    pub(crate) moving: Vec<NodeId>,
    /// Inner nodes whose list of children the last successful reduction made or altered.
    pub(crate) changed: Vec<NodeId>,
}

/// A full node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub(crate) node: NodeId,
    /// The place in `marked` of another full child of the same parent, or `NIL`.
    pub(crate) next: u32,
}

/// An inner node that is full, partial, or on the way from a partial node to the apex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) node: NodeId,
    pub(crate) degree: u32,
    pub(crate) is_q: bool,
    /// Whether a path has come to it.
    pub(crate) climbs: bool,
    /// Whether a path has left it upwards, and it can lie below the apex as far as is known.
    pub(crate) fits: bool,
    /// The number of full children, and the place in `marked` of one of them.
    pub(crate) full: u32,
    pub(crate) last_full: u32,
    /// The children on the paths that came through here: places in `touched`, or `NIL`.
    pub(crate) predecessors: [u32; 2],
    /// For a Q-node: beside each predecessor, its sibling away from the full children. Below the
    /// apex, as long as there is no predecessor: the sibling on the inner side of the full
    /// children, and the full child beside it.
    pub(crate) outer: [NodeId; 2],
    /// For a Q-node below the apex: the end at which its full children, or its only predecessor,
    /// lie.
    pub(crate) full_end: NodeId,
}

impl Touched {
    pub(crate) fn is_full(&self) -> bool {
        self.full == self.degree
    }

    /// Counts a full child whose mark is at `place`. Returns the place of the one before.
    #[inline]
    fn count_full(&mut self, place: u32) -> u32 {
        self.full += 1;
        core::mem::replace(&mut self.last_full, place)
    }

    fn tag(&self) -> Tag {
        Tag::new(if self.is_q { Kind::Q } else { Kind::P }, self.degree)
    }

    pub(crate) fn predecessor_count(&self) -> u32 {
        self.predecessors.iter().filter(|&&place| place != NIL).count() as u32
    }
}

impl Clone for Work {
    /// Marks are worth nothing in a copy.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Work {
    /// Labels the nodes for `set`, which has to be larger than one leaf and smaller than the tree;
    /// returns the place of the apex in `touched`.
    pub(crate) fn label(&mut self, nodes: &mut Nodes, set: &[u32]) -> Result<u32, ReduceError> {
        self.begin(nodes);
        self.count_leaves(nodes, set)?;
        self.count_full_nodes(nodes);
        self.find_apex(nodes)
    }

    /// Puts the tags of the inner nodes back. To be called after each [`label`](Self::label),
    /// whatever became of it, and before anything is written.
    pub(crate) fn unmark(&self, nodes: &mut Nodes) {
        for touched in &self.touched {
            nodes.put_tag(touched.node, touched.tag());
        }
    }

    /// Takes the marks off the leaves, after all else.
    pub(crate) fn finish(&mut self, set: &[u32]) {
        for &leaf in set {
            if let Some(word) = self.in_set.get_mut(leaf as usize / 64) {
                *word = 0;
            }
        }
        self.trim();
    }

    /// Gives back the memory that an uncommonly large set needed, so that the tree stays as small
    /// as it is. The next such set can pay for it again.
    fn trim(&mut self) {
        let limit = (64 << 10) + 16 * self.in_set.len();
        if self.marked.capacity() * size_of::<Marked>() > limit {
            (self.marked, self.moving) = (Vec::new(), Vec::new());
        }
        if self.full_nodes.capacity() * size_of::<NodeId>() > limit {
            self.full_nodes = Vec::new();
        }
        if self.touched.capacity() * size_of::<Touched>() > limit {
            self.touched = Vec::new();
        }
    }

    pub(crate) fn is_full(&self, nodes: &Nodes, node: NodeId) -> bool {
        if nodes.is_leaf(node) {
            return self.in_set[node.index() / 64] >> (node.0 % 64) & 1 == 1;
        }
        self.place(nodes, node).is_some_and(|place| self.touched[place as usize].is_full())
    }

    /// The node at a place in `touched`, or `NONE`.
    pub(crate) fn node_at(&self, place: u32) -> NodeId {
        if place == NIL { NodeId::NONE } else { self.touched[place as usize].node }
    }

    /// Where a node stands in `touched`, if this reduction met it.
    pub(crate) fn place(&self, nodes: &Nodes, node: NodeId) -> Option<u32> {
        nodes.tag(node).place()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.in_set.capacity() * size_of::<u64>()
            + self.marked.capacity() * size_of::<Marked>()
            + self.touched.capacity() * size_of::<Touched>()
            + self.full_nodes.capacity() * size_of::<NodeId>()
            + self.moving.capacity() * size_of::<NodeId>()
            + self.changed.capacity() * size_of::<NodeId>()
    }

    /// Whether the leaves of a set that is trivially consecutive are what they should be.
    pub(crate) fn check_leaves(&mut self, nodes: &Nodes, set: &[u32]) -> Result<(), LeafError> {
        self.in_set.resize(nodes.leaves as usize / 64 + 1, 0);
        put_in_set(&mut self.in_set, nodes.leaves, set)
    }

    pub(crate) fn begin(&mut self, nodes: &Nodes) {
        self.touched.clear();
        self.marked.clear();
        self.full_nodes.clear();
        self.in_set.resize(nodes.leaves as usize / 64 + 1, 0);
    }

    pub(crate) fn count_leaves(&mut self, nodes: &mut Nodes, set: &[u32]) -> Result<(), LeafError> {
        if set.len() <= FEW {
            put_in_set(&mut self.in_set, nodes.leaves, set)?;
            set.iter().for_each(|&leaf| self.count_full_child(nodes, NodeId(leaf)));
            return Ok(());
        }
        let mut parents = [NodeId::NONE; CHUNK];
        for chunk in set.chunks(CHUNK) {
            put_in_set(&mut self.in_set, nodes.leaves, chunk)?;
            nodes.load_parents(chunk, &mut parents);
            // All marks at once, and the links between them after that: no mark has to look whether
            // there is memory for it.
            let first = self.marked.len();
            let mark = |&leaf: &u32| Marked { node: NodeId(leaf), next: NIL };
            self.marked.extend(chunk.iter().map(mark));
            let (marks, touched) = (&mut self.marked[first..], &mut self.touched);
            for (at, (mark, &up)) in marks.iter_mut().zip(&parents).enumerate() {
                let parent = match nodes.tag(up).place() {
                    Some(place) => place,
                    None => meet_parent(touched, nodes, mark.node),
                };
                let parent = &mut touched[parent as usize];
                mark.next = parent.count_full((first + at) as u32);
                if parent.is_full() {
                    self.full_nodes.push(parent.node);
                }
            }
        }
        Ok(())
    }

    /// Counts the inner nodes that are full, until no more of them become so.
    pub(crate) fn count_full_nodes(&mut self, nodes: &mut Nodes) {
        let mut counted = 0;
        while counted < self.full_nodes.len() {
            let node = self.full_nodes[counted];
            counted += 1;
            self.count_full_child(nodes, node);
        }
    }

    #[inline(always)]
    fn count_full_child(&mut self, nodes: &mut Nodes, node: NodeId) {
        let (parent, tag) = nodes.climb(node);
        let parent = self.touch(nodes, parent, tag);
        let touched = &mut self.touched[parent as usize];
        let next = touched.count_full(self.marked.len() as u32);
        self.marked.push(Marked { node, next });
        if touched.is_full() {
            self.full_nodes.push(touched.node);
        }
    }

    /// The place in `touched` of a node with this tag, where it is put if this reduction has not
    /// met it yet.
    #[inline]
    pub(crate) fn touch(&mut self, nodes: &mut Nodes, node: NodeId, tag: Tag) -> u32 {
        tag.place().unwrap_or_else(|| meet(&mut self.touched, nodes, node, tag))
    }
}

/// Adds leaves to the set, which has one bit a leaf.
#[inline]
fn put_in_set(in_set: &mut [u64], leaves: u32, chunk: &[u32]) -> Result<(), LeafError> {
    for &leaf in chunk {
        if leaf >= leaves {
            return Err(LeafError::OutOfRange { leaf, leaves });
        }
        let (word, bit) = (&mut in_set[leaf as usize / 64], 1 << (leaf % 64));
        if *word & bit != 0 {
            return Err(LeafError::Repeated { leaf });
        }
        *word |= bit;
    }
    Ok(())
}

/// The place in `touched` of a node's parent, which has no mark, or is found through a forward. Out of
/// the way of the loop in which it is called.
#[inline(never)]
fn meet_parent(touched: &mut Vec<Touched>, nodes: &mut Nodes, node: NodeId) -> u32 {
    let (parent, tag) = nodes.climb(node);
    tag.place().unwrap_or_else(|| meet(touched, nodes, parent, tag))
}

/// Puts a node that has no mark into `touched`.
#[inline]
fn meet(touched: &mut Vec<Touched>, nodes: &mut Nodes, node: NodeId, tag: Tag) -> u32 {
    let place = touched.len() as u32;
    nodes.put_tag(node, Tag::mark(place));
    touched.push(Touched {
        node,
        degree: tag.degree(),
        full: 0,
        last_full: NIL,
        is_q: tag.is_q(),
        climbs: false,
        fits: false,
        predecessors: [NIL; 2],
        outer: [NodeId::NONE; 2],
        full_end: NodeId::NONE,
    });
    place
}
