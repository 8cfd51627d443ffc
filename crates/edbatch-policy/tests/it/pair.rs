//! `LookAhead` compared with its definition, on random graphs and on trees and lattices.

use crate::support;

use edbatch_graph::{Dag, Kind, NodeId, PlainDag, Schedule};
use edbatch_policy::{Critical, LookAhead, PairRule, lower_bound, schedule};
use proptest::prelude::*;

/// The schedule of a rule by its definition: everything is recomputed for every batch.
fn naive(dag: &PlainDag, rule: &PairRule) -> Schedule {
    let heights = support::heights(dag);
    let urgencies = support::urgencies(dag, rule.power);
    let mut ran = vec![false; dag.nodes()];
    let mut schedule = Schedule::new();
    while ran.contains(&false) {
        let kind = choose(dag, rule, &heights, &urgencies, &ran);
        let batch: Vec<NodeId> = ready(dag, &ran, kind).collect();
        batch.iter().for_each(|node| ran[node.index()] = true);
        schedule.push(kind, &batch);
    }
    schedule
}

fn ready<'a>(
    dag: &'a PlainDag,
    ran: &'a [bool],
    kind: Kind,
) -> impl Iterator<Item = NodeId> + use<'a> {
    support::remaining(ran)
        .filter(move |&node| dag.kind(node) == kind && support::is_ready(dag, ran, node))
}

fn choose(
    dag: &PlainDag,
    rule: &PairRule,
    heights: &[u32],
    urgencies: &[f64],
    ran: &[bool],
) -> Kind {
    let kinds = (0..dag.kinds()).map(Kind::new);
    let ready_kinds: Vec<Kind> =
        kinds.filter(|&kind| ready(dag, ran, kind).next().is_some()).collect();
    let lowers = |kind: Kind| {
        let remaining = || support::remaining(ran).filter(|&node| dag.kind(node) == kind);
        let highest = remaining().map(|node| heights[node.index()]).max();
        let mut tallest = remaining().filter(|node| Some(heights[node.index()]) == highest);
        tallest.all(|node| support::is_ready(dag, ran, node))
    };
    let urgency = |kind| ready(dag, ran, kind).map(|node| urgencies[node.index()]).sum::<f64>();
    let any_lowers = ready_kinds.iter().any(|&kind| lowers(kind));
    let mut candidates = ready_kinds.clone();
    candidates.retain(|&kind| rule.lowering.is_some() || !any_lowers || lowers(kind));
    candidates.sort_by(|&a, &b| urgency(b).total_cmp(&urgency(a)).then(a.cmp(&b)));
    let most = ready_kinds.iter().map(|&kind| urgency(kind)).fold(0.0, f64::max);
    let (mut best, mut largest) = (candidates[0], f64::NEG_INFINITY);
    for first in candidates {
        let factor = rule.lowering.filter(|_| lowers(first)).unwrap_or(1.0);
        let hoped = 2.0 * urgency(first) + rule.second * most;
        let score = factor * (urgency(first) + second(dag, rule, urgencies, ran, first));
        if largest < factor * hoped && score > largest {
            (best, largest) = (first, score);
        }
    }
    best
}

/// The value of the best batch after a batch of kind `first`.
fn second(dag: &PlainDag, rule: &PairRule, urgencies: &[f64], ran: &[bool], first: Kind) -> f64 {
    let weight = |second| {
        let weight = rule.weights.iter().find(|&&(a, b, _)| (a, b) == (first, second));
        weight.map_or(1.0, |&(_, _, weight)| weight)
    };
    let waits_for_first = |&user: &NodeId| {
        let mut missing = dag.arguments(user).filter(|a| !ran[a.index()]);
        let argument = missing.next();
        missing.next().is_none()
            && argument.is_some_and(|a| dag.kind(a) == first && support::is_ready(dag, ran, a))
    };
    let worth = |second: Kind| {
        let users = support::remaining(ran).filter(|&user| dag.kind(user) == second);
        let released: f64 = users.filter(waits_for_first).map(|user| urgencies[user.index()]).sum();
        let before = ready(dag, ran, second).filter(|_| second != first);
        let before: f64 = before.map(|node| urgencies[node.index()]).sum();
        rule.second * before + released * weight(second)
    };
    (0..dag.kinds()).map(Kind::new).map(worth).fold(0.0, f64::max)
}

/// A rule with weights. (Power 1 keeps urgencies small integers, so sums are exact in any order.)
fn learned() -> PairRule {
    let weights = vec![(Kind(0), Kind(1), 1.5), (Kind(1), Kind(1), 0.25), (Kind(2), Kind(0), 2.0)];
    PairRule { power: 3, lowering: Some(1.75), second: 0.5, weights }
}

fn rules() -> [PairRule; 3] {
    [PairRule::pair(), PairRule::soft(), learned()]
}

proptest! {
    #[test]
    fn look_ahead_equals_its_definition(dag in support::dags(60, 6)) {
        for rule in rules() {
            let fast = schedule(&dag, &mut LookAhead::new(rule.clone()));
            prop_assert_eq!(fast.check(&dag), Ok(()));
            prop_assert!(fast.len() >= lower_bound(&dag));
            prop_assert_eq!(kinds(&fast), kinds(&naive(&dag, &rule)), "{:?}", rule);
        }
    }
}

fn kinds(schedule: &Schedule) -> Vec<Kind> {
    schedule.batches().map(|batch| batch.kind).collect()
}

#[test]
fn look_ahead_equals_its_definition_on_lattices_and_trees() {
    for seed in 0..3 {
        for dag in [support::lattices(seed, 4), support::trees(seed, 4)] {
            for rule in rules() {
                let fast = schedule(&dag, &mut LookAhead::new(rule.clone()));
                assert_eq!(kinds(&fast), kinds(&naive(&dag, &rule)), "seed {seed}, {rule:?}");
            }
        }
    }
}

/// The frontier counts more than 65,535 arguments of a node separately.
#[test]
fn node_with_very_many_arguments_is_released_by_the_last() {
    let mut dag = PlainDag::new(["argument", "last", "sum"]);
    let mut arguments: Vec<NodeId> = (0..70_000).map(|_| dag.push(Kind(0), &[]).unwrap()).collect();
    arguments.push(dag.push(Kind(1), &[]).unwrap());
    dag.push(Kind(2), &arguments).unwrap();
    for rule in rules() {
        let schedule = schedule(&dag, &mut LookAhead::new(rule));
        assert_eq!((schedule.check(&dag), schedule.len()), (Ok(()), 3));
    }
}

/// The crate's documentation quotes these figures: 254.7, 251.2 and 249.7.
#[test]
fn look_ahead_makes_fewer_batches_on_published_lattices() {
    let graphs = support::published_graphs();
    let lattices: Vec<_> = graphs.iter().filter(|(name, _)| name.starts_with("lattice")).collect();
    if lattices.is_empty() {
        return;
    }
    let batches = |policy: &mut dyn edbatch_policy::Policy| -> usize {
        let count = |(_, dag): &&(String, PlainDag)| {
            let schedule = schedule(dag, policy);
            assert_eq!(schedule.check(dag), Ok(()));
            schedule.len()
        };
        lattices.iter().map(count).sum()
    };
    assert_eq!(batches(&mut Critical::new()), 2547);
    assert_eq!(batches(&mut LookAhead::new(PairRule::pair())), 2512);
    assert_eq!(batches(&mut LookAhead::new(PairRule::soft())), 2497);
}
