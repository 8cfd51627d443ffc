//! The writing half of a reduction: one rule in the place of templates.
//!
//! At the apex the full children and the predecessors are gathered in a Q-node, `[predecessor full
//! predecessor]`; then each predecessor, which is partial, is dissolved into that Q-node from the
//! outside to the inside,
//!
//! ```text
//!     [ … outer  partial  inner … ]   becomes   [ … outer  empty…  its predecessor  full…  inner … ]
//! ```
//!
//! and so is its own predecessor, down the path. The full children of a P-node stand there as one
//! child, a P-node if they are several, and so do its empty ones; a Q-node's children are spliced
//! in as they are.
//!
//! *Source*: Hsu and McConnell (2003), section 3: splitting the terminal path. Ours moves only full
//! children and predecessors, never empty ones, and reuses the nodes it dissolves.
//!
//! *Cost*: O(full children of the path's P-nodes + length of the path). Pointing a few children to
//! their new parent adds a constant: it is done only while their parent has few children, and it
//! has more of them every time.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::work::{NIL, Path, Touched, Work};

/// A Q-node with so few children that, when it is spliced into another, they are pointed to it at
/// once: that is sooner done than each of them being found through a forward.
const FEW: u32 = 8;

impl Work {
    /// Whether [`rearrange`](Self::rearrange) would change anything: if not, the set is consecutive
    /// in every order.
    pub(crate) fn has_work(&self, apex: u32) -> bool {
        let (touched, path) = (&self.touched[apex], &self.paths[apex]);
        path.predecessors[0] != NIL || (!touched.is_q() && touched.full() > 1)
    }

    /// The node of whose leaves, or of a run of whose children, the set consists, where nothing is
    /// to be rearranged.
    pub(crate) fn home(&self, apex: u32) -> NodeId {
        let touched = &self.touched[apex];
        if touched.full() == 1 { self.marked[touched.last_full].node } else { touched.node }
    }

    /// Makes the set consecutive. Labels, apex and check have to be done. Returns its home, as
    /// [`home`](Self::home).
    pub(crate) fn rearrange(&mut self, nodes: &mut Nodes, apex: u32) -> NodeId {
        let (touched, path) = (self.touched[apex], self.paths[apex]);
        self.changed.clear();
        self.changed.push(touched.node);
        if path.predecessors[0] == NIL {
            let group = self.group(nodes, &touched).expect("more than one full child");
            nodes.append(touched.node, group);
            nodes.set_degree(touched.node, Kind::P, touched.degree() - touched.full() + 1);
            return group;
        }
        let (center, outer) = if touched.is_q() {
            (touched.node, path.outer)
        } else {
            (self.make_center(nodes, &touched, &path), [NodeId::NONE; 2])
        };
        for (predecessor, outer) in path.predecessors.into_iter().zip(outer) {
            self.dissolve(nodes, center, predecessor, outer);
        }
        center
    }

    /// Gathers the full children and the predecessors of the apex, a P-node, in a Q-node.
    fn make_center(&mut self, nodes: &mut Nodes, apex: &Touched, path: &Path) -> NodeId {
        let node = apex.node;
        let [first, second] = path.predecessors.map(|place| self.node_at(place));
        let rest = apex.degree() - apex.full() - path.predecessor_count();
        for predecessor in [first, second] {
            if predecessor != NodeId::NONE {
                nodes.unlink(node, predecessor);
            }
        }
        let group = if rest == 0 && apex.full() > 1 {
            nodes.set_degree(node, Kind::P, apex.full());
            Some(node)
        } else {
            self.group(nodes, apex)
        };
        let center = if rest == 0 && apex.full() < 2 {
            node
        } else {
            let center = nodes.allocate();
            self.changed.push(center);
            if rest == 0 {
                nodes.take_place(node, center);
                self.changed.extend(Some(nodes.parent(center)).filter(|&p| p != NodeId::NONE));
            } else {
                nodes.append(node, center);
                nodes.set_degree(node, Kind::P, rest + 1);
            }
            center
        };
        let mut children = [NodeId::NONE; 3];
        let count = fill(&mut children, [Some(first), group, Some(second)]);
        nodes.set_children(center, Kind::Q, &children[..count]);
        center
    }

    /// Dissolves a partial child of the Q-node `center`, and its predecessors after it.
    fn dissolve(&mut self, nodes: &mut Nodes, center: NodeId, mut place: u32, mut outer: NodeId) {
        while place != NIL {
            let (touched, path) = (self.touched[place], self.paths[place]);
            let predecessor = self.node_at(path.predecessors[0]);
            outer = if touched.is_q() {
                splice_q(nodes, center, (&touched, &path), outer, predecessor)
            } else {
                self.split_p(nodes, center, &touched, outer, predecessor)
            };
            place = path.predecessors[0];
        }
    }

