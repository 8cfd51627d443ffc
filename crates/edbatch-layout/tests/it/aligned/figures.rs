//! The paper's worked example of a layout, figure by figure. Variables are counted from 0: x1 is 0.
//!
//! *Source*: section 3 of the paper, figures 3, 4 and 5.

use edbatch_layout::aligned::{AlignedBatch, Fate, Layout, Problem, Search, plan};
use pqtree::PqTree;

/// x4, x5 = f(x1, x3; x2, x1) and x8, x6, x7 = g(x3, x4, x5).
fn example() -> Problem {
    let first = AlignedBatch::uniform([vec![3, 4], vec![0, 2], vec![1, 0]], 1);
    let second = AlignedBatch::uniform([vec![7, 5, 6], vec![2, 3, 4]], 1);
    Problem { variables: 8, batches: vec![first, second] }
}

/// "Two memory gather for [x1, x3], [x2, x1] and one scatter for [x8, x6, x7] is performed."
#[test]
fn figure_3_the_plan_saves_two_gathers_and_a_scatter() {
    let labels = Layout::of_order(&example(), (0..8).collect());
    let copied = [Fate::InPlace, Fate::Copied, Fate::Copied];
    assert_eq!(labels.fates[0], copied);
    assert_eq!(labels.fates[1].iter().filter(|&&fate| fate == Fate::Copied).count(), 1);
    assert_eq!(labels.copies, 3);
    let papers = Layout::of_order(&example(), vec![1, 0, 2, 3, 4, 7, 5, 6]);
    assert_eq!((papers.copies, papers.feasible), (0, true));
    assert!(plan(&example(), Search::default()).feasible);
}

/// First every operand is consecutive; then a constraint is transferred within a batch: x6 next to
/// x7, because x4 is next to x5. A node with two children is shown in round brackets.
#[test]
fn figure_4_the_tree_before_and_after_the_first_pass() {
    let mut tree = PqTree::new(8);
    for operand in example().batches.iter().flat_map(|batch| &batch.operands) {
        tree.reduce(&operand.positions).unwrap();
    }
    assert_eq!(tree.canonical().to_string(), "([1 0 2 (3 4)] (5 6 7))");
    tree.reduce(&[5, 6]).unwrap();
    assert_eq!(tree.canonical().to_string(), "([1 0 2 (3 4)] ((5 6) 7))");
}

/// Two of the sixteen choices of four directions are aligned, and they mirror each other: x2 to x5
/// and x6 to x8 have the same direction, and so have the pairs inside them.
#[test]
fn figure_5_directions_are_decided_together() {
    let aligned = |turned: &u32| {
        let turn = |bit: u32, mut of: Vec<u32>| {
            if turned >> bit & 1 == 1 {
                of.reverse();
            }
            of
        };
        let five = turn(0, [vec![1, 0, 2], turn(1, vec![3, 4])].concat());
        let three = turn(2, [vec![7], turn(3, vec![5, 6])].concat());
        Layout::of_order(&example(), [five, three].concat()).feasible
    };
    assert_eq!((0..16).filter(aligned).collect::<Vec<_>>(), [0b0000, 0b0101]);
}
