//! Hoisting: operations that depend on a single argument run once per distinct row, or for many
//! calls at once.

use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::*;
use edbatch_datasets::{Sentence, parse_binary_trees};
use edbatch_graph::{Graph, Kind, Network, NodeId, Schedule, Shape};
use edbatch_layout::{
    Action, Base, CellStep, CellStyle, Lifetimes, MiniBatch, Planner, Program, Step, check_cell,
};
use edbatch_policy::Scheduler;
use edbatch_testing::planned;

use crate::fn_model::random;
use crate::small::{TREES, nmt, sentence, tagger};

/// Returns the cell and the number of rows of every hoisting step in the first graph of a
/// mini-batch.
fn hoisted<M: Model>(model: M, inputs: &[M::Input]) -> Vec<(String, u32)> {
    let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
    for (kind, cell) in program.cells().iter().enumerate() {
        check_cell(&program, Kind::new(kind), cell).unwrap();
    }
    let parameters = random(model.network(), 1);
    let graph = Engine::new(model, parameters).unwrap().graphs(inputs).unwrap().remove(0);
    let mut schedule = Schedule::new();
    Scheduler::default().schedule(&graph, &mut schedule);
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &[] };
    let plan = planned(&mut Planner::default(), &mini_batch);
    let hoists = plan.steps.iter().filter(|step| matches!(step.action, Action::Hoist));
    hoists.map(|step| (program.network()[step.cell].name().to_string(), step.calls)).collect()
}

fn named(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    expected.iter().map(|&(name, rows)| (name.to_string(), rows)).collect()
}

fn sentences(count: usize) -> Vec<Sentence<u32>> {
    // Of five words, three are distinct.
    vec![sentence([1, 2, 3, 2, 1]); count]
}

#[test]
fn a_layer_multiplies_all_outputs_of_the_layer_below_at_once() {
    let expected = [("fwd.0", 3), ("fwd.1", 5), ("bwd.0", 3), ("bwd.1", 5)];
    assert_eq!(hoisted(tagger(2), &sentences(1)), named(&expected));
    let expected = [("fwd.0", 3), ("fwd.1", 45), ("bwd.0", 3), ("bwd.1", 45)];
    assert_eq!(hoisted(tagger(2), &sentences(9)), named(&expected));
}

/// A chain of words with a table row each, and the steps of its plan: `h` and the number of rows
/// for a prologue, `b` for a batch of one call.
fn steps_of_chain(rows: &[u32], planner: &mut Planner) -> String {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(4))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    let cell = network.cell("word", state, |cell| {
        let (x, [h]) = (cell.lookup("row", "words", &[2000, 4]), cell.one("previous", state));
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[4, 4]));
        vec![(w.matmul(x) + u.matmul(h)).tanh()]
    });
    let (kind, network) = (cell.unwrap(), Arc::new(network));
    let program = Program::new(network.clone(), CellStyle::Hoisted).unwrap();
    let (mut graph, mut schedule, mut state) = (Graph::new(network), Schedule::new(), start);
    for (node, &row) in rows.iter().enumerate() {
        state = graph.call(kind, &[row], &[state]).unwrap();
        schedule.push(kind, &[NodeId::new(node)]);
    }
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &[] };
    let plan = planned(planner, &mini_batch);
    let step = |step: &Step| match step.action {
        Action::Hoist => format!("h{}", step.calls),
        _ => "b".into(),
    };
    plan.steps.iter().map(step).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_table_is_hoisted_in_blocks_before_the_first_batch_that_names_a_row_of_the_block() {
    let steps = |rows: &[u32]| steps_of_chain(rows, &mut Planner::default().block(2));
    assert_eq!(steps(&[5, 5, 3, 5, 9, 3, 1]), "h2 b b b b h2 b b b");
    assert_eq!(steps(&[5, 3, 9, 3]), "h2 b b h1 b b");
    assert_eq!(steps(&[7]), "h1 b");
}

#[test]
fn blocks_have_256_rows_and_rows_that_are_not_freed_are_hoisted_at_once() {
    let rows: Vec<u32> = (0..600).rev().collect();
    let batches = |count: usize| " b".repeat(count);
    let blocks = steps_of_chain(&rows, &mut Planner::default());
    assert_eq!(blocks, format!("h256{0} h256{0} h88{1}", batches(256), batches(88)));
    let at_once = steps_of_chain(&rows, &mut Planner::new(Lifetimes::Distinct));
    assert_eq!(at_once, format!("h600{}", batches(600)));
}

#[test]
fn batches_are_joined_until_they_have_enough_calls() {
    // Five batches of 15 calls are joined: four have fewer than 64 calls.
    let expected = [("fwd.0", 3), ("fwd.1", 75), ("bwd.0", 3), ("bwd.1", 75)];
    assert_eq!(hoisted(tagger(2), &sentences(15)), named(&expected));
    // Batches of 16 calls are not joined.
    let expected = [("fwd.0", 3), ("bwd.0", 3)];
    assert_eq!(hoisted(tagger(2), &sentences(16)), named(&expected));
}

#[test]
fn the_projection_of_a_word_is_hoisted_with_its_dependents() {
    let program = Program::new(nmt().network().clone(), CellStyle::Hoisted).unwrap();
    let encoder = program.cells().iter().find(|cell| cell.name == "encoder").unwrap();
    let hoisted = encoder.hoisted.as_ref().unwrap();
    assert_eq!(hoisted.from, Base::Table(0));
    // The projection, its tanh, and the product with all four gates' input weights.
    assert_eq!(hoisted.prologue.steps.len(), 3, "{}", hoisted.prologue);
    // The product with the state's weights, added to the hoisted row, and the rest of the LSTM.
    assert_eq!(hoisted.body.steps.len(), 2, "{}", hoisted.body);
    assert_eq!(hoisted.prologue.output_width, 4 * 4);
}

/// A product of several gates is hoisted whole, although the body uses only some of them.
#[test]
fn both_products_of_a_gated_leaf_are_hoisted() {
    let model = TreeGru::new(TREES).unwrap();
    let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
    let hoisted = program.cells()[0].hoisted.as_ref().unwrap();
    let products = |steps: &[CellStep]| {
        steps.iter().filter(|step| matches!(step, CellStep::Product { .. })).count()
    };
    let (prologue, body) = (&hoisted.prologue, &hoisted.body);
    assert_eq!((products(&prologue.steps), products(&body.steps)), (2, 0), "{prologue}{body}");
}

#[test]
fn arguments_of_the_same_kind_are_not_hoisted() {
    // The left child is a node on every level except the lowest.
    let text = "(0 (0 (0 (0 (0 a) (0 b)) (0 c)) (0 d)) (0 e))";
    let tree = parse_binary_trees(text.as_bytes(), "a tree").next().unwrap().unwrap();
    let tree = tree.map(|_| 0, |_| 1);
    let hoisted = hoisted(TreeLstm::new(TREES).unwrap(), &[tree]);
    assert!(hoisted.iter().all(|(name, _)| name == "leaf"), "{hoisted:?}");
}
