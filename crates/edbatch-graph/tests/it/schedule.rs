//! `Schedule::check` accepts legal schedules and names the violations of others.

use edbatch_graph::{Dag, Kind, NodeId, PlainDag, Schedule, Violation, parse_text};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::dags::{graphs, plain_dags};

/// A naive scheduler: `pick` chooses a kind with ready nodes, and all of them form a batch.
fn greedy(dag: &impl Dag, mut pick: impl FnMut(&[Kind]) -> Kind) -> Vec<(Kind, Vec<NodeId>)> {
    let mut ran = vec![false; dag.nodes()];
    let mut batches = Vec::new();
    loop {
        let nodes = (0..dag.nodes()).map(NodeId::new);
        let ready: Vec<NodeId> = nodes
            .filter(|node| !ran[node.index()] && dag.arguments(*node).all(|a| ran[a.index()]))
            .collect();
        if ready.is_empty() {
            return batches;
        }
        let kinds: Vec<Kind> = ready.iter().map(|&node| dag.kind(node)).collect();
        let kind = pick(&kinds);
        let of_kind = |node: &NodeId| dag.kind(*node) == kind;
        let batch: Vec<NodeId> = ready.into_iter().filter(of_kind).collect();
        for node in &batch {
            ran[node.index()] = true;
        }
        batches.push((kind, batch));
    }
}

fn schedule_of(batches: &[(Kind, Vec<NodeId>)]) -> Schedule {
    let mut schedule = Schedule::new();
    for (kind, nodes) in batches {
        schedule.push(*kind, nodes);
    }
    schedule
}

/// The violation after `mutate` has changed a legal schedule, with the node and its batch.
fn violation(
    dag: &PlainDag,
    mutate: impl FnOnce(&mut Vec<(Kind, Vec<NodeId>)>),
) -> (Violation, NodeId, usize) {
    let mut batches = greedy(dag, |kinds| kinds[0]);
    mutate(&mut batches);
    let error = schedule_of(&batches).check(dag).expect_err("a mutation");
    (error.what, error.node, error.batch as usize)
}

fn is_too_early(what: Violation) -> bool {
    matches!(what, Violation::TooEarly { .. })
}

proptest! {
    #[test]
    fn every_greedy_schedule_is_legal(
        dag in plain_dags(),
        graph in graphs(),
        picks in prop::collection::vec(any::<Index>(), 100),
    ) {
        let mut at = 0;
        let mut pick = |kinds: &[Kind]| {
            at += 1;
            kinds[picks[at % picks.len()].index(kinds.len())]
        };
        prop_assert_eq!(schedule_of(&greedy(&dag, &mut pick)).check(&dag), Ok(()));
        prop_assert_eq!(schedule_of(&greedy(&graph, &mut pick)).check(&graph), Ok(()));
    }

    #[test]
    fn every_mutation_is_found(dag in plain_dags(), which in any::<Index>()) {
        prop_assume!(dag.nodes() > 0);
        let node = NodeId::new(which.index(dag.nodes()));
        let kind = dag.kind(node);
        let legal = greedy(&dag, |kinds| kinds[0]);
        let ran_in = |node: NodeId| {
            legal.iter().position(|(_, nodes)| nodes.contains(&node)).expect("it ran")
        };
        let batch = ran_in(node);
        let has_users = (0..dag.nodes())
            .any(|user| dag.arguments(NodeId::new(user)).any(|argument| argument == node));

        let (what, blamed, _) = violation(&dag, |batches| {
            batches[batch].1.retain(|&other| other != node);
        });
        match what {
            Violation::Never => prop_assert!(!has_users && blamed == node),
            what => prop_assert_eq!(what, Violation::TooEarly { argument: node }),
        }

        let doubled = violation(&dag, |batches| batches.push((kind, vec![node])));
        prop_assert_eq!(doubled, (Violation::Twice, node, legal.len()));

        let other = Kind((kind.0 + 1) % 7);
        let wrong = violation(&dag, |batches| batches[batch].0 = other);
        let first = legal[batch].1[0];
        let expected = Violation::OtherKind { batch: other, node: kind };
        prop_assert_eq!(wrong, (expected, first, batch));

        let unknown = NodeId::new(dag.nodes());
        let added = violation(&dag, |batches| batches[batch].1.insert(0, unknown));
        prop_assert_eq!(added, (Violation::NoSuchNode, unknown, batch));

        if let Some(argument) = dag.arguments(node).next() {
            let earlier = ran_in(argument);
            let (what, ..) = violation(&dag, |batches| batches.swap(earlier, batch));
            prop_assert!(is_too_early(what));
            // A node in the same batch as its argument is also too early.
            if dag.kind(argument) == kind {
                let (what, ..) = violation(&dag, |batches| {
                    batches[batch].1.retain(|&other| other != node);
                    batches[earlier].1.push(node);
                });
                prop_assert!(is_too_early(what));
            }
        }
    }
}

#[test]
fn violations_are_named() {
    let check = |batches: &[(u16, &[u32])], expected: &str| {
        let dag = parse_text("3\n0 0\n0 0\n1 2 0 1\n").unwrap();
        let mut schedule = Schedule::new();
        for &(kind, nodes) in batches {
            let nodes: Vec<NodeId> = nodes.iter().map(|&node| NodeId(node)).collect();
            schedule.push(Kind(kind), &nodes);
        }
        let message = schedule.check(&dag).map_or_else(|e| e.to_string(), |()| "legal".into());
        assert_eq!(message, expected, "of\n{schedule}");
    };
    check(&[(0, &[0, 1]), (1, &[2])], "legal");
    check(&[(0, &[1, 0]), (0, &[]), (1, &[2])], "legal");
    check(&[(0, &[0]), (1, &[2])], "batch 1, node n2: runs before its argument n1");
    check(&[(0, &[0, 1])], "batch 1, node n2: never runs");
    check(&[(0, &[0, 1, 0])], "batch 0, node n0: runs a second time");
    check(&[(1, &[0])], "batch 0, node n0: has kind k0 in a batch of kind k1");
    check(&[(0, &[3])], "batch 0, node n3: not in the graph");
}
