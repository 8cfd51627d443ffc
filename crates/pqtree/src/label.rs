//! The first step of a reduction: finds the full and the partial nodes.
//!
//! A node is *full* if all leaves below it are in the set, and *partial* if some but not all are.
//! The set is never all leaves, so the root is not full. Starting with the leaves of the set, count
//! the full children of each parent. A node is full when all of its children are, and then counts
//! at its own parent.
//!
//! Only temporary marks are written, so a failed reduction has nothing to undo.
//!
//! *Source*: Hsu and McConnell (2003), section 3: labelling and finding the terminal path. Their
//! tree has no root, so what is below a node depends on the direction. Ours is rooted above an
//! additional leaf that is in no set, so each node has only one "below".
//!
//! *Cost*: O(|S|) parent lookups. Every inner node has at least two children, so fewer nodes are
//! full than the set has leaves.

use crate::conflict::{LeafError, ReduceError};
use crate::node::NodeId;
use crate::nodes::{CHUNK, Nodes, Tag};
use crate::stack::Stack;
use crate::work::{Marked, Path, Touched, Work};

/// The maximum size of sets counted with branches, which for these is no slower than without.
const FEW: usize = 4;

impl Work {
    /// Labels the nodes for `set`, which must have more than one leaf but not all. Returns the
    /// place of the apex in `touched`.
    pub(crate) fn label(&mut self, nodes: &mut Nodes, set: &[u32]) -> Result<u32, ReduceError> {
        self.begin(nodes);
        self.count_leaves(nodes, set)?;
        self.count_full_nodes(nodes);
        self.find_apex(nodes)
    }

    /// Checks that the leaves of a set are in range and not repeated.
    pub(crate) fn check_leaves(&mut self, nodes: &Nodes, set: &[u32]) -> Result<(), LeafError> {
        self.in_set.resize(nodes.leaves as usize / 64 + 1, 0);
        put_in_set(&mut self.in_set, nodes.leaves, set)
    }

    pub(crate) fn begin(&mut self, nodes: &Nodes) {
        self.touched.clear();
        self.paths.clear();
        self.starts.clear();
        self.marked.clear();
        self.full_nodes.clear();
        self.in_set.resize(nodes.leaves as usize / 64 + 1, 0);
    }

    pub(crate) fn count_leaves(&mut self, nodes: &mut Nodes, set: &[u32]) -> Result<(), LeafError> {
        if set.len() <= FEW {
            put_in_set(&mut self.in_set, nodes.leaves, set)?;
            nodes.load_leaves(set);
            set.iter().for_each(|&leaf| self.count_full_child(nodes, NodeId(leaf)));
            return Ok(());
        }
        let mut parents = [NodeId::NONE; CHUNK];
        let mut is_settled = false;
        for chunk in set.chunks(CHUNK) {
            put_in_set(&mut self.in_set, nodes.leaves, chunk)?;
            if set.len() <= CHUNK {
                nodes.load_leaves(chunk);
            }
            nodes.load_parents(chunk, &mut parents);
            let before = self.touched.len() + self.full_nodes.len();
            if is_settled {
                self.count_at_known_parents(nodes, chunk, &parents);
            } else {
                self.count_at_any_parents(nodes, chunk, &parents);
            }
            let noted = self.touched.len() + self.full_nodes.len() - before;
            is_settled = noted <= CHUNK / 8;
        }
        Ok(())
    }

