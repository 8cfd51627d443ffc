//! Equations that several models share: LSTM, GRU and linear layer.

use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor};

/// Declares the state of an LSTM: the hidden vector `h` and the memory `c`, both `[hidden]`.
pub(crate) fn lstm_state(network: &mut Network, hidden: usize) -> Result<RecordId, CellError> {
    network.record("state", [("h", vector(hidden)?), ("c", vector(hidden)?)])
}

/// Declares the record `logits`: a score for each class, `[classes]`.
pub(crate) fn logits(network: &mut Network, classes: usize) -> Result<RecordId, CellError> {
    network.record("logits", [("logits", vector(classes)?)])
}

/// Declares the cell `output`: a linear layer from the first field of `record`, which the port
/// `port` reads, to a score for each class.
pub(crate) fn output(
    network: &mut Network,
    port: &str,
    record: RecordId,
    classes: usize,
) -> Result<Kind, CellError> {
    let scores = logits(network, classes)?;
    network.cell("output", scores, |cell| {
        vec![linear(cell, "out", classes, cell.one_vec(port, record)[0])]
    })
}

pub(crate) fn vector(elements: usize) -> Result<Shape, CellError> {
    let expected = "at least one element and fewer than 2^31";
    let at = format!("vector of {elements}");
    Shape::new(&[elements]).ok_or_else(|| CellError::new("", at, &[], expected))
}

/// One step of an LSTM with parameters `{prefix}.w_g`, `u_g`, `b_g` for each gate g.
///
/// `x` is (in), `h` and `c` are (hidden). Returns the next `h` and `c`.
pub(crate) fn lstm<'c>(
    cell: &'c CellBuilder,
    prefix: &str,
    x: Tensor<'c>,
    [h, c]: [Tensor<'c>; 2],
) -> Vec<Tensor<'c>> {
    let gate = |g| {
        weight(cell, &format!("{prefix}.w_{g}"), h, x).matmul(x)
            + weight(cell, &format!("{prefix}.u_{g}"), h, h).matmul(h)
            + bias(cell, &format!("{prefix}.b_{g}"), h)
    };
    let [i, f, o] = ["i", "f", "o"].map(|g| gate(g).sigmoid());
    let g = gate("g").tanh();
    let c = f * c + i * g;
    vec![o * c.tanh(), c]
}

/// Declares the state of a GRU: the hidden vector `h`, `[hidden]`.
pub(crate) fn gru_state(network: &mut Network, hidden: usize) -> Result<RecordId, CellError> {
    network.record("state", [("h", vector(hidden)?)])
}

/// One step of a GRU with parameters `{prefix}.w_g`, `u_g`, `b_g` for each gate g.
///
/// `x` is (in), `h` is (hidden). Returns the next `h`.
pub(crate) fn gru<'c>(
    cell: &'c CellBuilder,
    prefix: &str,
    x: Tensor<'c>,
    [h]: [Tensor<'c>; 1],
) -> Vec<Tensor<'c>> {
    let gate = |g, h| {
        weight(cell, &format!("{prefix}.w_{g}"), h, x).matmul(x)
            + weight(cell, &format!("{prefix}.u_{g}"), h, h).matmul(h)
            + bias(cell, &format!("{prefix}.b_{g}"), h)
    };
    let [r, z] = ["r", "z"].map(|g| gate(g, h).sigmoid());
    let c = gate("c", r * h).tanh();
    vec![between(z, h, c)]
}

/// `z ∘ h + (1 - z) ∘ c`, with one multiplication instead of two.
pub(crate) fn between<'c>(z: Tensor<'c>, h: Tensor<'c>, c: Tensor<'c>) -> Tensor<'c> {
    c + z * (h - c)
}

/// Returns `{prefix}.weight · x + {prefix}.bias`. `x` is (in), the result is (rows).
pub(crate) fn linear<'c>(
    cell: &'c CellBuilder,
    prefix: &str,
    rows: usize,
    x: Tensor<'c>,
) -> Tensor<'c> {
    let weight = cell.parameter(&format!("{prefix}.weight"), &[rows, x.shape().elements()]);
    weight.matmul(x) + cell.parameter(&format!("{prefix}.bias"), &[rows])
}

/// Declares a parameter with a row per element of `out` and a column per element of `x`.
pub(crate) fn weight<'c>(
    cell: &'c CellBuilder,
    name: &str,
    out: Tensor<'c>,
    x: Tensor<'c>,
) -> Tensor<'c> {
    cell.parameter(name, &[out.shape().elements(), x.shape().elements()])
}

/// Declares a parameter of the same length as `out`.
pub(crate) fn bias<'c>(cell: &'c CellBuilder, name: &str, out: Tensor<'c>) -> Tensor<'c> {
    cell.parameter(name, &[out.shape().elements()])
}
