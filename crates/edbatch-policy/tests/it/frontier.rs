//! The frontier and the incremental counts, compared with their definitions at every step.

use crate::support;

use edbatch_graph::{Dag, Kind, NodeId, PlainDag};
use edbatch_policy::{Chains, Critical, Frontier, KindFrontiers, Policy, Sufficient};
use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Runs random kinds, and calls `look` before each batch with the frontier and completed nodes.
fn rollout(dag: &impl Dag, choices: &[u8], mut look: impl FnMut(&Frontier, &[bool])) {
    // A reused frontier must not depend on the graph before.
    let mut frontier = Frontier::new(&edbatch_graph::parse_text("2\n0 0\n3 1 0\n").unwrap());
    frontier.run(Kind(0), 1);
    frontier.reset(dag);
    for round in 0..2 {
        let mut ran = vec![false; dag.nodes()];
        let mut choices = choices.iter().cycle();
        while !frontier.is_done() {
            look(&frontier, &ran);
            let ready: Vec<_> = frontier.ready_kinds().collect();
            let kind = ready[usize::from(*choices.next().unwrap()) % ready.len()];
            for node in frontier.run(kind, frontier.ready(kind).len()) {
                assert!(!std::mem::replace(&mut ran[node.index()], true));
            }
        }
        assert!(ran.iter().all(|&ran| ran));
        if round == 0 {
            frontier.rewind();
        }
    }
}

fn kinds(dag: &impl Dag) -> impl Iterator<Item = Kind> {
    (0..dag.kinds()).map(Kind::new)
}

/// The first of the kinds with the largest score.
fn best(kinds: impl Iterator<Item = Kind>, score: impl Fn(Kind) -> f64) -> Kind {
    kinds.reduce(|best, kind| if score(kind) > score(best) { kind } else { best }).unwrap()
}

/// Arguments are counted in 16 bits. One node reads many nodes, another reads one node many times.
#[test]
fn nodes_may_have_more_than_65535_arguments() {
    for arguments in [65_534, 65_535, 65_536, 131_070, 131_071, 200_000] {
        let mut dag = edbatch_graph::PlainDag::new(["leaf", "once", "again"]);
        let leaves: Vec<_> = (0..arguments).map(|_| dag.push(Kind(0), &[]).unwrap()).collect();
        let sum = dag.push(Kind(1), &leaves).unwrap();
        dag.push(Kind(2), &vec![sum; arguments]).unwrap();
        let mut frontier = Frontier::new(&dag);
        for _ in 0..2 {
            frontier.run(Kind(0), arguments - 1);
            assert!(frontier.ready(Kind(1)).is_empty(), "{arguments}");
            frontier.run(Kind(0), 1);
            assert_eq!(frontier.ready(Kind(1)), [sum], "{arguments}");
            frontier.run(Kind(1), 1);
            assert_eq!(frontier.ready(Kind(2)).len(), 1, "{arguments}");
            frontier.run(Kind(2), 1);
            assert!(frontier.is_done());
            frontier.rewind();
        }
    }
}

/// Short chains are counted in 8 bits, up to 254 nodes.
#[test]
fn chains_may_have_more_than_254_nodes() {
    for length in [254, 255, 256, 257, 10_000] {
        let kinds = (0..20).map(|kind| kind.to_string());
        let mut dag = edbatch_graph::PlainDag::new(kinds);
        let mut last = dag.push(Kind(0), &[]).unwrap();
        for node in 1..length {
            last = dag.push(Kind(0), &[last]).unwrap();
            dag.push(Kind(1 + node % 19), &[last]).unwrap();
        }
        let chains = Chains::new(&Frontier::new(&dag));
        assert_eq!(chains.longest(Kind(0)), u32::from(length));
        assert_eq!(chains.bound(), usize::from(length) + 19);
        assert_eq!(chains.needs(NodeId(0)), u32::from(length) + 18);
    }
}

/// Heights and needs are stored in 16 bits if they fit: chains of 230 nodes, one for each kind.
#[test]
fn needs_may_exceed_16_bits() {
    for kinds in [200_u16, 256, 257, 300] {
        let mut dag = PlainDag::new((0..kinds).map(|kind| kind.to_string()));
        let mut last: Option<NodeId> = None;
        for kind in (0..kinds).rev() {
            for _ in 0..230 {
                last = Some(dag.push(Kind(kind), last.as_slice()).unwrap());
            }
        }
        let chains = Chains::new(&Frontier::new(&dag));
        for (after, node) in (0..dag.nodes()).rev().enumerate() {
            assert_eq!(chains.needs(NodeId::new(node)) as usize, after, "{kinds} kinds");
            assert_eq!(chains.height(NodeId::new(node)) as usize, 1 + after % 230);
        }
    }
}

/// Rows are cleared after each block of edges. The graphs have many blocks and chains of various
/// lengths, and use the same memory.
#[test]
fn chains_of_large_graphs_equal_their_definition() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut chains = Chains::default();
    for (nodes, reach) in [(4000, 2000), (3000, 9), (5000, 300), (2000, 2), (1500, 40)] {
        let mut dag = PlainDag::new((0..4).map(|kind| format!("kind {kind}")));
        for v in 0..nodes {
            let arguments = (0..rng.random_range(0..4_usize).min(v))
                .map(|_| NodeId::new(rng.random_range(v.saturating_sub(reach)..v)));
            let arguments: Vec<NodeId> = arguments.collect();
            dag.push(Kind(rng.random_range(0..4)), &arguments).unwrap();
        }
        // For each node and kind, the maximum number of nodes of the kind on a path after the node.
        let mut after = vec![[0_u32; 4]; nodes];
        for user in (0..nodes).rev().map(NodeId::new) {
            let mut through = after[user.index()];
            through[dag.kind(user).index()] += 1;
            for argument in dag.arguments(user) {
                for (max, count) in after[argument.index()].iter_mut().zip(through) {
                    *max = count.max(*max);
                }
            }
        }
        chains.reset(&Frontier::new(&dag));
        for (node, after) in (0..).map(NodeId::new).zip(&after) {
            assert_eq!(chains.height(node), 1 + after[dag.kind(node).index()], "{nodes}, {reach}");
            assert_eq!(chains.needs(node), after.iter().sum::<u32>(), "{nodes}, {reach}");
        }
    }
}

