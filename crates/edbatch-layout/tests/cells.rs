//! The plans of the paper's cells, and what they copy.

use std::sync::Arc;

use edbatch_graph::Kind;
use edbatch_layout::{
    CellCosts, CellStyle, Compared, PAPER_CELLS, Program, cell_costs, cell_dot, inner_batches,
    paper_cell,
};

fn program(name: &str, style: CellStyle) -> Program {
    let network = paper_cell(name, 64).unwrap().unwrap();
    Program::new(Arc::new(network), style).unwrap()
}

fn costs(name: &str) -> CellCosts {
    let program = program(name, CellStyle::Planned);
    let batches = inner_batches(&program.network().cells()[0]);
    cell_costs(&program, Kind(0), &batches, 8)
}

#[test]
fn planned_is_never_worse_than_declared() {
    for name in PAPER_CELLS {
        let CellCosts { paper_rule, own_rule, copied, .. } = costs(name);
        for compared in [paper_rule, own_rule] {
            let Compared { declared, planned } = compared;
            assert!(planned.kernels <= declared.kernels, "{name}: {compared:?}");
            assert!(planned.bytes <= declared.bytes, "{name}: {compared:?}");
        }
        assert!(
            copied.iter().all(|copied| copied.why.contains("positions read")),
            "{name}: {copied:?}"
        );
        let steps = |style| program(name, style).cell(Kind(0)).steps.len();
        assert!(steps(CellStyle::Planned) <= steps(CellStyle::Declaration), "{name}");
    }
}

/// The stacks of both children share i, o and u: an order keeps them together in both.
#[test]
fn a_tree_lstm_node_has_three_products() {
    let program = program("TreeLSTM-Internal", CellStyle::Planned);
    let plan = program.cell(Kind(0)).to_string();
    assert_eq!(plan.matches(" = (w").count() + plan.matches(" += (w").count(), 3, "{plan}");
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
