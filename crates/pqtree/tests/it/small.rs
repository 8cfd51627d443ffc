//! Trees of up to seven leaves, against all permutations.

use crate::trace;
use edbatch_testing::cases;
use pqtree::{PqTree, ReduceError};
use proptest::prelude::*;
use proptest::sample::subsequence;
use std::collections::BTreeSet;

type Order = Vec<u32>;

fn permutations(leaves: u32) -> Vec<Order> {
    let Some(last) = leaves.checked_sub(1) else {
        return vec![vec![]];
    };
    let insert = |order: Order| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    };
    permutations(last).into_iter().flat_map(insert).collect()
}

fn is_consecutive(set: &[u32], order: &[u32]) -> bool {
    let places: Vec<usize> =
        (0..order.len()).filter(|&place| set.contains(&order[place])).collect();
    places.is_empty() || places[places.len() - 1] - places[0] + 1 == places.len()
}

fn subsets(leaves: u32) -> impl Iterator<Item = Vec<u32>> {
    (0..1u32 << leaves).map(move |bits| (0..leaves).filter(|leaf| bits >> leaf & 1 == 1).collect())
}

/// A tree, and the orders that it must admit.
fn build(leaves: u32, sets: &[Vec<u32>]) -> (PqTree, BTreeSet<Order>) {
    let mut tree = PqTree::new(leaves);
    let mut orders: BTreeSet<Order> = permutations(leaves).into_iter().collect();
    for set in sets {
        let kept: BTreeSet<Order> =
            orders.iter().filter(|order| is_consecutive(set, order)).cloned().collect();
        let before = tree.to_string();
        match tree.reduce(set) {
            Ok(reduced) => {
                assert_eq!(reduced.changed, kept.len() < orders.len());
                orders = kept;
            }
            Err(error) => {
                assert!(kept.is_empty() && error == ReduceError::Conflict);
                assert_eq!(tree.to_string(), before);
                trace::check_proof(&mut tree, set);
            }
        }
    }
    (tree, orders)
}

/// The orders of a tree. Fails if one is listed twice.
fn orders(tree: &PqTree) -> BTreeSet<Order> {
    let list: Vec<Order> = tree.orders().collect();
    let set: BTreeSet<Order> = list.iter().cloned().collect();
    assert_eq!(
        (list.len() as u128, Some(list.len() as u128)),
        (set.len() as u128, tree.orders_count())
    );
    assert!((tree.orders_log2() - (list.len() as f64).log2()).abs() < 1e-9);
    assert!(list.first().is_some_and(|first| tree.frontier().eq(first.iter().copied())));
    set
}

