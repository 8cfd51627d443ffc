//! Circular orders of up to seven elements against all permutations, and of up to 60 against linear
//! trees.

use crate::families::Random;
use pqtree::{CircularNode, CircularTree, Kind, NodeId, PqTree};
use std::collections::{BTreeMap, BTreeSet};

/// All circular orders, with the last element at the end.
fn circular_orders(elements: u32) -> Vec<Vec<u32>> {
    let mut orders = vec![vec![]];
    for next in 0..elements.saturating_sub(1) {
        let insert = |order: Vec<u32>| {
            (0..=order.len()).map(move |place| {
                let mut order = order.clone();
                order.insert(place, next);
                order
            })
        };
        orders = orders.into_iter().flat_map(insert).collect();
    }
    orders
        .into_iter()
        .map(|order| order.into_iter().chain(elements.checked_sub(1)).collect())
        .collect()
}

fn is_together(set: &[u32], order: &[u32]) -> bool {
    let inside: Vec<bool> = order.iter().map(|element| set.contains(element)).collect();
    let borders = (0..order.len()).filter(|&at| inside[at] != inside[(at + 1) % order.len()]);
    borders.count() <= 2
}

#[test]
fn trees_admit_exactly_the_circular_orders_that_keep_the_sets_together() {
    let mut random = Random::new(3);
    let mut refused = 0;
    for round in 0..1000 {
        let elements = round % 8;
        let mut tree = CircularTree::new(elements);
        let mut model = circular_orders(elements);
        for _ in 0..5 {
            let half = random.below(3);
            let set: Vec<u32> = (0..elements).filter(|_| random.below(4) <= half).collect();
            let kept: Vec<_> =
                model.iter().filter(|order| is_together(&set, order)).cloned().collect();
            let is_fixed = kept.len() == model.len();
            assert_eq!(tree.is_consecutive(&set), Ok(is_fixed));
            assert_eq!(tree.can_reduce(&set).is_ok(), !kept.is_empty());
            let conflict = tree.conflict(&set).unwrap();
            assert_eq!(conflict.is_some(), kept.is_empty());
            if let Some(conflict) = conflict {
                assert!(conflict.inside.iter().all(|element| set.contains(element)));
                assert!(conflict.outside.iter().all(|element| !set.contains(element)));
                let of_proof = |element: &u32| {
                    conflict.inside.contains(element) || conflict.outside.contains(element)
                };
                assert!(model.iter().all(|order| {
                    let order: Vec<u32> = order.iter().copied().filter(of_proof).collect();
                    !is_together(&conflict.inside, &order)
                }));
                refused += 1;
            }
            match tree.reduce(&set) {
                Ok(changed) => {
                    assert_eq!(changed, !is_fixed);
                    model = kept;
                }
                Err(_) => assert!(kept.is_empty()),
            }
            let listed: BTreeSet<Vec<u32>> = tree.orders().collect();
            assert_eq!(listed, model.iter().cloned().collect());
            assert_eq!(tree.orders_count(), Some(model.len() as u128));
            assert!(listed.contains(&tree.frontier().collect::<Vec<_>>()));
        }
        for mut order in circular_orders(elements) {
            let admitted = model.contains(&order);
            let by = random.below(order.len().max(1));
            order.rotate_left(by);
            assert_eq!(tree.contains_order(&order), admitted);
        }
        check_view(&tree);
    }
    assert!(refused > 100, "{refused}");
}

