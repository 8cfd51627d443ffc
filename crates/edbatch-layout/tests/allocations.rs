//! Planning allocates nothing after the largest mini-batch.

use edbatch_graph::{Dag, NodeId, Value};
use edbatch_layout::{CellStyle, MiniBatch, Plan, Planner, Program, Want};
use edbatch_testing::{CountingAllocator, Subject, allocations};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Plans a graph twice: with one wanted value, so that rows are reused, and with all values wanted.
fn plan(subject: &Subject, program: &Program, planner: &mut Planner, plan: &mut Plan) {
    let (graph, schedule) = (&subject.graph, &subject.schedule);
    let nodes = (0..graph.nodes()).map(NodeId::new);
    let all: Vec<(Value, Want)> = nodes.map(|node| (node.into(), Want::Elements)).collect();
    for wanted in [&all[all.len() - 1..], &all] {
        planner.plan(&MiniBatch { program, graph, schedule, wanted }, plan).expect("small graphs");
    }
}

#[test]
fn planning_again_allocates_nothing() {
    for seed in 0..20 {
        let subject = Subject::random(seed);
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        let (mut planner, mut made) = (Planner::default(), Plan::default());
        // The one allocation is this test's list of wanted values.
        let mut again = || allocations(|| plan(&subject, &program, &mut planner, &mut made));
        assert!(again() > 1, "the first time allocates");
        assert_eq!(again(), 1, "seed {seed}");
    }
}