fn sets(leaves: u32) -> impl Strategy<Value = Vec<Vec<u32>>> {
    let all: Vec<u32> = (0..leaves).collect();
    // Small sets leave more choice to the following ones.
    let set = prop_oneof![
        3 => subsequence(all.clone(), 0..=(leaves as usize).min(3)),
        1 => subsequence(all, 0..=leaves as usize),
    ];
    proptest::collection::vec(set.prop_shuffle(), 0..7)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(cases(150)))]

    #[test]
    fn reductions_agree_with_permutations(
        (leaves, sets) in (1..=7u32).prop_flat_map(|n| (Just(n), sets(n)))
    ) {
        let (tree, model) = build(leaves, &sets);
        assert_eq!(orders(&tree), model);
        assert_eq!(tree.nth_order(model.len() as u128), None);
        let again: PqTree = tree.to_string().parse().expect("the tree's own text");
        assert_eq!(again.to_string(), tree.to_string());
    }

    #[test]
    fn queries_agree_with_permutations(
        (leaves, sets) in (1..=6u32).prop_flat_map(|n| (Just(n), sets(n)))
    ) {
        let (mut tree, model) = build(leaves, &sets);
        for order in permutations(leaves) {
            assert_eq!(tree.contains_order(&order), model.contains(&order));
        }
        let fixed: Vec<Vec<u32>> = subsets(leaves)
            .filter(|set| model.iter().all(|order| is_consecutive(set, order)))
            .collect();
        for set in subsets(leaves) {
            assert_eq!(tree.is_consecutive(&set), Ok(fixed.contains(&set)));
            let can_reduce = tree.can_reduce(&set).is_ok();
            assert_eq!(tree.conflict(&set).expect("a set").is_none(), can_reduce);
            assert_eq!(can_reduce, model.iter().any(|order| is_consecutive(&set, order)));
            let contains_set = |other: &&Vec<u32>| set.iter().all(|leaf| other.contains(leaf));
            let supersets = fixed.iter().filter(contains_set);
            let smallest = supersets.min_by_key(|other| other.len()).expect("all leaves are one");
            let mut found = tree.smallest_consecutive_superset(&set).expect("a set");
            found.sort_unstable();
            assert_eq!(&found, smallest);
        }
        let mut again = PqTree::new(leaves);
        again.reduce_all(tree.restrictions()).expect("a new tree accepts them");
        assert_eq!(again, tree);
    }

    #[test]
    fn equality_agrees_with_orders(
        (leaves, one, two) in (1..=5u32).prop_flat_map(|n| (Just(n), sets(n), sets(n)))
    ) {
        let ((one, one_model), (two, two_model)) = (build(leaves, &one), build(leaves, &two));
        let is_equal = one_model == two_model;
        assert_eq!(one == two, is_equal);
        assert_eq!(one.canonical().to_string() == two.canonical().to_string(), is_equal);
    }

    #[test]
    fn intersection_admits_the_common_orders(
        (leaves, one, two) in (1..=6u32).prop_flat_map(|n| (Just(n), sets(n), sets(n)))
    ) {
        let ((mut one, one_model), (two, two_model)) = (build(leaves, &one), build(leaves, &two));
        let both: BTreeSet<Order> = one_model.intersection(&two_model).cloned().collect();
        let before = one.to_string();
        match one.intersect(&two) {
            Ok(changed) => {
                assert_eq!(changed, both.len() < one_model.len());
                assert_eq!(orders(&one), both);
            }
            Err(_) => {
                assert!(both.is_empty());
                assert_eq!(one.to_string(), before);
            }
        }
    }

    #[test]
    fn projection_admits_the_projected_orders(
        (leaves, sets, kept) in (1..=7u32).prop_flat_map(|n| {
            let all: Vec<u32> = (0..n).collect();
            (Just(n), sets(n), subsequence(all, 1..=n as usize).prop_shuffle())
        })
    ) {
        let (tree, model) = build(leaves, &sets);
        let place = |leaf: &u32| kept.iter().position(|kept| kept == leaf);
        let rename = |leaf: &u32| place(leaf).map(|place| place as u32);
        let projected: BTreeSet<Order> =
            model.iter().map(|order| order.iter().filter_map(rename).collect()).collect();
        assert_eq!(orders(&tree.project(&kept).expect("the leaves are different")), projected);
    }

    #[test]
    fn inserted_and_removed_leaves_agree_with_permutations(
        (leaves, first, leaf, by, second) in (1..=5u32, 1..=3u32)
            .prop_flat_map(|(n, m)| (Just(n), sets(n), 0..n, Just(m), sets(m)))
    ) {
        let ((tree, model), (by, by_model)) = (build(leaves, &first), build(by, &second));
        let mut replaced = tree.clone();
        let undo = replaced.checkpoint();
        replaced.replace(leaf, &by).expect("in range");
        let name = |inner: u32| if inner == 0 { leaf } else { leaves + inner - 1 };
        let expected = model.iter().flat_map(|order| by_model.iter().map(move |inner| {
            let place = order.iter().position(|&other| other == leaf).expect("a leaf");
            let inner = inner.iter().copied().map(name);
            let (before, after) = (&order[..place], &order[place + 1..]);
            before.iter().copied().chain(inner).chain(after.iter().copied()).collect()
        }));
        assert_eq!(orders(&replaced), expected.collect());
        replaced.rollback(undo);
        assert_eq!(replaced.to_string(), tree.to_string());

        let mut removed = tree.clone();
        removed.remove(leaf).expect("in range");
        let without = model.iter().map(|order| {
            let others = order.iter().filter(|&&other| other != leaf);
            others.map(|&other| other - u32::from(other > leaf)).collect()
        });
        assert_eq!(orders(&removed), without.collect());

        let mut inserted = tree.clone();
        assert_eq!(inserted.insert(), Ok(leaves));
        let fixed: Vec<Vec<u32>> = subsets(leaves)
            .filter(|set| set.len() < leaves as usize)
            .filter(|set| model.iter().all(|order| is_consecutive(set, order)))
            .collect();
        let is_p = tree.root().is_some_and(|root| tree.kind(root) != pqtree::Kind::Q);
        let expected: BTreeSet<Order> = permutations(leaves + 1).into_iter().filter(|order| {
            let rest: Order = order.iter().copied().filter(|&other| other != leaves).collect();
            let all: Vec<u32> = (0..leaves).collect();
            model.contains(&rest)
                && fixed.iter().all(|set| is_consecutive(set, order))
                && (is_p || is_consecutive(&all, order))
        }).collect();
        assert_eq!(orders(&inserted), expected);
    }

    #[test]
    fn from_orders_finds_the_common_intervals(
        given in (1..=6usize, 1..=4usize).prop_flat_map(|(n, count)| {
            let order = Just((0..n as u32).collect::<Vec<_>>()).prop_shuffle();
            proptest::collection::vec(order, count)
        })
    ) {
        let mut tree = PqTree::from_orders(&given).expect("orders");
        assert!(given.iter().all(|order| tree.contains_order(order)));
        for set in subsets(tree.len()) {
            let expected = given.iter().all(|order| is_consecutive(&set, order));
            assert_eq!(tree.is_consecutive(&set), Ok(expected));
        }
    }

    #[test]
    fn samples_cover_all_orders(
        (leaves, sets) in (1..=4u32).prop_flat_map(|n| (Just(n), sets(n)))
    ) {
        let (tree, model) = build(leaves, &sets);
        let mut state = 1u64;
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..400 * model.len() {
            let order = tree.sample_with(|count| {
                state = state.wrapping_mul(6_364_136_223_846_793_005);
                state = state.wrapping_add(1_442_695_040_888_963_407);
                (((state >> 33) * u64::from(count)) >> 31) as u32
            });
            *seen.entry(order).or_insert(0u32) += 1;
        }
        assert!(seen.keys().eq(model.iter()));
        assert!(seen.values().all(|&count| (280..520).contains(&count)), "{seen:?}");
    }
}
