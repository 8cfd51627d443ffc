//! Matches the tree nodes of two operands of a batch.
//!
//! Nodes are matched bottom-up by position. The image of a leaf is the leaf at the same position of
//! the other operand. The image of an inner node is the common parent of its children's images, if
//! that parent admits the same orders of them. If there is no such parent, the variables at the
//! node's positions must still be made consecutive in the other operand.
//!
//! *Source*: `ParseEquivNodeOrderPair` of the paper's appendix. The paper stores one reference
//! order for each node, but two operands of a batch may share nodes, as in its own example. We
//! store one for each pair of operands. *Cost*: O(positions).

use super::relation::Permutation;
use super::snapshot::{NONE, Part, Snapshot};

/// Two nodes; the order of either one's children determines the order of the other's children.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) a: u32,
    pub(super) b: u32,
    /// For P-nodes: child `i` of `a` corresponds to child `to(i)` of `b`. For Q-nodes: the identity
    /// if corresponding children have the same order, else [`Permutation::reversal`].
    pub(super) to: Permutation,
}

/// Matches the nodes of two operands. Its memory is reused from call to call.
#[derive(Default, Debug)]
pub(super) struct Matcher {
    /// The node pairs found by the last call.
    pub(super) pairs: Vec<Pair>,
    /// The sets of variables of the second operand that must be consecutive, found by the last
    /// call.
    pub(super) missing: Vec<Vec<u32>>,
    /// For each node of the first operand its image, or `NONE`.
    images: Vec<u32>,
    children: Vec<u32>,
    /// For each child of the current node: the index of its image among the image's siblings.
    indices: Vec<u32>,
}

impl Matcher {
    /// Matches the nodes of operand `a` to the nodes of operand `b`. Returns true if every node has
    /// an image: then the operands have equal trees.
    pub(super) fn match_operands(&mut self, tree: &Snapshot, a: &[u32], b: &[u32]) -> bool {
        let part = tree.part(a);
        self.pairs.clear();
        self.missing.clear();
        self.images.clear();
        self.images.resize(part.len(), NONE);
        for (&from, &to) in a.iter().zip(b) {
            self.images[(tree.place(from) - part.first) as usize] = tree.place(to);
        }
        let mut complete = true;
        for place in part.first..=part.last {
            let node = tree.node(place);
            if node.degree == 0 {
                continue;
            }
            self.collect(tree.children(place));
            let is_root = place == part.last && node.first == part.first;
            let size = if is_root { Size::AtLeast } else { Size::Exactly };
            let image = self.image(tree, part, node.permutes, size);
            if image == NONE {
                complete = false;
                self.report_missing(tree, part, node.permutes, is_root);
            } else {
                self.images[(place - part.first) as usize] = image;
                self.pair(tree, place, image);
            }
        }
        if tree.node(part.last).first != part.first {
            // The operand is a run of a Q-node's children.
            self.collect(tree.children_down_to(part.first, part.last));
            let image = self.image(tree, part, false, Size::AtLeast);
            if image == NONE {
                complete = false;
                self.report_missing(tree, part, false, true);
            } else {
                self.pair(tree, tree.node(part.last).parent, image);
            }
        }
        complete
    }

    /// Stores children in `self.children`, from left to right. The iterator returns them from right
    /// to left.
    fn collect(&mut self, children: impl Iterator<Item = u32>) {
        self.children.clear();
        self.children.extend(children);
        self.children.reverse();
    }

    /// Returns the image of the node whose children are `self.children`, or `NONE`.
    fn image(&mut self, tree: &Snapshot, part: Part, permutes: bool, size: Size) -> u32 {
        let images = self.children.iter().map(|&child| self.images[(child - part.first) as usize]);
        let mut parent = NONE;
        self.indices.clear();
        for image in images {
            if image == NONE {
                return NONE;
            }
            let node = tree.node(image);
            if node.parent == NONE || (parent != NONE && parent != node.parent) {
                return NONE;
            }
            parent = node.parent;
            self.indices.push(node.index);
        }
        let found = tree.node(parent);
        let all = found.degree as usize == self.indices.len();
        let fits = if permutes {
            found.permutes && all
        } else {
            !found.permutes && (all || size == Size::AtLeast) && is_run(&self.indices)
        };
        if fits { parent } else { NONE }
    }

    fn pair(&mut self, tree: &Snapshot, a: u32, b: u32) {
        let to = if tree.node(a).permutes {
            Permutation::new(&self.indices)
        } else if self.indices[0] > self.indices[1] {
            Permutation::reversal()
        } else {
            Permutation::identity()
        };
        self.pairs.push(Pair { a, b, to });
    }

    /// Adds to `self.missing` the sets of variables that must become consecutive before the node
    /// with the children `self.children` can have an image.
    fn report_missing(&mut self, tree: &Snapshot, part: Part, permutes: bool, is_root: bool) {
        let image = |variable| {
            let leaf = tree.place(variable);
            tree.node(self.images[(leaf - part.first) as usize]).variable
        };
        let set = |children: &[u32]| -> Vec<u32> {
            let variables = children.iter().flat_map(|&child| tree.variables(child));
            variables.map(image).collect()
        };
        // The operand as a whole is known to be consecutive.
        if permutes && !is_root {
            self.missing.push(set(&self.children));
        } else if !permutes && (self.children.len() > 2 || !is_root) {
            self.missing.extend(self.children.windows(2).map(set));
        }
    }
}

/// The required number of an image's children: exactly, or at least, the number of its node's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Exactly,
    AtLeast,
}

/// Returns true if the numbers are consecutive, ascending or descending.
fn is_run(indices: &[u32]) -> bool {
    indices.windows(2).all(|pair| pair[1] == pair[0] + 1)
        || indices.windows(2).all(|pair| pair[0] == pair[1] + 1)
}
