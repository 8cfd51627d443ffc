//! Labelled union–find: nodes whose orders determine each other.
//!
//! *The law.* A label takes a node's children to those of another: `relate(a, b, g)` says that
//! child `i` of `a` stands where child `g(i)` of `b` does. [`find`](Relation::find) gives a root
//! and the label to it. For nodes with roots `a → r` by `f` and `b → s` by `h` the relation holds
//! iff the root `r` goes to `s` by `h · g · f⁻¹` (the rightmost first); with `r = s` that has to be
//! the identity, or no order satisfies all relations.
//!
//! *Source*: `Union` of the paper's appendix. Its formula, `σ₃⁻¹ σ₄ σ₂⁻¹ σ₁`, composes labels of
//! different ends; where labels do not commute, as permutations do not, what it builds breaks the
//! law.
//!
//! *Cost*: O(α) compositions an operation; a composition of permutations is as dear as they are
//! long.

use super::snapshot::NONE;

/// What relates the orders of two nodes: an element of a group.
pub(super) trait Label: Clone {
    /// Leaves every child where it is.
    fn identity() -> Self;
    /// `self` after `first`.
    fn after(&self, first: &Self) -> Self;
    /// What undoes `self`.
    fn inverse(&self) -> Self;
    /// Whether every child stays where it is.
    fn is_identity(&self) -> bool;
}

/// Whether a Q-node's children come the other way round: Z₂.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn(pub(super) bool);

/// Child `i` of a P-node goes to child `self.0[i]`; empty for the identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Permutation(Vec<u32>);

/// Which nodes are related, and how.
#[derive(Clone, Debug)]
pub(super) struct Relation<L> {
    parent: Vec<u32>,
    label: Vec<Option<L>>,
    size: Vec<u32>,
    log: Option<Log<L>>,
}

/// What a transaction overwrote.
#[derive(Clone, Debug)]
struct Log<L> {
    /// Nodes with their old parents and labels.
    links: Vec<(u32, u32, Option<L>)>,
    /// Roots that were hung below others, with these.
    joins: Vec<(u32, u32)>,
}

/// Two relations that no order satisfies both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Contradiction;

impl<L: Label> Relation<L> {
    /// Nodes that have nothing to do with each other.
    pub(super) fn new(nodes: u32) -> Self {
        let count = nodes as usize;
        Self {
            parent: vec![NONE; count],
            label: vec![None; count],
            size: vec![1; count],
            log: None,
        }
    }

    /// Begins a transaction: what follows can be [undone](Self::undo), until it is
    /// [kept](Self::keep).
    pub(super) fn begin(&mut self) {
        self.log = Some(Log { links: Vec::new(), joins: Vec::new() });
    }

    /// Keeps what was done since [`begin`](Self::begin).
    pub(super) fn keep(&mut self) {
        self.log = None;
    }

    /// Returns to the state at [`begin`](Self::begin).
    pub(super) fn undo(&mut self) {
        let Some(log) = self.log.take() else { return };
        for (below, above) in log.joins.into_iter().rev() {
            self.size[above as usize] -= self.size[below as usize];
        }
        for (node, parent, label) in log.links.into_iter().rev() {
            self.parent[node as usize] = parent;
            self.label[node as usize] = label;
        }
    }

    fn link(&mut self, node: u32, parent: u32, label: L) {
        let old_label = self.label[node as usize].replace(label);
        let old_parent = std::mem::replace(&mut self.parent[node as usize], parent);
        if let Some(log) = &mut self.log {
            log.links.push((node, old_parent, old_label));
        }
    }

    /// The root of a node's class, and the label that takes the node to it.
    pub(super) fn find(&mut self, node: u32) -> (u32, L) {
        let mut path = Vec::new();
        let mut root = node;
        while self.parent[root as usize] != NONE {
            path.push(root);
            root = self.parent[root as usize];
        }
        // From the root downwards, each node is hung below the root itself.
        let mut to_root = L::identity();
        for &below in path.iter().rev() {
            let up = self.label[below as usize].as_ref().expect("a node with a parent has a label");
            to_root = to_root.after(up);
            self.link(below, root, to_root.clone());
        }
        (root, to_root)
    }

