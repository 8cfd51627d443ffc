//! A network whose cells contain every form of step, and use every result that they compute.

use std::sync::Arc;

use edbatch_graph::{CellBuilder, CellError, Network, Shape, Tensor};
use edbatch_layout::{CellStyle, Program};

/// Compiles all cells in a style.
pub(crate) fn program(style: CellStyle) -> Program {
    Program::new(Arc::new(network().unwrap()), style).unwrap()
}

fn network() -> Result<Network, CellError> {
    let mut network = Network::new();
    let pair = network.record("pair", [("v", Shape::Vector(6)), ("m", Shape::Matrix(3, 4))])?;
    network.cell("vectors", pair, |cell| {
        let [v, m] = cell.one::<2>("pair", pair);
        let [sum, matrices] = cell.many("all", pair).sum();
        let scores = (v / sum.exp()).softmax() + (-v).log_softmax();
        let gate = (product(cell, "w", v) + product(cell, "u", scores)).sigmoid().log();
        let relu = (gate.scale(0.3) - scores).relu();
        let bias = cell.parameter("bias", &[3]);
        vec![relu, (m * cell.constant(0.5, Shape::Vector(1)) + bias) * matrices]
    })?;
    network.cell("matrices", pair, |cell| {
        let [v, m] = cell.one::<2>("pair", pair);
        let [max, matrices] = cell.many("all", pair).max();
        let stacked = cell.concat(&[m, matrices]);
        let biased =
            cell.parameter("left", &[3, 6]).matmul(stacked) + cell.parameter("b", &[3]).tanh();
        let square = biased.matmul(matrices.transpose());
        let columns = square.matmul(cell.constant(0.3, Shape::Vector(3)));
        let apart = (v - max).tanh();
        let parts = cell.concat(&[columns, apart.slice(0, 3) * apart.slice(3, 3)]);
        vec![parts, biased]
    })?;
    network.cell("rows", pair, |cell| {
        let row = cell.lookup("row", "table", &[7, 6]);
        let [v, m] = cell.one::<2>("pair", pair);
        let [mean, matrices] = cell.many("all", pair).mean();
        let projected = product(cell, "a", row).tanh();
        let gates = [product(cell, "p", projected), product(cell, "q", projected)];
        let from = gates[0] + product(cell, "r", v);
        let between = mean + (gates[1] + product(cell, "s", mean)).sigmoid() * (from - mean);
        vec![between, m + matrices]
    })?;
    network.cell("attentive", pair, |cell| {
        let [v, m] = cell.one::<2>("pair", pair);
        let all = cell.many("all", pair);
        let [sums, matrices] = all.log_sum_exp();
        let attended = all.attention(v.tanh(), "v", "v", 2, 0.7);
        let weighted = all.softmax_sum("v", "v");
        let row = m.select(cell.index("row", 3));
        let of_row = cell.parameter("of row", &[6, 4]).matmul(row.layer_norm(0.25));
        let bounded = attended.maximum(weighted.erf()).minimum(sums.exp().sqrt());
        let dots = m.tanh().dot(matrices.rms_norm(0.25));
        let rows = m.softmax() - matrices.log_softmax();
        vec![bounded + of_row, rows.reshape(Shape::Matrix(3, 4)) + dots]
    })?;
    Ok(network)
}

fn product<'c>(cell: &'c CellBuilder, name: &str, x: Tensor<'c>) -> Tensor<'c> {
    cell.parameter(name, &[6, 6]).matmul(x)
}