/// A set is consecutive in a circle exactly if its complement is. So a linear tree without the last
/// element is a model, if each set with that element is replaced by its complement.
#[test]
fn up_to_sixty_elements_agree_with_linear_trees() {
    let mut random = Random::new(9);
    let (mut kept, mut refused) = (0, 0);
    for round in 0..600 {
        let elements = 8 + round % 53;
        let (mut tree, mut model) = (CircularTree::new(elements), PqTree::new(elements - 1));
        for _ in 0..30 {
            let below = |count| random.below(count as usize) as u32;
            let mut order: Vec<u32> = tree.tree().sample_with(below);
            order.push(elements - 1);
            order.rotate_left(random.below(elements as usize));
            if random.below(4) == 0 {
                order.swap(0, random.below(elements as usize));
            }
            let most = if random.below(3) == 0 { elements as usize } else { 4 };
            let (set, rest) = order.split_at(1 + random.below(most));
            let linear = if set.contains(&(elements - 1)) { rest } else { set };
            let (text, before) = (tree.to_string(), lists(tree.tree()));
            assert_eq!(tree.is_consecutive(set), model.is_consecutive(linear));
            assert_eq!(tree.can_reduce(set), model.can_reduce(linear));
            assert_eq!(tree.conflict(set).unwrap().is_some(), model.can_reduce(linear).is_err());
            assert_eq!(tree.to_string(), text, "a query changed the tree");
            let expected = model.reduce(linear).map(|reduced| reduced.changed);
            assert_eq!(tree.reduce(set), expected);
            assert_eq!(tree.tree(), &model);
            if expected.is_err() {
                assert_eq!(tree.to_string(), text);
                refused += 1;
            }
            let changed: BTreeSet<NodeId> = tree.tree().changed().collect();
            for (node, list) in lists(tree.tree()) {
                let is_same = before.get(&node) == Some(&list);
                assert!(is_same || changed.contains(&node), "{node:?} in {tree} after {set:?}");
            }
            kept += u32::from(expected == Ok(true));
        }
        check_view(&tree);
    }
    assert!(kept > 1000 && refused > 1000, "{kept} kept, {refused} refused");
}

fn lists(tree: &PqTree) -> BTreeMap<NodeId, (Kind, Vec<NodeId>)> {
    let inner = tree.pre_order().filter(|&node| tree.kind(node) != Kind::Leaf);
    inner.map(|node| (node, (tree.kind(node), tree.children(node).collect()))).collect()
}

/// Checks that neighbours are mutual, and that the edges form a tree.
fn check_view(tree: &CircularTree) {
    let mut edges = 0;
    let mut elements = BTreeSet::new();
    for node in tree.inner_nodes() {
        let neighbours: Vec<CircularNode> = tree.neighbours(node).collect();
        assert!(neighbours.len() >= if tree.tree().kind(node) == Kind::Q { 4 } else { 3 });
        for neighbour in neighbours {
            edges += 1;
            match neighbour {
                CircularNode::Element(element) => assert!(elements.insert(element)),
                CircularNode::Inner(other) => {
                    assert!(tree.neighbours(other).any(|back| back == CircularNode::Inner(node)));
                }
            }
        }
    }
    if tree.inner_nodes().next().is_some() {
        assert!(elements.iter().copied().eq(0..tree.len()));
        // Each edge between inner nodes was counted twice.
        let inner = tree.inner_nodes().count();
        assert_eq!(edges, elements.len() + 2 * (inner - 1));
    }
}

#[test]
fn text_is_stable_and_errors_change_nothing() {
    let mut tree = CircularTree::new(5);
    assert!(tree.reduce(&[3, 4]).unwrap() && tree.reduce(&[4, 0]).unwrap());
    assert_eq!(tree.to_string(), "{4 [3 (2 1) 0]}");
    assert_eq!(CircularTree::new(1).to_string(), "{0}");
    assert_eq!(CircularTree::default().to_string(), "{}");
    for set in [&[1, 1][..], &[4, 4], &[1, 5], &[4, 5]] {
        assert!(tree.reduce(set).is_err_and(|error| error != pqtree::ReduceError::Conflict));
        assert!(tree.conflict(set).is_err() && tree.is_consecutive(set).is_err());
    }
    let before = tree.to_string();
    let failed: Result<(), pqtree::ReduceError> = tree.attempt(|tree| {
        tree.reduce(&[1, 0])?;
        tree.reduce(&[0, 3])?;
        Ok(())
    });
    assert!(failed.is_err());
    assert_eq!(tree.to_string(), before);
}
