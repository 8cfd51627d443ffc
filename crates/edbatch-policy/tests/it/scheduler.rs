//! The scheduler of an engine: its default, and with a policy.

use edbatch_graph::{Arguments, Batch, Dag, DagError, Kind, NodeId, PlainDag, Schedule, check_dag};
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

/// Returns true if all batches of a kind are adjacent.
fn runs_kind_after_kind(batches: &Schedule) -> bool {
    let mut kinds: Vec<Kind> = batches.batches().map(|batch| batch.kind).collect();
    kinds.dedup();
    let runs = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() == runs
}

proptest! {
    /// The schedules are optimal, and so are the schedules of `Critical`.
    #[test]
    fn in_order_schedules_all_graphs_whose_kinds_have_an_order(
        dags in prop::collection::vec(support::dags(150, 4), 1..4),
    ) {
        let (mut in_order, mut batches) = (InOrder::default(), Schedule::new());
        for dag in dags.iter().flat_map(|dag| [dag.clone(), ordered(dag)]) {
            let found = in_order.schedule(&dag, &mut batches);
            assert_eq!(found, support::kinds_have_an_order(&dag));
            assert_eq!(batches.is_empty(), !found || dag.nodes() == 0);
            if found {
                batches.check(&dag).unwrap();
                assert_eq!(batches.len(), lower_bound(&dag));
                assert!(runs_kind_after_kind(&batches));
                assert_eq!(schedule(&dag, &mut Critical::new()).len(), lower_bound(&dag));
            }
        }
    }

    /// Graphs with and without an order alternate. A fork makes the same schedules.
    #[test]
    fn default_is_in_order_or_else_critical(
        dags in prop::collection::vec(support::dags(80, 4), 1..4)
    ) {
        let mut scheduler = Scheduler::default();
        let (mut batches, mut others) = (Schedule::new(), Schedule::new());
        for dag in dags.iter().flat_map(|dag| [dag.clone(), ordered(dag)]) {
            scheduler.schedule(&dag, &mut batches);
            if !InOrder::default().schedule(&dag, &mut others) {
                others = schedule(&dag, &mut Critical::new());
            }
            assert_eq!(batches, others);
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
                assert!(runs_kind_after_kind(&batches));
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

/// The kind and the arguments of each node, over two kinds.
struct Unchecked(&'static [(u16, &'static [NodeId])]);

impl Dag for Unchecked {
    fn nodes(&self) -> usize {
        self.0.len()
    }

    fn kinds(&self) -> usize {
        2
    }

    fn kind(&self, node: NodeId) -> Kind {
        Kind(self.0[node.index()].0)
    }

    fn arguments(&self, node: NodeId) -> Arguments<'_> {
        self.0[node.index()].1.into()
    }
}

#[test]
fn invalid_graph_is_rejected_by_check_dag_and_by_debug_builds() {
    let not_earlier = |node, argument| {
        Err(DagError::NotEarlier { node: NodeId(node), argument: NodeId(argument) })
    };
    let unknown = DagError::UnknownKind { node: NodeId(1), kind: Kind(2), kinds: 2 };
    let cases: [(Unchecked, _); 5] = [
        (Unchecked(&[(0, &[]), (1, &[NodeId(0), NodeId(0)])]), Ok(())),
        (Unchecked(&[(0, &[NodeId(1)]), (1, &[NodeId(0)])]), not_earlier(0, 1)),
        (Unchecked(&[(0, &[]), (1, &[NodeId(1)])]), not_earlier(1, 1)),
        (Unchecked(&[(0, &[NodeId(7)])]), not_earlier(0, 7)),
        (Unchecked(&[(0, &[]), (2, &[])]), Err(unknown)),
    ];
    for (dag, expected) in &cases {
        assert_eq!(check_dag(dag), *expected);
        let by_default = || Scheduler::default().schedule(dag, &mut Schedule::new());
        let by_policy = || drop(schedule(dag, &mut Critical::new()));
        let runs: [&dyn Fn(); 2] = [&by_default, &by_policy];
        for run in runs.iter().filter(|_| cfg!(debug_assertions)) {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).err();
            let message = panic.map(|panic| *panic.downcast::<String>().unwrap());
            assert_eq!(message, expected.err().map(|error| format!("invalid graph: {error}")));
        }
    }
}
