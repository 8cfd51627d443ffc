//! Edits of lists of children: removing, inserting, moving.
//!
//! The parent keeps the two ends of a list. Each child keeps two siblings, in no order; at an end,
//! one is `NONE`. So a child is linked from its siblings or, at an end, from the parent.
//! [`relink`](Nodes::relink) updates either link.

use crate::node::{Kind, NodeId};
use crate::nodes::{CHUNK, Nodes};
use alloc::vec::Vec;
use core::hint::black_box;

impl Nodes {
    /// Changes the link to `old` into a link to `new`: in the sibling `from`, or in an end of
    /// `list` if `from` is `NONE`.
    pub(crate) fn relink(&mut self, list: NodeId, from: NodeId, old: NodeId, new: NodeId) {
        if from != NodeId::NONE {
            self.replace_sibling(from, old, new);
            return;
        }
        let ends = self.ends(list);
        self.set_ends(list, if ends[0] == old { [new, ends[1]] } else { [ends[0], new] });
    }

    /// Removes a child from its list. The caller updates the degree, because several children are
    /// often removed together.
    #[inline]
    pub(crate) fn unlink(&mut self, list: NodeId, child: NodeId) {
        let [a, b] = self.siblings(child);
        self.relink(list, a, child, b);
        self.relink(list, b, child, a);
    }

    /// Appends a child at the second end of a list. The caller updates the degree.
    pub(crate) fn append(&mut self, list: NodeId, child: NodeId) {
        let [first, last] = self.ends(list);
        self.set_up(child, list);
        self.set_siblings(child, [last, NodeId::NONE]);
        if last == NodeId::NONE {
            self.set_ends(list, [child, child]);
        } else {
            self.replace_sibling(last, NodeId::NONE, child);
            self.set_ends(list, [first, child]);
        }
    }

    /// Gives `count` neighbouring children the parent `to`, from `first` on and away from its
    /// sibling `before`. The caller updates the lists.
    pub(crate) fn give_children(&mut self, first: NodeId, before: NodeId, count: u32, to: NodeId) {
        let (mut child, mut previous) = (first, before);
        for _ in 0..count {
            self.set_up(child, to);
            (previous, child) = (child, self.sibling_beside(child, previous));
        }
    }

    /// Makes `children` the whole list of `node`.
    pub(crate) fn set_children(&mut self, node: NodeId, kind: Kind, children: &[NodeId]) {
        let mut before = NodeId::NONE;
        let after = children[1..].iter().copied().chain([NodeId::NONE]);
        for (&child, after) in children.iter().zip(after) {
            self.set_up(child, node);
            self.set_siblings(child, [before, after]);
            before = child;
        }
        self.set_ends(node, [children[0], before]);
        self.set_degree(node, kind, children.len() as u32);
    }

    /// Moves children from the list of `from` to become the whole list of `to`. The caller updates
    /// the degree of `from`.
    pub(crate) fn regroup(&mut self, from: NodeId, to: NodeId, children: &[NodeId]) {
        if self.journal.is_open() {
            children.iter().for_each(|&child| self.unlink(from, child));
            self.set_children(to, Kind::P, children);
            return;
        }
        // The same without logging. Most reductions spend most of their time in this loop.
        let siblings = self.siblings.as_mut_slice();
        let mut ends = self.ends[(from.0 - self.base) as usize];
        let mut before = NodeId::NONE;
        for chunk in children.chunks(CHUNK) {
            // Load early, like in `load_parents`.
            let load = |sum, sibling: &NodeId| {
                sum ^ siblings.get(sibling.index()).map_or(0, |pair| pair[0].0)
            };
            black_box(
                chunk.iter().fold(0, |sum, child| siblings[child.index()].iter().fold(sum, load)),
            );
            for &child in chunk {
                let [a, b] = siblings[child.index()];
                for (beside, other) in [(a, b), (b, a)] {
                    // `NONE` is out of range: then the link is an end of the list.
                    let pair = siblings.get_mut(beside.index()).unwrap_or(&mut ends);
                    pair[usize::from(pair[0] != child)] = other;
                }
                self.up[child.index()] = to;
                // The next child completes the pair.
                siblings[child.index()] = [before, NodeId::NONE];
                if let Some(pair) = siblings.get_mut(before.index()) {
                    pair[1] = child;
                }
                before = child;
            }
        }
        self.set_ends(from, ends);
        self.set_ends(to, [children[0], before]);
        self.set_degree(to, Kind::P, children.len() as u32);
    }

    /// Moves the cut in the circle of a PC-tree to a leaf. Swaps the leaf with the element above
    /// the root, where the circle was cut before, so that the number of the leaf now stands for
    /// that element. Returns the leaf and the nodes above it. A second call swaps the two back.
    ///
    /// Each of these nodes is a circle of its parent and its children. Its parent and the child on
    /// the path change roles, so the list of children begins at another place of the circle.
    ///
    /// *Cost*: O(depth of the leaf).
    pub(crate) fn cut_at(&mut self, leaf: NodeId) -> Vec<NodeId> {
        let above = |&node: &NodeId| Some(self.parent(node)).filter(|&it| it != NodeId::NONE);
        let path: Vec<NodeId> = core::iter::successors(Some(leaf), above).collect();
        let pairs: Vec<_> = path.iter().map(|&node| self.siblings(node)).collect();
        for (at, &node) in path.iter().enumerate().skip(1) {
            let (below, beside) = (path[at - 1], pairs[at - 1]);
            let above = path.get(at + 1).copied().unwrap_or(leaf);
            let ends = self.ends(node);
            for end in ends.into_iter().filter(|&end| end != below) {
                self.replace_sibling(end, NodeId::NONE, above);
            }
            for sibling in beside.into_iter().filter(|&sibling| sibling != NodeId::NONE) {
                self.replace_sibling(sibling, below, NodeId::NONE);
            }
            self.set_siblings(above, ends.map(|it| if it == below { NodeId::NONE } else { it }));
            self.set_ends(node, beside.map(|it| if it == NodeId::NONE { above } else { it }));
            self.set_up(above, node);
        }
        if let Some(&root) = path.get(1) {
            self.set_up(root, NodeId::NONE);
            self.root = root;
        }
        path
    }

    /// Puts `new` in the place of `old`, which is then in no list.
    pub(crate) fn take_place(&mut self, old: NodeId, new: NodeId) {
        let parent = self.parent(old);
        let pair = self.siblings(old);
        self.set_up(new, parent);
        self.set_siblings(new, pair);
        if parent == NodeId::NONE {
            self.root = new;
            return;
        }
        for sibling in pair {
            self.relink(parent, sibling, old, new);
        }
    }
}
