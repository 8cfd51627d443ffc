//! Matches the tree nodes of two candidates of a batch, or finds the constraints that one of them
//! lacks.
//!
//! Nodes are matched bottom-up. The *image* of a leaf is the leaf at the same position of the other
//! candidate. The image of an inner node is the common parent of its children's images, if that
//! parent allows the same orders of them. If no node is such a parent, the variables at the node's
//! positions are consecutive in the first candidate, but not in every order of the second.
//!
//! *Source*: `ParseEquivNodeOrderPair` of the paper's appendix. The paper stores one reference
//! order for each node, but two candidates of a batch may share nodes, as in its own example. We
//! store one for each pair of candidates. *Cost*: O(positions).

use super::relation::Permutation;
use super::snapshot::{NONE, Snapshot};

/// A node and its image. The order of one's children determines the order of the other's children.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) a: u32,
    pub(super) b: u32,
    /// For P-nodes: child `i` of `a` corresponds to child `to(i)` of `b`. For Q-nodes: the identity
    /// if corresponding children have the same order, else [`Permutation::reversal`].
    pub(super) to: Permutation,
}

/// Matches the nodes of two candidates. Its memory is reused from call to call.
#[derive(Default, Debug)]
pub(super) struct Matcher {
    /// The matched nodes of the last call.
    pub(super) pairs: Vec<Pair>,
    /// The constraints that the last call found: the second candidate must satisfy them to be
    /// isomorphic to the first.
    pub(super) constraints: Vec<Vec<u32>>,
    /// The first node of the first candidate.
    first: u32,
    /// The images of the first candidate's nodes, which begin at `first`. `NONE` for no image.
    images: Vec<u32>,
    /// The children of the current node, from left to right.
    children: Vec<u32>,
    /// For each child of the current node: the index of its image among the image's siblings.
    indices: Vec<u32>,
}

impl Matcher {
    /// Matches the nodes of candidate `a` to the nodes of candidate `b`, both given as the variable
    /// of each position. Returns true if every node has an image: then they are isomorphic.
    pub(super) fn match_candidates(&mut self, tree: &Snapshot, a: &[u32], b: &[u32]) -> bool {
        let nodes = tree.nodes_of(a);
        let (first, last) = (*nodes.start(), *nodes.end());
        self.first = first;
        self.pairs.clear();
        self.constraints.clear();
        self.images.clear();
        self.images.resize((last - first + 1) as usize, NONE);
        for (&from, &to) in a.iter().zip(b) {
            self.images[(tree.leaf(from) - first) as usize] = tree.leaf(to);
        }
        let mut isomorphic = true;
        for id in nodes {
            let node = tree.node(id);
            if node.degree > 0 {
                let is_root = id == last && node.first == first;
                let image = self.match_node(tree, id, tree.children(id), is_root);
                self.images[(id - first) as usize] = image;
                isomorphic &= image != NONE;
            }
        }
        if tree.node(last).first != first {
            // The candidate is a run of a Q-node's children.
            let (parent, children) = (tree.node(last).parent, tree.children_down_to(first, last));
            isomorphic &= self.match_node(tree, parent, children, true) != NONE;
        }
        isomorphic
    }

    /// Matches a node, given its children that belong to the first candidate, from right to left.
    /// Returns the node's image, and adds the pair; or returns `NONE`, and adds the constraints
    /// that the second candidate lacks. `is_root`: the candidate has no other node above.
    fn match_node(
        &mut self,
        tree: &Snapshot,
        id: u32,
        children: impl Iterator<Item = u32>,
        is_root: bool,
    ) -> u32 {
        self.children.clear();
        self.children.extend(children);
        self.children.reverse();
        let permutes = tree.node(id).permutes;
        let image = self.image(tree, permutes, is_root);
        if image == NONE {
            self.report_constraints(tree, permutes, is_root);
            return NONE;
        }
        let to = if permutes {
            Permutation::new(&self.indices)
        } else if self.indices[0] > self.indices[1] {
            Permutation::reversal()
        } else {
            Permutation::identity()
        };
        self.pairs.push(Pair { a: id, b: image, to });
        image
    }

    /// Returns the image of the node with the children `self.children`, or `NONE`. Fills
    /// `self.indices`.
    fn image(&mut self, tree: &Snapshot, permutes: bool, is_root: bool) -> u32 {
        let images = self.children.iter().map(|&child| self.images[(child - self.first) as usize]);
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
            // A whole candidate may match a run of the children of a longer Q-node.
            !found.permutes && (all || is_root) && is_run(&self.indices)
        };
        if fits { parent } else { NONE }
    }

    /// Adds the constraints that the second candidate must satisfy before the node with the
    /// children `self.children` can have an image.
    fn report_constraints(&mut self, tree: &Snapshot, permutes: bool, is_root: bool) {
        let image = |variable| {
            let leaf = tree.leaf(variable);
            tree.node(self.images[(leaf - self.first) as usize]).variable
        };
        let constraint = |children: &[u32]| -> Vec<u32> {
            let variables = children.iter().flat_map(|&child| tree.variables(child));
            variables.map(image).collect()
        };
        // The second candidate as a whole is consecutive already.
        if permutes && !is_root {
            self.constraints.push(constraint(&self.children));
        } else if !permutes && (self.children.len() > 2 || !is_root) {
            self.constraints.extend(self.children.windows(2).map(constraint));
        }
    }
}

/// Returns true if the numbers are consecutive, ascending or descending.
fn is_run(indices: &[u32]) -> bool {
    indices.windows(2).all(|pair| pair[1] == pair[0] + 1)
        || indices.windows(2).all(|pair| pair[0] == pair[1] + 1)
}
