//! The scheduler of an engine: its default, and with a policy.

use edbatch_graph::{Batch, Dag, Kind, NodeId, PlainDag, Schedule};
use edbatch_policy::{ByDepth, Critical, Depth, InOrder, Scheduler, lower_bound, schedule};
use proptest::prelude::*;

use crate::support;

/// The same graph without arguments of larger kinds, so that its kinds have an order.
fn ordered(dag: &PlainDag) -> PlainDag {
    let mut ordered = PlainDag::new(dag.kind_names().to_vec());
    for node in (0..dag.nodes()).map(NodeId::new) {
        let kind = dag.kind(node);
        let earlier = dag.arguments(node).filter(|&a| dag.kind(a) <= kind);
        ordered.push(kind, &earlier.collect::<Vec<_>>()).unwrap();
    }
    ordered
}

proptest! {
    #[test]
    fn in_order_schedules_all_graphs_whose_kinds_have_an_order(
        dags in prop::collection::vec(support::dags(150, 4), 1..4),
    ) {
        let (mut in_order, mut schedule) = (InOrder::default(), Schedule::new());
        for dag in &dags {
            let found = in_order.schedule(dag, &mut schedule);
            assert_eq!(found, support::kinds_have_an_order(dag));
            assert_eq!(schedule.is_empty(), !found || dag.nodes() == 0);
            if found {
                schedule.check(dag).unwrap();
                assert_eq!(schedule.len(), lower_bound(dag));
            }
        }
    }

    /// That is optimal, and so is `Critical`.
    #[test]
    fn default_runs_kind_after_kind_if_kinds_have_an_order(dag in support::dags(40, 5)) {
        let dag = ordered(&dag);
        assert!(support::kinds_have_an_order(&dag));
        let mut batches = Schedule::new();
        Scheduler::default().schedule(&dag, &mut batches);
        batches.check(&dag).unwrap();
        assert_eq!(batches.len(), lower_bound(&dag));
        assert_eq!(schedule(&dag, &mut Critical::new()).len(), lower_bound(&dag));
        let mut kinds: Vec<Kind> = batches.batches().map(|batch| batch.kind).collect();
        kinds.dedup();
        let changes = kinds.len();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), changes, "a kind runs in two places");
    }

    /// Graphs with and without an order alternate. A fork makes the same schedules.
    #[test]
    fn default_uses_critical_if_kinds_have_no_order(dags in prop::collection::vec(support::dags(80, 4), 1..4)) {
        let mut scheduler = Scheduler::default();
        let (mut batches, mut others) = (Schedule::new(), Schedule::new());
        for dag in dags.iter().flat_map(|dag| [dag.clone(), ordered(dag)]) {
            scheduler.schedule(&dag, &mut batches);
            if !support::kinds_have_an_order(&dag) {
                assert_eq!(batches, schedule(&dag, &mut Critical::new()));
            }
            scheduler.fork().schedule(&dag, &mut others);
            assert_eq!(batches, others);
        }
    }

    /// If kinds have an order, these are the batches of `InOrder`.
    #[test]
    fn by_depth_makes_a_batch_for_each_kind_and_level_in_its_component(
        dags in prop::collection::vec(support::dags(80, 4), 1..4),
    ) {
        let mut by_depth = ByDepth::default();
        let (mut batches, mut in_order) = (Schedule::new(), Schedule::new());
        for dag in dags.iter().flat_map(|dag| [dag.clone(), ordered(dag)]) {
            assert!(by_depth.schedule(&dag, &mut batches));
            batches.check(&dag).unwrap();
            let levels = support::levels_in_components(&dag);
            let mut batch_of: Vec<_> = (0..dag.nodes())
                .map(|node| (dag.kind(NodeId::new(node)), levels[node]))
                .collect();
            for batch in batches.batches() {
                let of = |node: &NodeId| batch_of[node.index()];
                assert!(batch.nodes.iter().all(|node| of(node) == of(&batch.nodes[0])));
            }
            batch_of.sort_unstable();
            batch_of.dedup();
            assert_eq!(batches.len(), batch_of.len(), "a batch for each kind and level");
            let sorted = |schedule: &Schedule| -> Vec<(Kind, Vec<NodeId>)> {
                let batch = |batch: Batch<'_>| {
                    let mut nodes = batch.nodes.to_vec();
                    nodes.sort_unstable();
                    (batch.kind, nodes)
                };
                schedule.batches().map(batch).collect()
            };
            let chosen = schedule(&dag, &mut ByDepth::default());
            assert!(sorted(&chosen) == sorted(&batches), "the policy makes the same batches");
            if InOrder::default().schedule(&dag, &mut in_order) {
                assert_eq!(batches.len(), in_order.len());
                let mut kinds: Vec<Kind> = batches.batches().map(|batch| batch.kind).collect();
                kinds.dedup();
                assert!(kinds.len() <= dag.kinds(), "a kind runs in two places");
            }
        }
    }

    #[test]
    fn scheduler_with_a_policy_always_uses_it(dag in support::dags(60, 4)) {
        for dag in [ordered(&dag), dag] {
            let mut scheduler = Scheduler::by(Box::new(Depth::new()));
            let expected = schedule(&dag, &mut Depth::new());
            let mut batches = Schedule::new();
            scheduler.schedule(&dag, &mut batches);
            assert_eq!(batches, expected);
            scheduler.fork().schedule(&dag, &mut batches);
            assert_eq!(batches, expected);
        }
    }
}
