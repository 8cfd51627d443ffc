//! What is said to allocate nothing does not.

use pqtree::{NodeId, PqTree};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations<T>(run: impl FnOnce() -> T) -> u64 {
    let before = ALLOCATIONS.get();
    std::hint::black_box(run());
    ALLOCATIONS.get() - before
}

/// Walks through one level after the other, each beside two more nodes.
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
fn walks_allocate_nothing() {
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
fn questions_and_refusals_allocate_nothing_once_they_have_been_asked() {
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