    /// Demands that label `g` takes `a` to `b`.
    pub(super) fn relate(&mut self, a: u32, b: u32, g: &L) -> Result<(), Contradiction> {
        let (a_root, f) = self.find(a);
        let (b_root, h) = self.find(b);
        let edge = h.after(g).after(&f.inverse());
        if a_root == b_root {
            return if edge.is_identity() { Ok(()) } else { Err(Contradiction) };
        }
        let (below, above, edge) = if self.size[a_root as usize] <= self.size[b_root as usize] {
            (a_root, b_root, edge)
        } else {
            (b_root, a_root, edge.inverse())
        };
        self.size[above as usize] += self.size[below as usize];
        self.link(below, above, edge);
        if let Some(log) = &mut self.log {
            log.joins.push((below, above));
        }
        Ok(())
    }
}

impl Label for Turn {
    fn identity() -> Self {
        Self(false)
    }

    fn after(&self, first: &Self) -> Self {
        Self(self.0 != first.0)
    }

    fn inverse(&self) -> Self {
        *self
    }

    fn is_identity(&self) -> bool {
        !self.0
    }
}

impl Permutation {
    pub(super) fn new(to: &[u32]) -> Self {
        let identity = (0..).zip(to).all(|(from, &to)| from == to);
        Self(if identity { Vec::new() } else { to.to_vec() })
    }

    /// Where a child goes.
    pub(super) fn apply(&self, child: u32) -> u32 {
        self.0.get(child as usize).copied().unwrap_or(child)
    }
}

impl Label for Permutation {
    fn identity() -> Self {
        Self(Vec::new())
    }

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

    fn is_identity(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Label, Permutation, Relation, Turn};

    const NODES: u32 = 8;

    /// Checks the law on labels that come from hidden orders, so that they are consistent; on one
    /// that does not; and that this one, undone, leaves no trace.
    fn check<L: Label + PartialEq + std::fmt::Debug>(
        hidden: &[L],
        pairs: &[(u32, u32)],
        wrong: &L,
    ) {
        // Node `a` is hidden[a] from the truth, so that hidden[b]⁻¹ · hidden[a] takes a to b.
        let label = |a: u32, b: u32| hidden[b as usize].inverse().after(&hidden[a as usize]);
        let mut relation = Relation::new(NODES);
        for &(a, b) in pairs {
            assert_eq!(relation.relate(a, b, &label(a, b)), Ok(()));
        }
        let before = relation.clone();
        for a in 0..NODES {
            for b in 0..NODES {
                relation.begin();
                let related = before.clone().find(a).0 == before.clone().find(b).0;
                let refused = relation.relate(a, b, &label(a, b).after(wrong)).is_err();
                assert_eq!(refused, related && !wrong.is_identity());
                relation.undo();
            }
        }
        assert_eq!(relation.size, before.size);
        for a in 0..NODES {
            let (root, to_root) = relation.find(a);
            assert_eq!(root, before.clone().find(a).0);
            assert!(to_root.after(&label(root, a)).is_identity());
        }
    }

    fn pairs() -> impl Strategy<Value = Vec<(u32, u32)>> {
        proptest::collection::vec((0..NODES, 0..NODES), 0..12)
    }

    fn permutation() -> impl Strategy<Value = Permutation> {
        Just(vec![0, 1, 2, 3]).prop_shuffle().prop_map(|to| Permutation::new(&to))
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
        fn the_law_holds_for_turns(
            hidden in proptest::collection::vec(any::<bool>().prop_map(Turn), NODES as usize),
            pairs in pairs(),
            wrong: bool,
        ) {
            check(&hidden, &pairs, &Turn(wrong));
        }
    }
}
