//! Trees of 8 to 80 leaves against the recursive reference. Incorrect trees have passed all tests
//! on smaller ones.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../dev/model.rs"]
#[allow(dead_code)]
mod model;
#[path = "../dev/reference.rs"]
mod reference;
#[path = "../dev/trace.rs"]
#[allow(dead_code)]
mod trace;

use families::{Family, generate};
use pqtree::{Checkpoint, PqTree};
use reference::Reference;
use std::hash::{BuildHasher, RandomState};

/// Reduces a family's sets in turn, each also under a checkpoint that is rolled back.
fn check(family: Family, leaves: usize, budget: usize, seed: u64) -> (usize, usize) {
    let hash = RandomState::new();
    let mut tree = PqTree::new(leaves as u32);
    let mut reference = Reference::new(leaves as u32);
    let (mut accepted, mut refused) = (0, 0);
    for set in generate(family, leaves, budget, seed) {
        let clone = tree.clone();
        let (text, before) = (tree.to_string(), hash.hash_one(&tree));
        let checkpoint = tree.checkpoint();
        let tried = tree.reduce(&set);
        tree.rollback(checkpoint);
        assert_eq!((tree.to_string(), hash.hash_one(&tree)), (text.clone(), before));
        assert_eq!(tree, clone);

        let reduced = tree.reduce(&set);
        assert_eq!(reduced.is_ok(), tried.is_ok());
        match (reduced, reference.reduce(&set)) {
            (Ok(_), Some(next)) => {
                reference = next;
                accepted += 1;
            }
            (Err(_), None) => {
                assert_eq!((tree.to_string(), hash.hash_one(&tree)), (text, before));
                trace::check_proof(&mut tree, &set);
                refused += 1;
            }
            (reduced, next) => {
                panic!("{family:?} {leaves} {seed}: {set:?} gives {reduced:?}, expected {next:?}")
            }
        }
        assert_eq!(
            tree.canonical().to_string(),
            reference.text(),
            "{family:?} {leaves} {seed}: {set:?}"
        );
    }
    (accepted, refused)
}

#[test]
fn families_agree_with_the_reference() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..12 {
        for leaves in [8, 13, 20, 33, 50, 80] {
            let families = [
                (Family::Fixed(2), 2 * leaves),
                (Family::Fixed(5), 3 * leaves),
                (Family::Uniform(7), 4 * leaves),
                (Family::Logarithmic, 6 * leaves),
                (Family::Matrix, 10 * leaves),
                (Family::Corrupted, 8 * leaves),
                (Family::Tree, 0),
            ];
            for (family, budget) in families {
                let (yes, no) = check(family, leaves, budget, seed);
                accepted += yes;
                refused += no;
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 1000 && refused > 100);
}

/// Three paths grow by one leaf at a time, so that each reduction merges one Q-node into another.
/// Merged nodes must be cleared regularly, except while a checkpoint is open.
#[test]
fn merged_nodes_are_cleared() {
    for seed in 0..20 {
        let third = 20 + 5 * seed as usize;
        let leaves = 3 * third;
        let mut random = families::Random::new(seed);
        let mut tree = PqTree::new(leaves as u32);
        let mut reference = Reference::new(leaves as u32);
        let mut last = [0, third, 2 * third];
        let mut open: Option<(Checkpoint, Reference, [usize; 3])> = None;
        while last.iter().sum::<usize>() < leaves + 3 * (third - 1) {
            if random.below(16) == 0 {
                match open.take() {
                    None => open = Some((tree.checkpoint(), reference.clone(), last)),
                    Some((checkpoint, ..)) if random.below(2) == 0 => tree.commit(checkpoint),
                    Some((checkpoint, old_reference, old_last)) => {
                        tree.rollback(checkpoint);
                        (reference, last) = (old_reference, old_last);
                    }
                }
            }
            let path = random.below(3);
            if last[path] + 1 == (path + 1) * third {
                continue;
            }
            let set = [last[path] as u32, last[path] as u32 + 1];
            last[path] += 1;
            tree.reduce(&set).expect("the hidden order keeps the set together");
            reference = reference.reduce(&set).expect("the hidden order keeps the set together");
            assert_eq!(tree.canonical().to_string(), reference.text(), "{seed}: {set:?}");
            let mut nodes = tree.pre_order();
            let has_parent =
                |node| tree.children(node).all(|child| tree.parent(child) == Some(node));
            assert!(nodes.all(has_parent), "{seed}: {set:?}");
        }
        if let Some((checkpoint, ..)) = open {
            tree.commit(checkpoint);
        }
        // Otherwise nearly every leaf of a path would have left a merged node.
        let slots = tree.node_bound() - leaves;
        assert!(slots < leaves / 2 + 20, "{seed}: {slots} inner nodes for {leaves} leaves");
    }
}
