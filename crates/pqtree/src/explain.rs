//! Finds the leaves that prove a conflict. A failed reduction only reports that there is one.
//!
//! A reduction stops as soon as it is certain to fail. Here, all paths climb to the root instead.
//! Then a child is *marked* exactly if it has a leaf of the set below it. The marked children of a
//! Q-node must be one run. Only the borders of the run need a check: a Q-node may have far more
//! children than the set has leaves.
//!
//! *Cost*: O(|S| log |S| + ancestors of S + height of the tree) parent lookups.

use crate::conflict::{Conflict, LeafError};
use crate::node::NodeId;
use crate::nodes::Nodes;
use crate::tree::PqTree;
use crate::work::{NIL, Work};
use alloc::vec::Vec;

impl PqTree {
    /// Explains why [`reduce`](Self::reduce) refuses a set. Returns `None` if it accepts the set.
    ///
    /// ```
    /// # use pqtree::{Conflict, PqTree, ReduceError};
    /// let mut tree: PqTree = "(0 4 [1 2 3])".parse()?;
    /// assert_eq!(tree.reduce(&[1, 3]), Err(ReduceError::Conflict));
    /// let conflict = Conflict::Separated { inside: [1, 3], outside: 2 };
    /// assert_eq!(tree.conflict(&[1, 3])?, Some(conflict));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn conflict(&mut self, set: &[u32]) -> Result<Option<Conflict>, LeafError> {
        let found = if self.is_trivial(set) {
            self.work.check_leaves(&self.nodes, set).map(|()| None)
        } else {
            let found = self.work.explain(&mut self.nodes, set);
            self.work.unmark(&mut self.nodes);
            found
        };
        self.work.finish(set);
        found
    }
}

impl Work {
    fn explain(&mut self, nodes: &mut Nodes, set: &[u32]) -> Result<Option<Conflict>, LeafError> {
        self.begin(nodes);
        self.count_leaves(nodes, set)?;
        self.count_full_nodes(nodes);
        let steps = self.climb_to_the_root(nodes);
        Ok(Marks { work: self, nodes, steps }.conflict())
    }

    /// Lets all paths climb to the root. Returns their steps as pairs of places in `touched`,
    /// parent first, sorted.
    fn climb_to_the_root(&mut self, nodes: &mut Nodes) -> Vec<(u32, u32)> {
        let mut steps = Vec::new();
        for start in 0..self.start_paths() {
            let mut place = self.starts[start];
            while !self.touched[place].is_full() {
                let node = self.touched[place].node;
                let climbs = &mut self.paths[place].climbs;
                if core::mem::replace(climbs, true) || node == nodes.root {
                    break;
                }
                let (parent, tag) = nodes.climb(node);
                let above = self.touch(nodes, parent, tag);
                steps.push((above, place));
                place = above;
            }
        }
        steps.sort_unstable();
        steps
    }
}

/// A labelled tree whose paths have all climbed to the root.
struct Marks<'a> {
    work: &'a Work,
    nodes: &'a Nodes,
    steps: Vec<(u32, u32)>,
}

/// A border of a run: a child of a Q-node that has leaves of the set below it, and the child's
/// sibling that has none, or `NONE` if the child is the first or the last.
type Border = (NodeId, NodeId);

