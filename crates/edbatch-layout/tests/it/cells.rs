//! The plans of the paper's cells, and their copies.

use std::sync::Arc;

use edbatch_graph::{Kind, Network, Schedule, Shape};
use edbatch_layout::{
    CellStyle, Moved, PAPER_CELLS, Program, batches_of, cell_dot, check_cell, inner_batches,
    paper_cell, paper_rule,
};
use edbatch_testing::STYLES;

fn program(name: &str, style: CellStyle) -> Program {
    let network = paper_cell(name, 64).unwrap().unwrap();
    Program::new(Arc::new(network), style).unwrap()
}

fn moved(program: &Program) -> Moved {
    program.cell(Kind(0)).moved(8)
}

#[test]
fn every_style_computes_the_declared_equations() {
    for name in PAPER_CELLS {
        for style in STYLES {
            // The checker is slow for the matrices of larger cells.
            let network = paper_cell(name, 8).unwrap().unwrap();
            let program = Program::new(Arc::new(network), style).unwrap();
            check_cell(&program, Kind(0), program.cell(Kind(0))).unwrap();
        }
    }
}

#[test]
fn a_planned_cell_copies_no_more_than_a_declared_one() {
    for name in PAPER_CELLS {
        let network = paper_cell(name, 64).unwrap().unwrap();
        let cell = &network.cells()[0];
        let compared = paper_rule(cell, &inner_batches(cell), 8);
        assert!(compared.planned.kernels <= compared.declared.kernels, "{name}: {compared:?}");
        assert!(compared.planned.bytes <= compared.declared.bytes, "{name}: {compared:?}");
        let [_, planned, paper, batched, declared] = STYLES.map(|style| program(name, style));
        assert!(moved(&paper) <= moved(&declared), "{name}");
        assert!(moved(&paper) <= moved(&batched), "{name}");
        assert!(moved(&planned) <= moved(&declared), "{name}");
        let steps = |program: &Program| program.cell(Kind(0)).steps.len();
        assert!(steps(&planned) <= steps(&paper), "{name}");
        assert!(steps(&paper) <= steps(&declared), "{name}");
    }
}

/// The copies that `Program::copied` reports are those that `CellPlan::moved` counts.
#[test]
fn reported_copies_match_the_plan() {
    for name in PAPER_CELLS {
        for style in STYLES {
            let program = program(name, style);
            let copied = program.copied(Kind(0));
            let bytes: u64 = copied.iter().map(|copied| 8 * copied.bytes).sum();
            assert_eq!(Moved { bytes, kernels: copied.len() }, moved(&program), "{name}");
        }
    }
}

/// Stacking the products of x would store a next to b, and the step that adds u2 a to b reads a.
#[test]
fn products_are_not_stacked_if_that_costs_a_copy() {
    let mut network = Network::new();
    let x = network.record("x", [("x", Shape::Vector(64))]).unwrap();
    let declared = network.cell("cell", x, |cell| {
        let [x] = cell.one("x", x);
        let matrix = |name: &str| cell.parameter(name, &[64, 64]);
        let a = matrix("w1").matmul(x);
        let b = matrix("w2").matmul(x) + matrix("u2").matmul(a);
        vec![a.tanh() * b.tanh()]
    });
    declared.unwrap();
    let network = Arc::new(network);
    for style in STYLES {
        let program = Program::new(network.clone(), style).unwrap();
        check_cell(&program, Kind(0), program.cell(Kind(0))).unwrap();
        let expected = if style == CellStyle::Batched { 2 * 64 * 4 * 8 } else { 0 };
        assert_eq!(moved(&program).bytes, expected, "{style:?}: {}", program.cell(Kind(0)));
    }
}

/// Each batch of an LSTM is a kernel, except the products: they are one kernel for each vector.
#[test]
fn an_lstm_in_the_papers_layout_copies_nothing() {
    let program = program("LSTMCell", CellStyle::Paper);
    let plan = program.cell(Kind(0)).to_string();
    assert_eq!(plan.lines().count() - 1, 2 + 8, "{plan}");
    assert_eq!(moved(&program), Moved::default());
}

/// The stacks of both children share i, o and u, which are contiguous in both.
#[test]
fn a_tree_lstm_node_has_three_products() {
    let program = program("TreeLSTM-Internal", CellStyle::Planned);
    let plan = program.cell(Kind(0)).to_string();
    assert_eq!(plan.matches(" = (w").count() + plan.matches(" += (w").count(), 3, "{plan}");
}

#[test]
#[should_panic(expected = "the schedule of cell LSTMCell")]
fn an_incomplete_schedule_panics() {
    let network = paper_cell("LSTMCell", 8).unwrap().unwrap();
    let _ = batches_of(&network.cells()[0], &Schedule::new());
}

#[test]
fn a_step_of_a_cell_stays_small() {
    // Small batches are slower if their steps take more lines of the cache.
    assert!(size_of::<edbatch_layout::CellStep>() <= 88);
}

#[test]
fn a_picture_shows_every_gate() {
    let program = program("TreeLSTM-Internal", CellStyle::Planned);
    let dot = cell_dot(&program, Kind(0));
    for gate in ["u_l_i", "u_r_i", "u_f_l", "u_f_r", "left.h", "right.c"] {
        assert!(dot.contains(gate), "{gate}: {dot}");
    }
    assert_eq!(dot.matches("red").count(), 0);
}
