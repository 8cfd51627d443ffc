//! Floating-point operations of a graph: two for each multiply-add of its matrix products.
//!
//! Element-wise operations, padding and look-ups count nothing, and nothing counts twice. What a
//! backend merges or hoists does not change the figure: it is that of the equations. Beside it
//! stands what a plan really executes.

use edbatch_graph::{Cell, Dag, Graph, NodeId, Op};
use edbatch_layout::{CellStep, Plan, Program};

/// The FLOPs of all calls of a graph.
#[must_use]
pub fn flops(graph: &Graph) -> u64 {
    let cells: Vec<u64> = graph.network().cells().iter().map(cell_flops).collect();
    (0..graph.nodes()).map(|node| cells[graph.kind(NodeId::new(node)).index()]).sum()
}

/// The FLOPs of one call of a cell.
#[must_use]
pub fn cell_flops(cell: &Cell) -> u64 {
    let products = cell.instructions().iter().filter(|instruction| instruction.op == Op::MatMul);
    products
        .map(|product| {
            let (rows, depth) = cell.instruction(product.operands[0]).shape.rows_and_columns();
            let columns = product.shape.rows_and_columns().1;
            2 * (rows * depth * columns) as u64
        })
        .sum()
}

/// The FLOPs that a plan's steps execute: fewer than [`flops`], where what depends on a row of a
/// table alone is computed once per distinct row.
#[must_use]
pub fn executed_flops(program: &Program, plan: &Plan) -> u64 {
    let of = |step: &CellStep| match *step {
        CellStep::Product { rows, width, .. } => 2 * u64::from(rows) * u64::from(width),
        CellStep::MatMul { m, k, n, .. } => 2 * u64::from(m) * u64::from(k) * u64::from(n),
        _ => 0,
    };
    let steps = plan.steps.iter().map(|step| {
        let cell: u64 = program.carried_out(step).steps.iter().map(of).sum();
        u64::from(step.calls) * cell
    });
    steps.sum()
}