    /// Puts the parts of a P-node in its place. Returns the outer sibling of its predecessor.
    fn split_p(
        &mut self,
        nodes: &mut Nodes,
        center: NodeId,
        split: &Touched,
        outer: NodeId,
        predecessor: NodeId,
    ) -> NodeId {
        let node = split.node;
        let inner = nodes.sibling_beside(node, outer);
        if predecessor != NodeId::NONE {
            nodes.unlink(node, predecessor);
        }
        let empty = split.degree() - split.full() - u32::from(predecessor != NodeId::NONE);
        // When all that is left in the node is of one sort, the node itself or its only child is
        // that part.
        let (full_part, empty_part) = match (split.full(), empty) {
            (full, 0) => (self.only_part(nodes, node, full), None),
            (0, empty) => (None, self.only_part(nodes, node, empty)),
            (_, empty) => {
                let full_part = self.group(nodes, split);
                (full_part, self.only_part(nodes, node, empty))
            }
        };
        let mut parts = [NodeId::NONE; 3];
        let count = fill(&mut parts, [empty_part, Some(predecessor), full_part]);
        let parts = &parts[..count];
        let mut before = outer;
        for (place, &part) in parts.iter().enumerate() {
            let after = parts.get(place + 1).copied().unwrap_or(inner);
            nodes.set_up(part, center);
            nodes.set_siblings(part, [before, after]);
            before = part;
        }
        nodes.relink(center, outer, node, parts[0]);
        nodes.relink(center, inner, node, before);
        let degree = nodes.tag(center).degree() + count as u32 - 1;
        nodes.set_degree(center, Kind::Q, degree);
        empty_part.unwrap_or(outer)
    }

    /// What is left of a P-node when `count` children are left in it: itself, or its only child.
    fn only_part(&mut self, nodes: &mut Nodes, node: NodeId, count: u32) -> Option<NodeId> {
        match count {
            0 => {
                nodes.release(node);
                None
            }
            1 => {
                let child = nodes.ends(node)[0];
                nodes.release(node);
                Some(child)
            }
            _ => {
                nodes.set_degree(node, Kind::P, count);
                self.changed.push(node);
                Some(node)
            }
        }
    }

    /// Takes the full children out of a P-node, and puts a new P-node above them if they are
    /// several. The degree of the node they are taken from is left to the caller.
    fn group(&mut self, nodes: &mut Nodes, from: &Touched) -> Option<NodeId> {
        if from.full() < 2 {
            let child = self.marked.get(from.last_full)?.node;
            nodes.unlink(from.node, child);
            return Some(child);
        }
        let group = nodes.allocate();
        self.changed.push(group);
        let count = from.full() as usize;
        if self.moving.len() < count {
            self.moving.resize(count, NodeId::NONE);
        }
        let children = &mut self.moving[..count];
        let mut place = from.last_full;
        for child in children.iter_mut() {
            let marked = self.marked[place];
            (*child, place) = (marked.node, marked.next);
        }
        nodes.regroup(from.node, group, children);
        Some(group)
    }
}

/// Puts the children of a Q-node in its place. Returns the outer sibling of its predecessor.
fn splice_q(
    nodes: &mut Nodes,
    center: NodeId,
    (split, path): (&Touched, &Path),
    outer: NodeId,
    predecessor: NodeId,
) -> NodeId {
    let node = split.node;
    let inner = nodes.sibling_beside(node, outer);
    let [a, b] = nodes.ends(node);
    let full_end = path.full_end;
    let empty_end = if a == full_end { b } else { a };
    nodes.relink(center, outer, node, empty_end);
    nodes.relink(center, inner, node, full_end);
    nodes.replace_sibling(empty_end, NodeId::NONE, outer);
    nodes.replace_sibling(full_end, NodeId::NONE, inner);
    let degree = nodes.tag(center).degree() + split.degree() - 1;
    nodes.set_degree(center, Kind::Q, degree);
    if split.degree() <= FEW {
        nodes.give_children(empty_end, outer, split.degree(), center);
        nodes.release(node);
    } else {
        nodes.forward(node, center);
    }
    if predecessor == empty_end { outer } else { path.outer[0] }
}

/// Packs the nodes that there are to the front; returns how many.
fn fill(packed: &mut [NodeId; 3], nodes: [Option<NodeId>; 3]) -> usize {
    let mut count = 0;
    for node in nodes.into_iter().flatten().filter(|&node| node != NodeId::NONE) {
        packed[count] = node;
        count += 1;
    }
    count
}
