//! The step of a reduction that changes the tree. One rule replaces the classic templates.
//!
//! A node is *full*, *partial* or *empty* if all, some or none of its leaves are in the set. The
//! terminal path is the apex and the partial nodes. The *predecessors* of a node on it are its
//! partial children: at most two of the apex, and at most one of any other node.
//!
//! An apex without predecessors changes only if it is a P-node: its full children move below a new
//! P-node. In a P-node with predecessors, these and the full children move below a new Q-node,
//! `[predecessor full predecessor]`; in a Q-node they already are in this order. Then each
//! predecessor is dissolved into the Q-node, the empty part outside and the full part inside:
//!
//! ```text
//!     [ … outer  partial  inner … ]   becomes
//!     [ … outer  empty…  its predecessor  full…  inner … ]
//! ```
//!
//! The predecessor of the dissolved child is dissolved in the same way, and so on down the path.
//! The full children of a P-node become one child, below a P-node if there are several; so do its
//! empty children. The children of a Q-node are spliced in unchanged.
//!
//! *Source*: Hsu and McConnell (2003), section 3: splitting the terminal path. Ours moves only full
//! children and predecessors, never empty children, and reuses the nodes that it dissolves.
//!
//! *Cost*: O(full children of the path's P-nodes + length of the path). The children of a small
//! Q-node get their new parent at once. This adds only a constant per Q-node, because it is done
//! for at most [`FEW`] children; a larger Q-node forwards its children to the new parent.

use crate::node::{Kind, NodeId};
use crate::nodes::Nodes;
use crate::work::{NIL, Path, Touched, Work};

/// The maximum number of children of a Q-node that get their new parent at once when it is spliced
/// into another. For few children this is faster than a forward, which lookups must follow.
const FEW: u32 = 8;

impl Work {
    /// Returns true if [`rearrange`](Self::rearrange) would change anything. If not, the set is
    /// consecutive in every order.
    pub(crate) fn has_work(&self, apex: u32) -> bool {
        let (touched, path) = (&self.touched[apex], &self.paths[apex]);
        path.predecessors[0] != NIL || (!touched.is_q() && touched.full() > 1)
    }

    /// Returns the home of a set that needs no rearranging: the node whose leaves are the set, or a
    /// Q-node with the set as the leaves of some neighbouring children.
    pub(crate) fn home(&self, apex: u32) -> NodeId {
        let touched = &self.touched[apex];
        if touched.full() == 1 { self.marked[touched.last_full].node } else { touched.node }
    }

    /// Makes the set consecutive, after labelling, finding the apex and checking. Returns the
    /// set's [`home`](Self::home).
    pub(crate) fn rearrange(&mut self, nodes: &mut Nodes, apex: u32) -> NodeId {
        let (touched, path) = (self.touched[apex], self.paths[apex]);
        self.changed.push(touched.node);
        if path.predecessors[0] == NIL {
            let group = self.group(nodes, &touched).expect("the apex has several full children");
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

    /// Dissolves a partial child of the Q-node `center`, then its predecessors down the path.
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

    /// Replaces a P-node by its empty part, predecessor and full part. Returns the node on the
    /// outer side of the predecessor.
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
        // If all remaining children are full, or all are empty, no new node is needed: the node
        // itself or its only child is that part.
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

    /// Returns one node for the `count` remaining children of a P-node: the P-node, or its only
    /// child. Returns `None` if no child remains.
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

    /// Takes the full children, if any, out of a P-node. Returns the only one, or a new P-node
    /// above them. The caller updates the degree of `from`.
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

/// Replaces a Q-node by its children. Returns the node on the outer side of the predecessor.
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

/// Writes the nodes that are not `None` to the front of `packed`. Returns their number.
fn fill(packed: &mut [NodeId; 3], nodes: [Option<NodeId>; 3]) -> usize {
    let mut count = 0;
    for node in nodes.into_iter().flatten().filter(|&node| node != NodeId::NONE) {
        packed[count] = node;
        count += 1;
    }
    count
}
