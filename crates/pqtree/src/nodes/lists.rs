//! Surgery on lists of children: taking out, putting in, moving over.
//!
//! A list has two ends, kept by its node, and each child has two siblings, in no order; `NONE` is
//! beyond the ends. What leads to a child is so a sibling of it, or an end:
//! [`relink`](Nodes::relink) mends either.

use crate::node::{Kind, NodeId};
use crate::nodes::{CHUNK, Nodes};
use core::hint::black_box;

impl Nodes {
    /// Puts `new` for `old` into the link that leads to `old` from `from`, or from an end of `list`
    /// if that is `NONE`.
    pub(crate) fn relink(&mut self, list: NodeId, from: NodeId, old: NodeId, new: NodeId) {
        if from != NodeId::NONE {
            self.replace_sibling(from, old, new);
            return;
        }
        let ends = self.ends(list);
        self.set_ends(list, if ends[0] == old { [new, ends[1]] } else { [ends[0], new] });
    }

    /// Takes a child out of its list. The degree is left to the caller, as several are often taken
    /// out together.
    #[inline]
    pub(crate) fn unlink(&mut self, list: NodeId, child: NodeId) {
        let [a, b] = self.siblings(child);
        self.relink(list, a, child, b);
        self.relink(list, b, child, a);
    }

    /// Appends a child at the second end of a list. The degree is left to the caller.
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

    /// Gives `count` children, from `first` on and away from `before`, to another parent. Their
    /// list is left to the caller.
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

    /// Moves children out of the list of `from`, whose degree is left to the caller; they become
    /// all of the list of `to`.
    pub(crate) fn regroup(&mut self, from: NodeId, to: NodeId, children: &[NodeId]) {
        if self.journal.is_open() {
            children.iter().for_each(|&child| self.unlink(from, child));
            self.set_children(to, Kind::P, children);
            return;
        }
        // The same without logging. Most reductions spend most of their time here.
        let siblings = self.siblings.as_mut_slice();
        let mut ends = self.ends[(from.0 - self.base) as usize];
        let mut before = NodeId::NONE;
        for chunk in children.chunks(CHUNK) {
            // As in `load_parents`.
            let load = |sum, sibling: &NodeId| {
                sum ^ siblings.get(sibling.index()).map_or(0, |pair| pair[0].0)
            };
            black_box(
                chunk.iter().fold(0, |sum, child| siblings[child.index()].iter().fold(sum, load)),
            );
            for &child in chunk {
                let [a, b] = siblings[child.index()];
                for (beside, other) in [(a, b), (b, a)] {
                    // `NONE` is beyond the slice: then the link is an end of the list.
                    let pair = siblings.get_mut(beside.index()).unwrap_or(&mut ends);
                    pair[usize::from(pair[0] != child)] = other;
                }
                self.up[child.index()] = to;
                // Of the pair, the second half is set when the next child is there.
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

    /// Hangs `new` where `old` hangs now; `old` hangs nowhere then.
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