proptest! {
    #[test]
    fn ready_nodes_are_those_whose_arguments_ran(
        dag in prop_oneof![support::dags(40, 5), support::dags(100, 200)],
        choices in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        rollout(&dag, &choices, |frontier, ran| {
            for kind in kinds(&dag) {
                let mut ready = frontier.ready(kind).to_vec();
                ready.sort();
                let expected: Vec<_> = support::remaining(ran)
                    .filter(|&v| dag.kind(v) == kind && support::is_ready(&dag, ran, v))
                    .collect();
                assert_eq!(frontier.ready_kinds().any(|k| k == kind), !expected.is_empty());
                assert_eq!(ready, expected);
                assert!(frontier.ran(kind).iter().all(|v| ran[v.index()]));
            }
        });
    }

    /// The counts are updated at every step, or less often.
    #[test]
    fn kind_frontiers_equal_their_definition(
        dag in support::dags(40, 7),
        choices in prop::collection::vec(any::<u8>(), 1..20),
        every in 1_usize..5,
    ) {
        let mut kind_frontiers = KindFrontiers::default();
        let mut step = 0;
        rollout(&dag, &choices, |frontier, ran| {
            if ran.iter().all(|&ran| !ran) {
                (kind_frontiers, step) = (KindFrontiers::default(), 0);
            }
            step += 1;
            if step % every == 0 {
                kind_frontiers.update(frontier, &Chains::new(frontier));
                let expected = support::kind_frontiers(&dag, ran);
                for kind in kinds(&dag) {
                    assert_eq!(kind_frontiers.size(kind), expected[kind.index()]);
                }
            }
        });
    }

    /// Heights are computed in new memory, and in memory that was used for another graph.
    #[test]
    fn heights_equal_their_definition(
        dags in prop::array::uniform2(support::dags(60, 40)),
    ) {
        let mut chains = Chains::default();
        for dag in &dags {
            chains.reset(&Frontier::new(dag));
            let heights = support::heights(dag);
            for (v, &height) in heights.iter().enumerate() {
                prop_assert_eq!(chains.height(NodeId::new(v)), height);
            }
            for kind in kinds(dag) {
                let of_kind = (0..dag.nodes()).filter(|&v| dag.kind(NodeId::new(v)) == kind);
                let longest = of_kind.map(|v| heights[v]).max().unwrap_or(0);
                prop_assert_eq!(chains.longest(kind), longest);
            }
        }
    }

    #[test]
    fn sufficient_runs_the_kind_with_the_largest_ratio(
        dag in support::dags(40, 5),
        choices in prop::collection::vec(any::<u8>(), 1..20),
        every in 1_usize..4,
    ) {
        let mut policy = Sufficient::new();
        let mut step = 0;
        rollout(&dag, &choices, |frontier, ran| {
            if ran.iter().all(|&ran| !ran) {
                policy.start(frontier);
            }
            step += 1;
            if step % every == 0 {
                let kind_frontiers = support::kind_frontiers(&dag, ran);
                let ready = |kind: Kind| frontier.ready(kind).len() as f64;
                let ratio = |kind: Kind| ready(kind) / kind_frontiers[kind.index()] as f64;
                assert_eq!(policy.next(frontier), best(frontier.ready_kinds(), ratio));
            }
        });
    }

    #[test]
    fn critical_runs_the_most_urgent_kind_that_lowers_the_bound(
        dag in support::dags(40, 5),
        choices in prop::collection::vec(any::<u8>(), 1..20),
        every in 1_usize..4,
    ) {
        let heights = support::heights(&dag);
        let urgencies = support::urgencies(&dag, 6);
        let mut policy = Critical::new();
        let mut step = 0;
        rollout(&dag, &choices, |frontier, ran| {
            if ran.iter().all(|&ran| !ran) {
                policy.start(frontier);
            }
            step += 1;
            if step % every == 0 {
                let kind_frontiers = support::kind_frontiers(&dag, ran);
                let score = |kind: Kind| {
                    let of_kind = || support::remaining(ran).filter(|&v| dag.kind(v) == kind);
                    let highest = of_kind().map(|v| heights[v.index()]).max();
                    let lowers = of_kind()
                        .filter(|v| Some(heights[v.index()]) == highest)
                        .all(|v| support::is_ready(&dag, ran, v));
                    let ready = frontier.ready(kind);
                    let ratio = ready.len() as f64 / kind_frontiers[kind.index()] as f64;
                    assert!(lowers || ratio < 1.0, "a ratio of 1 lowers the bound");
                    let urgency: f64 = ready.iter().map(|v| urgencies[v.index()]).sum();
                    // A kind that lowers the bound always comes first.
                    urgency + if lowers { 1e14 } else { 0.0 }
                };
                assert_eq!(policy.next(frontier), best(frontier.ready_kinds(), score));
            }
        });
    }
}
