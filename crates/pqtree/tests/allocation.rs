//! Operations that are documented not to allocate do not.

use std::fmt::Write as _;

use edbatch_testing::{CountingAllocator, allocations};
use pqtree::{NodeId, PqTree};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Nested levels, each with two more nodes.
fn nested(levels: u32) -> PqTree {
    let mut text = String::new();
    for level in 0..levels {
        write!(text, "[{} ", 3 * level).unwrap();
    }
    write!(text, "{}", 3 * levels).unwrap();
    for level in (0..levels).rev() {
        write!(text, " ({} {})]", 3 * level + 1, 3 * level + 2).unwrap();
    }
    text.parse().unwrap()
}

#[test]
fn walks_do_not_allocate() {
    for levels in [1, 10, 511, 512, 513, 5000] {
        let tree = nested(levels);
        let mut frontier = vec![0; tree.len() as usize];
        let counted = allocations(|| {
            tree.write_frontier(&mut frontier);
            assert!(tree.frontier().eq(frontier.iter().copied()));
            assert_eq!(tree.pre_order().count(), tree.post_order().count());
            let root = tree.root().expect("not empty");
            tree.children(root).map(|child| tree.leaves_of(child).count()).sum::<usize>()
        });
        assert_eq!(counted, 0, "{levels} levels");
    }
}

#[test]
fn repeated_queries_and_refusals_do_not_allocate() {
    let mut tree = nested(100);
    let mut ask = || {
        assert!(tree.can_reduce(&[0, 3 * 100]).is_err() && tree.reduce(&[0, 3 * 100]).is_err());
        assert!(tree.is_consecutive(&[1, 2]).is_ok_and(|it| it));
        assert!(!tree.reduce(&[2, 1]).unwrap().changed);
        tree.parent(NodeId::of_leaf(7)).is_some()
    };
    ask();
    assert_eq!(allocations(ask), 0);
}