    /// Counts leaves at their parents.
    ///
    /// Two conditions are unpredictable: whether the parent was visited before, and whether it has
    /// become full. So neither is a branch: each record is always written, and kept only if needed.
    fn count_at_any_parents(
        &mut self,
        nodes: &mut Nodes,
        leaves: &[u32],
        parents: &[NodeId; CHUNK],
    ) {
        let (first, mut met, mut full) =
            (self.marked.len(), self.touched.len(), self.full_nodes.len());
        let marks = &mut self.marked.with_room(leaves.len(), Marked::NONE)[first..];
        let touched = self.touched.with_room(leaves.len(), Touched::NONE);
        let full_nodes = self.full_nodes.with_room(leaves.len(), NodeId::NONE);
        for (at, (mark, (&leaf, &up))) in
            marks.iter_mut().zip(leaves.iter().zip(parents)).enumerate()
        {
            let (parent, tag) = nodes.climb_from(NodeId(leaf), up);
            touched[met] = Touched::new(parent, tag);
            let place = tag.place_or(met as u32);
            met += usize::from(!tag.is_mark());
            nodes.put_tag(parent, Tag::mark(place));
            let touched = &mut touched[place as usize];
            *mark = Marked { node: NodeId(leaf), next: touched.count_full((first + at) as u32) };
            full_nodes[full] = parent;
            full += usize::from(touched.is_full());
        }
        self.marked.set_len(first + leaves.len());
        self.touched.set_len(met);
        self.full_nodes.set_len(full);
    }

    /// Counts leaves at their parents, if nearly all parents were visited before and are not full.
    /// Then two predictable branches are faster than writing records that are rarely kept.
    fn count_at_known_parents(
        &mut self,
        nodes: &mut Nodes,
        leaves: &[u32],
        parents: &[NodeId; CHUNK],
    ) {
        let first = self.marked.len();
        let marks = &mut self.marked.with_room(leaves.len(), Marked::NONE)[first..];
        for (at, (mark, (&leaf, &up))) in
            marks.iter_mut().zip(leaves.iter().zip(parents)).enumerate()
        {
            let (parent, tag) = nodes.climb_from(NodeId(leaf), up);
            let place = match tag.place() {
                Some(place) => place,
                None => add_touched(&mut self.touched, nodes, parent, tag),
            };
            let touched = &mut self.touched[place];
            *mark = Marked { node: NodeId(leaf), next: touched.count_full((first + at) as u32) };
            if touched.is_full() {
                self.full_nodes.push(parent);
            }
        }
        self.marked.set_len(first + leaves.len());
    }

    /// Counts each full inner node at its parent, until no further node becomes full.
    pub(crate) fn count_full_nodes(&mut self, nodes: &mut Nodes) {
        let mut counted = 0;
        while counted < self.full_nodes.len() {
            let node = self.full_nodes[counted as u32];
            counted += 1;
            self.count_full_child(nodes, node);
        }
    }

    #[inline(always)]
    fn count_full_child(&mut self, nodes: &mut Nodes, node: NodeId) {
        let (parent, tag) = nodes.climb(node);
        let place =
            tag.place().unwrap_or_else(|| add_touched(&mut self.touched, nodes, parent, tag));
        let touched = &mut self.touched[place];
        let next = touched.count_full(self.marked.len() as u32);
        self.marked.push(Marked { node, next });
        if touched.is_full() {
            self.full_nodes.push(touched.node);
        }
    }

    /// Returns the place in `touched` of a node on a path, given its tag. Adds the node on the
    /// first visit.
    #[inline]
    pub(crate) fn touch(&mut self, nodes: &mut Nodes, node: NodeId, tag: Tag) -> u32 {
        tag.place().unwrap_or_else(|| {
            debug_assert_eq!(
                self.paths.len(),
                self.touched.len(),
                "one path for each touched node"
            );
            self.paths.push(Path::NONE);
            add_touched(&mut self.touched, nodes, node, tag)
        })
    }
}

/// Adds a node to `touched` that is not in it yet.
#[inline]
fn add_touched(touched: &mut Stack<Touched>, nodes: &mut Nodes, node: NodeId, tag: Tag) -> u32 {
    let place = touched.len() as u32;
    nodes.put_tag(node, Tag::mark(place));
    touched.push(Touched::new(node, tag));
    place
}

/// Adds leaves to a set of one bit per leaf. Fails if a leaf is out of range or repeated.
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
