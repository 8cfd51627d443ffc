//! Minimal conflicts: the sets conflict, and no longer do if any one of them is left out.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;

use families::Random;
use pqtree::{PqTree, ReduceError};

#[test]
fn no_set_of_a_minimal_conflict_can_be_left_out() {
    let mut random = Random::new(5);
    let (mut conflicts, mut largest) = (0, 0);
    for round in 0..400 {
        let leaves = 4 + random.below(20) as u32;
        let mut tree = PqTree::new(leaves);
        if round % 2 == 1 {
            tree.reduce(&[0, 1]).unwrap();
            tree.reduce(&[1, 2]).unwrap();
        }
        let text = tree.to_string();
        let mut set = || {
            let size = 2 + random.below(3);
            let mut set: Vec<u32> =
                (0..size).map(|_| random.below(leaves as usize) as u32).collect();
            set.sort_unstable();
            set.dedup();
            set
        };
        let sets: Vec<Vec<u32>> = (0..12).map(|_| set()).collect();
        let all = tree.clone().reduce_all(&sets);
        let found = tree.minimal_conflict(&sets).unwrap();
        assert_eq!(tree.to_string(), text);
        assert_eq!(found.is_some(), all.is_err());
        let Some(found) = found else { continue };
        assert!(found.is_sorted_by(|a, b| a < b));
        assert_eq!(found.last().copied(), all.err().map(|error| error.index));
        let reduce = |left_out: Option<usize>| {
            let chosen = found.iter().filter(|&&index| Some(index) != left_out);
            tree.clone().reduce_all(chosen.map(|&index| &sets[index]))
        };
        assert!(reduce(None).is_err());
        for &index in &found {
            assert!(reduce(Some(index)).is_ok(), "{sets:?}: {found:?}");
        }
        conflicts += 1;
        largest = largest.max(found.len());
    }
    println!("{conflicts} conflicts, of at most {largest} sets");
    assert!(conflicts > 100 && largest > 4);
}

#[test]
fn sets_with_invalid_leaves_are_errors() {
    let error = PqTree::new(3).minimal_conflict(&[[0, 1], [1, 1]]).unwrap_err();
    assert!(error.index == 1 && error.error != ReduceError::Conflict);
    assert_eq!(PqTree::new(3).minimal_conflict::<[u32; 2]>(&[]), Ok(None));
}
