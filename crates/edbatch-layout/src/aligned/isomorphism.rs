//! Two operands of a batch, node by node: which node of the one is which of the other.
//!
//! Nodes are matched by their positions, from the leaves upwards: the image of a leaf is the leaf
//! of the same position, the image of an inner node is the common parent of its children's images
//! if it admits the same orders of them. Where there is no such node, the positions of the node are
//! a constraint that the other operand has yet to meet.
//!
//! *Source*: `ParseEquivNodeOrderPair` of the paper's appendix; its orders of reference are kept by
//! node, but two operands of a batch may share nodes, as in the paper's own example. Ours keeps
//! them by pair of operands.
//!
//! *Cost*: O(positions).

use super::snapshot::{NONE, Part, Snapshot};

/// What is reported about two operands.
pub(super) trait Listener {
    /// The children of Q-node `a` follow each other as those of `b` do, or, if `turned`, the other
    /// way round.
    fn directions(&mut self, a: u32, b: u32, turned: bool);

    /// Child `i` of P-node `a` corresponds to child `to[i]` of `b`.
    fn permutations(&mut self, a: u32, b: u32, to: &[u32]);

    /// These variables of the second operand have to be consecutive.
    fn missing(&mut self, variables: &mut dyn Iterator<Item = u32>);
}

/// Working memory, kept to be allocated once.
#[derive(Default, Debug)]
pub(super) struct Matcher {
    /// For each node of the first operand its image, if it has one.
    images: Vec<u32>,
    children: Vec<u32>,
    indices: Vec<u32>,
}

impl Matcher {
    /// Matches the nodes of operand `a` to those of operand `b`, and says whether each of them has
    /// an image. Then the two have equal trees.
    pub(super) fn match_operands(
        &mut self,
        tree: &Snapshot,
        a: &[u32],
        b: &[u32],
        listener: &mut impl Listener,
    ) -> bool {
        let part = tree.part(a);
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
                self.report(tree, part, node.permutes, is_root, listener);
            } else {
                self.images[(place - part.first) as usize] = image;
                self.relate(tree, place, image, listener);
            }
        }
        if tree.node(part.last).first != part.first {
            // The operand is a run of a Q-node's children.
            self.collect(tree.children_down_to(part.first, part.last));
            let image = self.image(tree, part, false, Size::AtLeast);
            if image == NONE {
                complete = false;
                self.report(tree, part, false, true, listener);
            } else {
                self.relate(tree, tree.node(part.last).parent, image, listener);
            }
        }
        complete
    }

    /// Takes children that come from right to left.
    fn collect(&mut self, children: impl Iterator<Item = u32>) {
        self.children.clear();
        self.children.extend(children);
        self.children.reverse();
    }

    /// The node that corresponds to the one with the children at hand, or `NONE`.
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

    fn relate(&self, tree: &Snapshot, a: u32, b: u32, listener: &mut impl Listener) {
        if tree.node(a).permutes {
            listener.permutations(a, b, &self.indices);
        } else {
            listener.directions(a, b, self.indices[0] > self.indices[1]);
        }
    }

    /// Says what the children at hand, of a node without an image, ask of the other operand.
    fn report(
        &self,
        tree: &Snapshot,
        part: Part,
        permutes: bool,
        is_root: bool,
        listener: &mut impl Listener,
    ) {
        let image = |variable| {
            let leaf = tree.place(variable);
            tree.node(self.images[(leaf - part.first) as usize]).variable
        };
        let mut report = |children: &[u32]| {
            let variables = children.iter().flat_map(|&child| tree.variables(child));
            listener.missing(&mut variables.map(image));
        };
        // That the whole operand is consecutive is known.
        if permutes && !is_root {
            report(&self.children);
        } else if !permutes && (self.children.len() > 2 || !is_root) {
            self.children.windows(2).for_each(report);
        }
    }
}

/// How many children an image has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Exactly,
    AtLeast,
}

/// Whether the numbers go up by one each, or down by one each.
fn is_run(indices: &[u32]) -> bool {
    indices.windows(2).all(|pair| pair[1] == pair[0] + 1)
        || indices.windows(2).all(|pair| pair[0] == pair[1] + 1)
}
