//! A million nested nodes: nothing may recurse or take quadratic time.

use pqtree::{Kind, PqTree};
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

const LEAVES: u32 = 1_000_000;

/// `(0 (1 (2 … (n − 2 n − 1))))`.
fn nested(leaves: u32) -> String {
    let mut text = String::new();
    for leaf in 0..leaves - 1 {
        write!(text, "({leaf} ").unwrap();
    }
    write!(text, "{}", leaves - 1).unwrap();
    text.extend(std::iter::repeat_n(')', leaves as usize - 1));
    text
}

#[test]
fn a_million_nested_nodes_need_little_stack() {
    let work = || {
        let text = nested(LEAVES);
        let mut tree: PqTree = text.parse().unwrap();
        assert_eq!(tree.to_string(), text);
        assert_eq!(tree.pre_order().count(), 2 * LEAVES as usize - 1);
        assert_eq!(tree.post_order().count(), 2 * LEAVES as usize - 1);
        assert!(tree.frontier().eq(0..LEAVES));
        let mut frontier = vec![0; LEAVES as usize];
        tree.write_frontier(&mut frontier);
        assert!(frontier.iter().copied().eq(0..LEAVES));
        assert!(tree.contains_order(&frontier));
        assert_eq!(tree.orders_log2(), f64::from(LEAVES - 1));
        assert_eq!(tree.nth_order(1).unwrap().len(), LEAVES as usize);
        assert_eq!(tree.smallest_consecutive_superset(&[0, 5]).unwrap().len(), LEAVES as usize);
        assert!(tree.dot().to_string().len() > text.len());
        let copy = tree.clone();
        assert!(copy == tree && copy.canonical() == tree);
        let hash = |tree: &PqTree| {
            let mut hasher = DefaultHasher::new();
            tree.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&copy), hash(&tree));
        // The path from the deepest leaf to the root becomes one Q-node. Rolling back restores the
        // nested nodes.
        let checkpoint = tree.checkpoint();
        tree.reduce(&[0, LEAVES - 1]).unwrap();
        assert_eq!(tree.count_nodes(), (0, 1));
        assert!(
            tree.kind(tree.root().unwrap()) == Kind::Q
                && tree.degree(tree.root().unwrap()) == LEAVES
        );
        tree.rollback(checkpoint);
        assert_eq!(tree, copy);
        let half: Vec<u32> = (0..LEAVES / 2).collect();
        assert_eq!(copy.project(&half).unwrap().to_string(), nested(LEAVES / 2));
        tree.remove(7).unwrap();
        tree.insert().unwrap();
        drop((tree, copy));
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

/// Reduces by a pair, then by the pair and one more leaf, and so on. In each, all but one of the
/// leaves are below one full node.
#[test]
fn reductions_nest_a_leaf_at_a_time() {
    let leaves = 3000;
    let mut tree = PqTree::new(leaves);
    for first in (1..leaves - 1).rev() {
        tree.reduce(&(first..leaves).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(tree.canonical().to_string(), nested(leaves));
}
