//! Eight to eighty leaves, against the recursive reference: wrong trees have been known to pass every tiny test.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../dev/reference.rs"]
mod reference;
#[path = "../dev/trace.rs"]
#[allow(dead_code)]
mod trace;

use families::{Family, generate};
use pqtree::PqTree;
use reference::Reference;
use std::hash::{BuildHasher, RandomState};

/// Reduces a family's sets one after the other, each also under a checkpoint that is rolled back.
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
            (Err(error), None) => {
                assert_eq!((tree.to_string(), hash.hash_one(&tree)), (text, before));
                trace::check_proof(&tree, &set, error);
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