impl Marks<'_> {
    fn conflict(&self) -> Option<Conflict> {
        let mut apex = self.work.place(self.nodes, self.nodes.root)?;
        while let (0, [(_, below)]) = (self.work.touched[apex].full(), self.predecessors(apex)) {
            apex = *below;
        }
        let below = self.predecessors(apex);
        if let [(_, a), (_, b), (_, c), ..] = *below {
            return Some(self.three_splits([a, b, c]));
        }
        let at_apex = if self.is_q(apex) { self.separated(apex) } else { None };
        at_apex.or_else(|| below.iter().find_map(|&(_, path)| self.conflict_on_path(apex, path)))
    }

    /// Finds a conflict of the nodes on a path down from the apex, whose top node is at `place`.
    fn conflict_on_path(&self, apex: u32, mut place: u32) -> Option<Conflict> {
        let beyond = self.leaf_beyond(apex, place);
        loop {
            let below = self.predecessors(place);
            if let [(_, a), (_, b), ..] = *below {
                let inside = [a, b].map(|place| self.leaf_inside(place));
                let outside = [a, b].map(|place| self.leaf_outside(place));
                return Some(Conflict::TwoSplits { inside, outside, beyond });
            }
            if self.is_q(place) {
                let conflict =
                    self.separated(place).or_else(|| self.enclosed(place, below, beyond));
                if conflict.is_some() {
                    return conflict;
                }
            }
            place = below.first()?.1;
        }
    }

    fn three_splits(&self, places: [u32; 3]) -> Conflict {
        let inside = places.map(|place| self.leaf_inside(place));
        let outside = places.map(|place| self.leaf_outside(place));
        Conflict::ThreeSplits { inside, outside }
    }

    /// Finds the conflict of a Q-node whose children with leaves of the set are not one run, or
    /// that has a partial child inside the run.
    fn separated(&self, place: u32) -> Option<Conflict> {
        for &(_, partial) in self.predecessors(place) {
            let [a, b] = self.nodes.siblings(self.work.node_at(partial));
            if self.is_marked(a) && self.is_marked(b) {
                let inside = [a, b].map(|child| self.leaf_below_marked(child));
                return Some(separated(inside, self.leaf_outside(partial)));
            }
        }
        let borders = self.borders(place);
        let (first, x) = borders[0];
        let (last, y) = self.end_of_run(first, x);
        let is_elsewhere = |&&border: &&Border| border != (first, x) && border != (last, y);
        let &(other, _) = borders.iter().find(is_elsewhere)?;
        let (inside, beyond) = (self.leaf_below_marked(first), self.leaf_below_marked(other));
        // The other run may be on either side of this one.
        Some(match (self.any_leaf(x), self.any_leaf(y)) {
            (Some(x), Some(y)) => Conflict::Enclosed { inside, outside: [x, y], beyond },
            (outside, or) => {
                let outside = outside.or(or).expect("an unmarked child is next to the run");
                separated([inside, beyond], outside)
            }
        })
    }

    /// Finds the conflict of a Q-node below the apex whose children with leaves of the set are one
    /// run, but whose full children are not at an end.
    fn enclosed(&self, place: u32, below: &[(u32, u32)], beyond: u32) -> Option<Conflict> {
        let borders = self.borders(place);
        let &[(first, x), (last, y)] = borders.as_slice() else {
            unreachable!("one run has two borders")
        };
        let (Some(outside), inside) = (match (self.any_leaf(x), self.any_leaf(y)) {
            (Some(x), Some(y)) => (Some([x, y]), first),
            (None, None) => (None, first),
            (x, y) => {
                // A child at the end of the list may be partial only if it is the whole run.
                let (end, inner) = if x.is_none() { (first, last) } else { (last, first) };
                let partial = below.iter().find(|step| self.work.node_at(step.1) == end);
                let partial = partial.filter(|_| end != inner);
                (partial.and_then(|step| Some([self.leaf_outside(step.1), x.or(y)?])), inner)
            }
        }) else {
            return None;
        };
        Some(Conflict::Enclosed { inside: self.leaf_below_marked(inside), outside, beyond })
    }

    /// Walks along consecutive marked children from the first one, whose unmarked neighbour is
    /// `beyond`. Returns the last marked child and its unmarked neighbour.
    fn end_of_run(&self, first: NodeId, beyond: NodeId) -> Border {
        let (mut before, mut child) = (beyond, first);
        loop {
            let after = self.nodes.sibling_beside(child, before);
            if !self.is_marked(after) {
                return (child, after);
            }
            (before, child) = (child, after);
        }
    }

    /// Returns all borders between a marked and an unmarked child of the Q-node at `place`.
    fn borders(&self, place: u32) -> Vec<Border> {
        let siblings = |child| self.nodes.siblings(child).map(|beside| (child, beside));
        let marked = self
            .full_children(place)
            .chain(self.predecessors(place).iter().map(|&(_, partial)| self.work.node_at(partial)));
        marked.flat_map(siblings).filter(|&(_, beside)| !self.is_marked(beside)).collect()
    }

    fn full_children(&self, place: u32) -> impl Iterator<Item = NodeId> {
        let marked = |place: u32| self.work.marked.get(place);
        let last = marked(self.work.touched[place].last_full);
        core::iter::successors(last, move |child| marked(child.next)).map(|child| child.node)
    }

    /// Returns the steps by which paths reached the node at `place` from its children.
    fn predecessors(&self, place: u32) -> &[(u32, u32)] {
        let begin = self.steps.partition_point(|step| step.0 < place);
        let count = self.steps[begin..].iter().take_while(|step| step.0 == place).count();
        &self.steps[begin..begin + count]
    }

    fn is_q(&self, place: u32) -> bool {
        self.work.touched[place].is_q()
    }

    /// Returns true if a child of a visited node has leaves of the set below it.
    fn is_marked(&self, child: NodeId) -> bool {
        child != NodeId::NONE
            && if self.nodes.is_leaf(child) {
                self.work.is_full(self.nodes, child)
            } else {
                self.work.place(self.nodes, child).is_some()
            }
    }

    /// Returns a leaf of the set that is below the apex, but not below the apex's child at place
    /// `below`.
    fn leaf_beyond(&self, apex: u32, below: u32) -> u32 {
        if let Some(child) = self.full_children(apex).next() {
            return self.leaf_below_marked(child);
        }
        let other = self.predecessors(apex).iter().find(|step| step.1 != below);
        self.leaf_inside(other.expect("an apex without full children has two predecessors").1)
    }

    /// Returns a leaf of the set below a child that has at least one.
    fn leaf_below_marked(&self, child: NodeId) -> u32 {
        if self.work.is_full(self.nodes, child) {
            return self.any_leaf(child).expect("a child has leaves");
        }
        self.leaf_inside(self.work.place(self.nodes, child).expect("a marked node was visited"))
    }

    /// Returns a leaf of the set below a node that is not full.
    fn leaf_inside(&self, mut place: u32) -> u32 {
        while self.work.touched[place].last_full == NIL {
            place = self.predecessors(place)[0].1;
        }
        let child = self.full_children(place).next().expect("the path starts at a full child");
        self.any_leaf(child).expect("a child has leaves")
    }

    /// Returns a leaf outside the set below a node that is not full.
    fn leaf_outside(&self, mut place: u32) -> u32 {
        loop {
            let [mut child, _] = self.nodes.ends(self.work.node_at(place));
            let mut previous = NodeId::NONE;
            while self.work.is_full(self.nodes, child) {
                (previous, child) = (child, self.nodes.sibling_beside(child, previous));
            }
            match self.is_marked(child) {
                true => {
                    place = self.work.place(self.nodes, child).expect("partial nodes were visited")
                }
                false => return self.any_leaf(child).expect("a child has leaves"),
            }
        }
    }

    /// Returns a leaf below a node, if there is one.
    fn any_leaf(&self, mut node: NodeId) -> Option<u32> {
        while node != NodeId::NONE && !self.nodes.is_leaf(node) {
            [node, _] = self.nodes.ends(node);
        }
        (node != NodeId::NONE).then_some(node.0)
    }
}

/// Builds the conflict with the smaller leaf of `inside` first, because the order of siblings
/// depends on how the tree was made.
fn separated(mut inside: [u32; 2], outside: u32) -> Conflict {
    inside.sort_unstable();
    Conflict::Separated { inside, outside }
}
