//! Labelled union–find: classes of tree nodes whose orders of children determine each other.
//!
//! A *label* maps the children of one node to the corresponding children of another: child `i` of
//! the first corresponds to child `label(i)` of the second. Each node stores the label that leads
//! to its parent in the union–find; [`find`](Relation::find) composes them up to the root of the
//! node's class. P-nodes have permutations of their children as labels. A Q-node has only two
//! orders, so its label is the identity or the reversal. P-nodes and Q-nodes are never related.
//!
//! *The law.* [`relate(a, b, g)`](Relation::relate) requires that child `i` of `a` corresponds to
//! child `g(i)` of `b`. Let `f` be the label from `a` to its root `r`, and `h` the label from `b`
//! to its root `s`. The path from `r` over `a` and `b` to `s` applies f⁻¹, then `g`, then `h`. So
//! the requirement holds exactly if `h · g · f⁻¹` (rightmost first) is the label from `r` to `s`.
//!
//! - If `r` and `s` differ, one becomes the parent of the other, with this label.
//! - If they are the same node, this label must be the identity. Otherwise no order satisfies all
//!   requirements.
//!
//! *Source*: `Union` of the paper's appendix. Its formula, `σ₃⁻¹ σ₄ σ₂⁻¹ σ₁`, composes labels that
//! do not all begin where the previous one ends. That breaks the law for permutations, which do not
//! commute.
//! *Cost*: O(α) compositions per operation; a composition is linear in the number of children.

use super::snapshot::NONE;

/// A bijection of children: `i` maps to `self.0[i]`. Empty for the identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Permutation(Vec<u32>);

/// Tree nodes, and the classes of related ones.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// For each node its parent in the union–find, `NONE` for a root.
    parent: Vec<u32>,
    /// For each node the label that leads to its parent; the identity for a root.
    label: Vec<Permutation>,
    /// For each root the number of nodes of its class.
    size: Vec<u32>,
}

impl Relation {
    /// Creates a relation of `nodes` unrelated nodes.
    pub(super) fn new(nodes: u32) -> Self {
        let count = nodes as usize;
        Self {
            parent: vec![NONE; count],
            label: vec![Permutation::identity(); count],
            size: vec![1; count],
        }
    }

    /// Returns the root of a node's class, and the label that leads from the node to it.
    pub(super) fn find(&mut self, node: u32) -> (u32, Permutation) {
        let mut path = Vec::new();
        let mut root = node;
        while self.parent[root as usize] != NONE {
            path.push(root);
            root = self.parent[root as usize];
        }
        // Path compression: attaches each node to the root itself, from the top down.
        let mut to_root = Permutation::identity();
        for &below in path.iter().rev() {
            to_root = to_root.after(&self.label[below as usize]);
            self.parent[below as usize] = root;
            self.label[below as usize] = to_root.clone();
        }
        (root, to_root)
    }

    /// Requires that child `i` of node `a` corresponds to child `g(i)` of node `b`. Returns false
    /// if that contradicts earlier requirements.
    pub(super) fn relate(&mut self, a: u32, b: u32, g: &Permutation) -> bool {
        let (a_root, f) = self.find(a);
        let (b_root, h) = self.find(b);
        let edge = h.after(g).after(&f.inverse());
        if a_root == b_root {
            return edge.is_identity();
        }
        let (below, above, edge) = if self.size[a_root as usize] <= self.size[b_root as usize] {
            (a_root, b_root, edge)
        } else {
            (b_root, a_root, edge.inverse())
        };
        self.size[above as usize] += self.size[below as usize];
        self.parent[below as usize] = above;
        self.label[below as usize] = edge;
        true
    }
}

impl Permutation {
    pub(super) fn identity() -> Self {
        Self(Vec::new())
    }

    /// The label between Q-nodes with opposite directions. It is its own inverse.
    pub(super) fn reversal() -> Self {
        Self(vec![1, 0])
    }

    pub(super) fn new(to: &[u32]) -> Self {
        let identity = (0..).zip(to).all(|(from, &to)| from == to);
        Self(if identity { Vec::new() } else { to.to_vec() })
    }

    /// Returns the image of a child.
    pub(super) fn apply(&self, child: u32) -> u32 {
        self.0.get(child as usize).copied().unwrap_or(child)
    }

    pub(super) fn is_identity(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the permutation that applies `first`, then `self`.
    fn after(&self, first: &Self) -> Self {
        match (self.is_identity(), first.is_identity()) {
            (true, _) => first.clone(),
            (_, true) => self.clone(),
            _ => Self::new(&first.0.iter().map(|&child| self.apply(child)).collect::<Vec<_>>()),
        }
    }

    fn inverse(&self) -> Self {
        let mut inverse = vec![0; self.0.len()];
        for (from, &to) in (0..).zip(&self.0) {
            inverse[to as usize] = from;
        }
        Self(inverse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Permutation, Relation};

    const NODES: u32 = 8;

    /// Checks the law on consistent labels, which are derived from hidden orders, and on a label
    /// that may be wrong.
    fn check(hidden: &[Permutation], pairs: &[(u32, u32)], wrong: &Permutation) {
        // hidden[a] maps the children of `a` to a common order, so hidden[b]⁻¹ · hidden[a] maps a
        // to b.
        let label = |a: u32, b: u32| hidden[b as usize].inverse().after(&hidden[a as usize]);
        let mut relation = Relation::new(NODES);
        for &(a, b) in pairs {
            assert!(relation.relate(a, b, &label(a, b)));
        }
        for a in 0..NODES {
            let (root, to_root) = relation.find(a);
            assert!(to_root.after(&label(root, a)).is_identity());
            for b in 0..NODES {
                let is_related = relation.find(b).0 == root;
                let is_accepted = relation.clone().relate(a, b, &label(a, b).after(wrong));
                assert_eq!(is_accepted, !is_related || wrong.is_identity());
            }
        }
    }

    fn pairs() -> impl Strategy<Value = Vec<(u32, u32)>> {
        proptest::collection::vec((0..NODES, 0..NODES), 0..12)
    }

    fn permutation() -> impl Strategy<Value = Permutation> {
        Just(vec![0, 1, 2, 3]).prop_shuffle().prop_map(|to| Permutation::new(&to))
    }

    fn direction() -> impl Strategy<Value = Permutation> {
        prop_oneof![Just(Permutation::identity()), Just(Permutation::reversal())]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_law_holds_for_permutations(
            hidden in proptest::collection::vec(permutation(), NODES as usize),
            pairs in pairs(),
            wrong in permutation(),
        ) {
            check(&hidden, &pairs, &wrong);
        }

        #[test]
        fn the_law_holds_for_directions(
            hidden in proptest::collection::vec(direction(), NODES as usize),
            pairs in pairs(),
            wrong in direction(),
        ) {
            check(&hidden, &pairs, &wrong);
        }
    }
}
