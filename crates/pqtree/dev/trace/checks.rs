//! Conditions that must hold after operations.

use super::Trace;
use crate::model::text;
use pqtree::{Kind, NodeId, PqTree};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

impl Trace<'_> {
    /// Checks that `changed` names exactly the nodes whose children differ from before, each once.
    pub(super) fn check_changed(&self, before: &Lists) {
        let after = lists(&self.tree);
        let altered = after.iter().filter(|&(node, list)| before.get(node) != Some(list));
        let expected: Vec<NodeId> = altered.map(|(&node, _)| node).collect();
        let mut found: Vec<NodeId> = self.tree.changed().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{before:?}, then {after:?}");
    }

    /// Checks that the home holds exactly the set, as all its leaves or as a run of children of a
    /// Q-node.
    pub(super) fn check_home(&self, home: Option<NodeId>, set: &[u32]) {
        let tree = &self.tree;
        let Some(home) = home else {
            return assert!(set.is_empty());
        };
        let inside = |node| tree.leaves_of(node).all(|leaf| set.contains(&leaf));
        if inside(home) {
            return assert_eq!(tree.leaves_of(home).count(), set.len());
        }
        assert_eq!(tree.kind(home), Kind::Q);
        let run = tree.children(home).filter(|&child| inside(child));
        assert_eq!(run.map(|child| tree.leaves_of(child).count()).sum::<usize>(), set.len());
    }

    pub(super) fn is_back(&self, text: &str, copy: &PqTree) {
        assert_eq!(self.tree.to_string(), text, "the text differs after a rollback");
        assert_eq!(&self.tree, copy);
        assert_eq!(self.hash.hash_one(&self.tree), self.hash.hash_one(copy));
        assert_eq!(lists(&self.tree), lists(copy), "node numbers differ after a rollback");
    }

    /// Reads the cache again, after a rollback or from another tree.
    pub(super) fn read_again(&mut self) {
        self.cache = lists(&self.tree);
    }

    /// Renews the entries of the cache that `changed` names. Then all must be right.
    pub(super) fn check_cache(&mut self) {
        for node in self.tree.changed() {
            self.cache.insert(node, list(&self.tree, node));
        }
        for (node, list) in lists(&self.tree) {
            assert_eq!(self.cache.get(&node), Some(&list), "{node:?} in {}", self.tree);
        }
    }

    /// Checks what must hold after any operation.
    pub(super) fn check(&self) {
        let tree = &self.tree;
        assert_eq!(tree.canonical().to_string(), text(&self.model));
        let mut frontier = vec![0; tree.len() as usize];
        tree.write_frontier(&mut frontier);
        assert!(frontier.iter().copied().eq(tree.frontier()));
        assert!(tree.contains_order(&frontier));
        let changed: BTreeSet<NodeId> = tree.changed().collect();
        assert_eq!(changed.len(), tree.changed().count(), "a changed node is repeated");
        assert!(changed.iter().all(|&node| tree.degree(node) > 0), "a changed node is a leaf");
        let nodes: Vec<_> = tree.pre_order().collect();
        assert_eq!(nodes.len(), tree.post_order().count());
        assert_eq!(nodes.first().copied(), tree.root());
        let (p_nodes, q_nodes) = tree.count_nodes();
        assert_eq!(nodes.len(), p_nodes + q_nodes + tree.len() as usize);
        assert!(tree.root().is_none_or(|root| tree.parent(root).is_none()));
        for node in nodes {
            assert!(tree.contains(node) && node.index() < tree.node_bound());
            let children: Vec<_> = tree.children(node).collect();
            assert_eq!(children.len(), tree.degree(node) as usize);
            let fewest = match tree.kind(node) {
                Kind::Leaf => 0,
                Kind::P => 2,
                Kind::Q => 3,
            };
            assert!(children.len() >= fewest);
            assert!(children.iter().all(|&child| tree.parent(child) == Some(node)));
            for (at, &child) in children.iter().enumerate() {
                let before = at.checked_sub(1).map(|at| children[at]);
                let beside = [before, children.get(at + 1).copied()];
                let found = tree.siblings(child);
                assert!(found == beside || found == [beside[1], beside[0]]);
            }
        }
    }
}

/// Each inner node with its kind and its children in order.
pub(super) type Lists = BTreeMap<NodeId, (Kind, Vec<NodeId>)>;

pub(super) fn lists(tree: &PqTree) -> Lists {
    let inner = tree.pre_order().filter(|&node| tree.kind(node) != Kind::Leaf);
    inner.map(|node| (node, list(tree, node))).collect()
}

fn list(tree: &PqTree, node: NodeId) -> (Kind, Vec<NodeId>) {
    (tree.kind(node), tree.children(node).collect())
}

/// Checks that the leaves of a conflict prove it on their own.
pub(crate) fn check_proof(tree: &mut PqTree, set: &[u32]) {
    let conflict = tree.conflict(set).expect("the set is valid").expect("the set was refused");
    let (inside, outside) = (conflict.inside(), conflict.outside());
    assert!(inside.iter().all(|leaf| set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    assert!(outside.iter().all(|leaf| !set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    let mut part =
        tree.project(&[inside.clone(), outside].concat()).expect("the leaves are different");
    let kept: Vec<u32> = (0..inside.len() as u32).collect();
    assert!(part.can_reduce(&kept).is_err(), "{conflict:?} of {set:?} in {tree}");
}
