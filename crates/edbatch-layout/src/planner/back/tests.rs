//! Rows of the backward pass that only a training plan has: of wanted values and of pair cells.

use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Dag, Network, Schedule, Shape, Value, training_network};

use super::*;
use crate::check_training;
use crate::plan::Want;

/// Leaves, nodes that take the maximum of any number of values, and marks without parameters, which
/// have no adjoint.
fn program() -> (Program, [Kind; 3]) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(3))]).unwrap();
    let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("word", "embed", &[9, 3])]);
    let node = network.cell("node", state, |cell| {
        let [max] = cell.many("children", state).max();
        vec![cell.parameter("w", &[3, 3]).matmul(max).tanh()]
    });
    let mark = network.cell("mark", state, |cell| vec![cell.constant(1.0, Shape::Vector(3))]);
    let kinds = [leaf, node, mark].map(Result::unwrap);
    let training = training_network(&network, |_| true, |_| false).unwrap();
    (Program::for_training(Arc::new(training)).unwrap(), kinds)
}

/// A schedule with these batches.
fn schedule(graph: &Graph, batches: &[Vec<Value>]) -> Schedule {
    let node = |value: &Value| match value.source() {
        Source::Node(node) => node,
        Source::Given(_) => unreachable!("nothing is given"),
    };
    let mut schedule = Schedule::new();
    for batch in batches {
        let nodes: Vec<NodeId> = batch.iter().map(node).collect();
        schedule.push(graph.kind(nodes[0]), &nodes);
    }
    schedule.check(graph).unwrap();
    schedule
}

/// The elements that the steps of a plan write, in order.
fn written(program: &Program, plan: &Plan) -> Vec<Range<u32>> {
    let rows = |step: &Step| step.out..step.out + step.calls * program.signature(step.cell).stride;
    plan.steps.iter().map(rows).collect()
}

fn are_disjoint(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.end <= other.start || other.end <= one.start
}

#[test]
fn rows_of_wanted_values_stay_until_the_forward_pass_has_ended() {
    let (program, [leaf, node, mark]) = program();
    let mut graph = Graph::new(program.network().clone());
    let marks: Vec<Value> = (0..4).map(|_| graph.call(mark, &[], &[]).unwrap()).collect();
    let mut batches = vec![marks.clone()];
    let mut last = graph.call(leaf, &[1], &[]).unwrap();
    batches.push(vec![last]);
    // Marks have no readers, so that their rows would be free for these nodes.
    for _ in 0..6 {
        last = graph.call(node, &[], &[last]).unwrap();
        batches.push(vec![last]);
    }
    let schedule = schedule(&graph, &batches);
    let wanted: Vec<(Value, Want)> =
        marks.into_iter().chain([last]).map(|value| (value, Want::Elements)).collect();
    let has_gradient = [false, false, false, false, true];
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    Planner::default().plan_training(&mini_batch, &has_gradient, &mut plan).unwrap();
    check_training(&plan, &mini_batch, &has_gradient).unwrap();
    for (ValueRow { record, start }, _) in &plan.forward.wanted[..4] {
        let row = *start..start + program.record(*record).stride;
        let later = &written(&program, &plan.forward)[1..];
        assert!(later.iter().all(|step| are_disjoint(step, &row)), "{row:?}: {later:?}");
    }
}

#[test]
fn rows_of_pair_cells_are_those_of_one_call_and_one_value() {
    let (program, [leaf, node, _]) = program();
    let mut graph = Graph::new(program.network().clone());
    let leaves: Vec<Value> = (0..5).map(|row| graph.call(leaf, &[row], &[]).unwrap()).collect();
    // Calls of one batch with different numbers of values. One value is read by both, and twice.
    let counts: [&[usize]; 3] = [&[0, 1], &[1, 2, 3, 1], &[4]];
    let nodes = counts.map(|children| {
        let values: Vec<Value> = children.iter().map(|&child| leaves[child]).collect();
        graph.call(node, &[], &values).unwrap()
    });
    let root = graph.call(node, &[], &[nodes[0], nodes[1], nodes[2], leaves[0]]).unwrap();
    let schedule = schedule(&graph, &[leaves, nodes.to_vec(), vec![root]]);
    let (wanted, has_gradient) = ([(root, Want::Elements)], [true]);
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    Planner::default().plan_training(&mini_batch, &has_gradient, &mut plan).unwrap();
    check_training(&plan, &mini_batch, &has_gradient).unwrap();

    let written = written(&program, &plan.back);
    for (index, rows) in written.iter().enumerate() {
        assert!(written[..index].iter().all(|other| are_disjoint(rows, other)), "{written:?}");
    }
    // Adjoints and pairs of the root, adjoints and pairs of the nodes, adjoints of the leaves.
    let calls: Vec<u32> = plan.back.steps.iter().map(|step| step.calls).collect();
    assert_eq!(calls, [1, 4, 3, 7, 5]);
    // The gradient of each leaf sums the row of each call that reads it, last calls first.
    let pairs = |step: usize, index: u32| {
        let Step { cell, out, .. } = plan.back.steps[step];
        out + index * program.signature(cell).stride
    };
    let of_leaves = &plan.back.steps[4];
    let operands = &plan.back.operands[of_leaves.operands as usize..];
    let Some(&Operand::Many { ends, rows }) = operands.last() else { panic!("{operands:?}") };
    let list = |at: u32, count: usize| &plan.back.lists[at as usize..][..count];
    assert_eq!(list(ends, 5), [2, 5, 6, 7, 8]);
    let expected = [
        pairs(1, 3),
        pairs(3, 0),
        pairs(3, 5),
        pairs(3, 2),
        pairs(3, 1),
        pairs(3, 3),
        pairs(3, 4),
        pairs(3, 6),
    ];
    let (mut got, mut wanted) = (list(rows, 8).to_vec(), expected.to_vec());
    // Both rows of the second leaf in the second call may come in either order.
    got[2..4].sort_unstable();
    wanted[2..4].sort_unstable();
    assert_eq!(got, wanted);
}
