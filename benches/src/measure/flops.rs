//! Floating-point operations of a graph: two for each multiply-add of its matrix products.
//!
//! Element-wise operations, padding and look-ups are not counted. [`flops`] counts the equations,
//! independent of what a backend merges or hoists; [`executed_flops`] counts what a plan executes.

use edbatch_graph::{Cell, Dag, Graph, NodeId, Op};
use edbatch_layout::{CellStep, Plan, Program};

/// Returns the FLOPs of all calls of a graph.
pub fn flops(graph: &Graph) -> u64 {
    let cells: Vec<u64> = graph.network().cells().iter().map(cell_flops).collect();
    (0..graph.nodes()).map(|node| cells[graph.kind(NodeId::new(node)).index()]).sum()
}

/// Returns the FLOPs of one call of a cell.
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

/// Returns the FLOPs that a plan executes: fewer than [`flops`] if products of table rows are
/// computed once per distinct row.
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
