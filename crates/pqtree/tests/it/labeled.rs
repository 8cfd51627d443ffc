//! Trees of labels behave like trees of numbers.

use crate::families::Random;
use pqtree::{Labeled, LabeledError, LeafError, PqTree, ReduceError};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

fn cities() -> Labeled<&'static str> {
    let mut cities = Labeled::new(["Oslo", "Rome", "Bonn", "Graz", "Linz"]).unwrap();
    cities.reduce(&["Oslo", "Bonn"]).unwrap();
    cities.reduce(&["Bonn", "Linz"]).unwrap();
    cities
}

#[test]
fn queries_accept_labels() {
    let mut cities = cities();
    assert_eq!(cities.len(), 5);
    assert_eq!(
        cities.can_reduce(&["Linz", "Oslo"]),
        Err(LabeledError::Reduce(ReduceError::Conflict))
    );
    assert_eq!(cities.can_reduce(&["Linz", "Paris"]), Err(LabeledError::Unknown { index: 1 }));
    assert_eq!(cities.is_consecutive(&["Linz", "Bonn"]), Ok(true));
    let twice = LabeledError::Reduce(ReduceError::Leaf(LeafError::Repeated { leaf: 4 }));
    assert_eq!(cities.is_consecutive(&["Linz", "Linz"]), Err(twice));
    let conflict = cities.conflict(&["Linz", "Oslo"]).unwrap().unwrap();
    assert_eq!((conflict.inside, conflict.outside), (vec![&"Oslo", &"Linz"], vec![&"Bonn"]));
    assert!(cities.conflict(&["Linz", "Rome"]).unwrap().is_none());
    let superset = cities.smallest_consecutive_superset(&["Linz", "Oslo"]).unwrap();
    assert_eq!(
        superset.into_iter().copied().collect::<BTreeSet<_>>(),
        ["Bonn", "Linz", "Oslo"].into()
    );
    assert_eq!(cities.orders_count(), Some(12));
    assert_eq!(cities.orders_count_exact().to_string(), "12");
    assert!((cities.orders_log2() - 12f64.log2()).abs() < 1e-12);
    assert_eq!(cities.orders().count(), 12);
    for order in cities.orders() {
        let order: Vec<&str> = order.into_iter().copied().collect();
        assert!(cities.contains_order(&order));
    }
    assert!(!cities.contains_order(&["Bonn", "Oslo", "Linz", "Rome", "Graz"]));
    assert_eq!(cities.nth_order(0).unwrap(), cities.frontier().collect::<Vec<_>>());
    assert_eq!(cities.nth_order(12), None);
    assert_eq!(cities.sample_with(|_| 0).len(), 5);
    let root = cities.tree().root().unwrap();
    assert!(cities.leaves_of(root).eq(cities.frontier()));
    let dot = Labeled::new(["say \"hi\""]).unwrap().dot().to_string();
    assert!(dot.contains(r#"label="say \"hi\"""#), "{dot}");
}

#[test]
fn labels_can_be_given_in_a_borrowed_form() {
    let mut tree = Labeled::new(["ant", "bee", "cat", "dog"].map(String::from)).unwrap();
    assert!(tree.reduce(["bee", "dog"]).unwrap().changed);
    assert!(tree.reduce(&["ant".to_string(), "bee".to_string()]).is_ok());
    assert_eq!((tree.leaf("dog"), tree.leaf("eel")), (Some(3), None));
    assert_eq!(tree.can_reduce(["ant", "eel"]), Err(LabeledError::Unknown { index: 1 }));
    assert_eq!(tree.is_consecutive(["bee", "ant"]), Ok(true));
    assert!(tree.conflict(["ant", "dog"]).unwrap().is_some());
    assert_eq!(Labeled::new([7, 8, 7]).unwrap_err(), LabeledError::Repeated { index: 2 });
}

/// Equal trees have equal hashes, whatever the numbers of their leaves. Trees of one shape differ.
#[test]
fn hashes_depend_on_the_orders_alone() {
    let (state, mut random) = (RandomState::new(), Random::new(11));
    let mut hashes = BTreeSet::new();
    for code in 0..1000 {
        let path @ [first, middle, last] = [code / 100, code / 10 % 10, code % 10];
        if first >= last || middle == first || middle == last {
            continue;
        }
        let mut labels: Vec<u32> = (0..10).collect();
        let mut one = Labeled::new(labels.clone()).unwrap();
        random.shuffle(&mut labels);
        let mut two = Labeled::new(labels).unwrap();
        let others: Vec<u32> = (0..10).filter(|label| !path.contains(label)).take(2).collect();
        // A Q-node from either end, and a P-node.
        let sets = [&path[..2], &path[1..], &others];
        sets.iter().for_each(|&set| _ = one.reduce(set).unwrap());
        sets.iter().rev().for_each(|&set| _ = two.reduce(set).unwrap());
        assert_eq!((&one, state.hash_one(&one)), (&two, state.hash_one(&two)));
        hashes.insert(state.hash_one(&one));
    }
    assert_eq!(hashes.len(), 10 * 9 * 8 / 2);
}

#[test]
fn several_sets_of_labels_are_reduced_together() {
    let mut tree = Labeled::new(['a', 'b', 'c', 'd']).unwrap();
    let sets = [['a', 'b'], ['b', 'c'], ['c', 'd'], ['a', 'c']];
    assert_eq!(tree.minimal_conflict(&sets), Ok(Some(vec![0, 1, 3])));
    let error = tree.reduce_all(sets).unwrap_err();
    assert_eq!((error.index, tree.to_string().as_str()), (3, "(a b c d)"));
    assert_eq!(tree.reduce_greedy(sets), Ok(vec![true, true, true, false]));
    assert!(tree.changed().next().is_some());
    let copy = tree.clone();
    let error = tree.reduce_greedy([['d', 'a'], ['a', 'z']]).unwrap_err();
    assert_eq!((error.index, error.error), (1, LabeledError::Unknown { index: 1 }));
    assert_eq!(tree, copy);
    let mut again = Labeled::new(['d', 'c', 'b', 'a']).unwrap();
    for set in tree.restrictions() {
        again.reduce(&set.into_iter().copied().collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(again, tree);
    assert_ne!(again, Labeled::new(['d', 'c', 'b', 'x']).unwrap());
    assert_ne!(again, Labeled::new(['d', 'c', 'b', 'a']).unwrap());
}

#[test]
fn common_intervals_and_intersections_match_labels() {
    let tree = Labeled::from_orders(&[["x", "y", "z"], ["x", "z", "y"]]).unwrap();
    assert_eq!(tree.tree().canonical().to_string(), "(0 (1 2))");
    let unknown = Labeled::from_orders(&[["x", "y"], ["x", "q"]]).unwrap_err();
    assert_eq!(unknown, LabeledError::Unknown { index: 1 });
    let mut other = Labeled::new(["z", "y", "x"]).unwrap();
    assert_eq!(other.intersect(&tree), Ok(true));
    assert_eq!(other, tree);
    assert!(other.intersect(&Labeled::new(["z", "y", "w"]).unwrap()).is_err());
    assert_eq!(other.project(&["y", "z"]).unwrap(), Labeled::new(["z", "y"]).unwrap());
}

/// Labels are inserted, removed, merged and rolled back, and compared with trees parsed from text.
#[test]
fn labels_follow_their_leaves() {
    let mut random = Random::new(7);
    for _ in 0..300 {
        let mut tree =
            Labeled::new((0..6 + random.below(8) as u32).map(|label| 100 + label)).unwrap();
        let mut next = 1000;
        let mut open = Vec::new();
        for _ in 0..40 {
            let labels: Vec<u32> = tree.frontier().copied().collect();
            let begin = random.below(labels.len().max(1));
            let end = labels.len().min(begin + 1 + random.below(4));
            let set = &labels[begin..end];
            let before: BTreeSet<u32> = labels.iter().copied().collect();
            let mut expected = before.clone();
            next += 10;
            match random.below(9) {
                0 => {
                    tree.insert(next).unwrap();
                    expected.insert(next);
                }
                1 if begin < end => {
                    tree.remove(&labels[begin]).unwrap();
                    expected.remove(&labels[begin]);
                }
                2 if begin < end => {
                    tree.merge(set, next).unwrap();
                    set.iter().for_each(|label| _ = expected.remove(label));
                    expected.insert(next);
                    assert_eq!(tree.len() as usize, labels.len() + 1 - set.len());
                }
                3 if begin < end => {
                    let new: Vec<u32> = (next..next + random.below(4) as u32).collect();
                    tree.replace_set(set, new.clone()).unwrap();
                    set.iter().for_each(|label| _ = expected.remove(label));
                    expected.extend(&new);
                    if !new.is_empty() {
                        assert_eq!(tree.is_consecutive(&new), Ok(true));
                    }
                }
                4 if begin < end => {
                    tree.replace(&labels[begin], Labeled::new(next..next + 3).unwrap()).unwrap();
                    expected.remove(&labels[begin]);
                    expected.extend(next..next + 3);
                    assert_eq!(tree.is_consecutive(&[next, next + 1, next + 2]), Ok(true));
                }
                5 => {
                    let text = tree.to_string();
                    open.push((tree.checkpoint(), text, tree.clone()));
                }
                6 => {
                    let Some((checkpoint, text, copy)) = open.pop() else { continue };
                    tree.rollback(checkpoint);
                    assert_eq!((tree.to_string(), &tree), (text, &copy));
                    expected = copy.frontier().copied().collect();
                }
                7 => {
                    let Some((checkpoint, ..)) = open.pop() else { continue };
                    tree.commit(checkpoint);
                }
                _ => _ = tree.reduce(set),
            }
            let found: Vec<u32> = tree.frontier().copied().collect();
            assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected);
            assert_eq!(found.len(), expected.len());
            for (leaf, label) in (0..tree.len()).map(|leaf| (leaf, *tree.label(leaf))) {
                assert_eq!(tree.leaf(&label), Some(leaf));
            }
            before.difference(&expected).for_each(|gone| assert_eq!(tree.leaf(gone), None));
        }
        let (numbers, labels) = tree.clone().into_parts();
        let committed = open.is_empty();
        if committed {
            assert_eq!(Labeled::with_tree(numbers, labels).unwrap(), tree);
        }
    }
}

#[test]
fn a_failed_attempt_restores_labels() {
    let mut tree = cities();
    let copy = tree.clone();
    let failed: Result<(), LabeledError> = tree.attempt(|tree| {
        tree.merge(&["Oslo", "Bonn"], "Köln")?;
        tree.insert("Wien")?;
        assert_eq!(tree.leaf(&"Oslo"), None);
        tree.reduce(&["Oslo"]).map(|_| ())
    });
    assert_eq!(failed, Err(LabeledError::Unknown { index: 0 }));
    assert_eq!(tree, copy);
    assert_eq!((tree.leaf(&"Oslo"), tree.leaf(&"Wien")), (Some(0), None));
    assert_eq!(tree.insert("Rome"), Err(LabeledError::Repeated { index: 0 }));
    assert_eq!(tree.merge(&[], "x").unwrap_err(), LeafError::NoLeaf.into());
    assert_eq!(Labeled::<String>::default().to_string(), "()");
    assert!(Labeled::with_tree(PqTree::new(2), vec![1, 1]).is_err());
}
