//! The seven cells of the paper's table of memory costs, as networks of one cell each.
//!
//! The paper names the cells without equations. These are the textbook equations, with inputs of
//! the same size as the state (E = H). Where variants exist, we use the one that agrees with the
//! paper's figures: a bias for each gate; in the TreeGRU, separate gates for each child, and a leaf
//! that is a node with only its embedding as a child.
//!
//! *Source*: Cho et al. (2014) for the GRU; Hochreiter and Schmidhuber (1997) for the LSTM; Socher
//! et al. (2012) for the matrix-vector cell; Tai, Socher and Manning (2015) for the TreeLSTM.

use edbatch_graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor};

/// The names of the cells, as in the paper's table.
pub const PAPER_CELLS: [&str; 7] = [
    "GRUCell",
    "LSTMCell",
    "MVCell",
    "TreeGRU-Internal",
    "TreeGRU-Leaf",
    "TreeLSTM-Internal",
    "TreeLSTM-Leaf",
];

/// Returns a network with one cell of the paper's table and vectors of `size` elements, or `None`
/// if the name is unknown.
///
/// # Errors
/// If the size is zero or too large.
pub fn paper_cell(name: &str, size: usize) -> Option<Result<Network, CellError>> {
    let declare = match name {
        "GRUCell" => gru,
        "LSTMCell" => lstm,
        "MVCell" => matrix_vector,
        "TreeGRU-Internal" => tree_gru_internal,
        "TreeGRU-Leaf" => tree_gru_leaf,
        "TreeLSTM-Internal" => tree_lstm_internal,
        "TreeLSTM-Leaf" => tree_lstm_leaf,
        _ => return None,
    };
    let mut network = Network::new();
    Some(declare(&mut network, name, size).map(|_| network))
}

type Declared = Result<Kind, CellError>;

fn gru(network: &mut Network, name: &str, size: usize) -> Declared {
    let [x, state] = [vector(network, "x", size)?, vector(network, "state", size)?];
    network.cell(name, state, |cell| {
        let ([x], [h]) = (cell.one("x", x), cell.one("h", state));
        let gate = |g, h| product(cell, "w", g, x) + product(cell, "u", g, h) + bias(cell, g, h);
        let [r, z] = ["r", "z"].map(|g| gate(g, h).sigmoid());
        let (reset, kept) = (r * h, z * h);
        let n = gate("n", reset).tanh();
        vec![kept + (ones(cell, h) - z) * n]
    })
}

fn lstm(network: &mut Network, name: &str, size: usize) -> Declared {
    let [x, state] = [vector(network, "x", size)?, lstm_state(network, size)?];
    network.cell(name, state, |cell| {
        let ([x], [h, c]) = (cell.one("x", x), cell.one("state", state));
        let dims = [size, size];
        let weights = ["i", "f", "g", "o"].map(|g| {
            let named = |prefix: &str, dims| cell.parameter(&format!("{prefix}_{g}"), dims);
            (named("w", &dims), named("u", &dims), named("b", &dims[..1]))
        });
        let of_x = weights.map(|(w, ..)| w.matmul(x));
        let of_h = weights.map(|(_, u, _)| u.matmul(h));
        let gate = |index: usize| of_x[index] + of_h[index] + weights[index].2;
        let [i, f, g, o] = [0, 1, 2, 3].map(gate);
        let c = f.sigmoid() * c + i.sigmoid() * g.tanh();
        vec![o.sigmoid() * c.tanh(), c]
    })
}

/// A vector `a` and a matrix `A` for each phrase: `p = tanh(W [B a ; A b] + w)`, `P = V [A ; B]`.
fn matrix_vector(network: &mut Network, name: &str, size: usize) -> Declared {
    let fields = [("vector", shape(&[size])?), ("matrix", shape(&[size, size])?)];
    let phrase = network.record("phrase", fields)?;
    network.cell(name, phrase, |cell| {
        let ([a, m_a], [b, m_b]) = (cell.one("left", phrase), cell.one("right", phrase));
        let modified = cell.concat(&[m_b.matmul(a), m_a.matmul(b)]);
        let both = cell.concat(&[m_a, m_b]);
        let dims = [size, 2 * size];
        let p = cell.parameter("w_vector", &dims).matmul(modified) + bias(cell, "vector", a);
        vec![p.tanh(), cell.parameter("w_matrix", &dims).matmul(both)]
    })
}

fn tree_gru_internal(network: &mut Network, name: &str, size: usize) -> Declared {
    let state = vector(network, "state", size)?;
    network.cell(name, state, |cell| {
        let ([l], [r]) = (cell.one("left", state), cell.one("right", state));
        let gate = |g, h| (product(cell, "u", g, h) + bias(cell, g, h)).sigmoid();
        let [r_l, r_r] = [gate("r_l", l), gate("r_r", r)];
        let [z_l, z_r] = [gate("z_l", l), gate("z_r", r)];
        let [reset_l, reset_r, kept_l, kept_r] = [r_l * l, r_r * r, z_l * l, z_r * r];
        let n = product(cell, "u", "n_l", reset_l) + product(cell, "u", "n_r", reset_r);
        let n = (n + bias(cell, "n", l)).tanh();
        let new = ones(cell, l) - z_l - z_r;
        vec![new * n + kept_l + kept_r]
    })
}

fn tree_gru_leaf(network: &mut Network, name: &str, size: usize) -> Declared {
    let [x, state] = [vector(network, "x", size)?, vector(network, "state", size)?];
    network.cell(name, state, |cell| {
        let [x] = cell.one("x", x);
        let gate = |g, x| product(cell, "w", g, x) + bias(cell, g, x);
        let [r, z] = ["r", "z"].map(|g| gate(g, x).sigmoid());
        let (reset, kept) = (r * x, z * x);
        let n = gate("n", reset).tanh();
        vec![kept + (ones(cell, x) - z) * n]
    })
}

fn tree_lstm_internal(network: &mut Network, name: &str, size: usize) -> Declared {
    let state = lstm_state(network, size)?;
    network.cell(name, state, |cell| {
        let ([h_l, c_l], [h_r, c_r]) = (cell.one("left", state), cell.one("right", state));
        let both = |g: &str| {
            product(cell, "u_l", g, h_l) + product(cell, "u_r", g, h_r) + bias(cell, g, h_l)
        };
        let one = |g: &str, h| (product(cell, "u", g, h) + bias(cell, g, h)).sigmoid();
        let [i, o] = ["i", "o"].map(|g| both(g).sigmoid());
        let [f_l, f_r] = [one("f_l", h_l), one("f_r", h_r)];
        let c = i * both("u").tanh() + f_l * c_l + f_r * c_r;
        vec![o * c.tanh(), c]
    })
}

fn tree_lstm_leaf(network: &mut Network, name: &str, size: usize) -> Declared {
    let [x, state] = [vector(network, "x", size)?, lstm_state(network, size)?];
    network.cell(name, state, |cell| {
        let [x] = cell.one("x", x);
        let gate = |g| product(cell, "w", g, x) + bias(cell, g, x);
        let [i, o] = ["i", "o"].map(|g| gate(g).sigmoid());
        let c = i * gate("u").tanh();
        vec![o * c.tanh(), c]
    })
}

/// `{prefix}_{gate} x`, with a square weight.
fn product<'c>(cell: &'c CellBuilder, prefix: &str, gate: &str, x: Tensor<'c>) -> Tensor<'c> {
    let size = x.shape().elements();
    cell.parameter(&format!("{prefix}_{gate}"), &[size, size]).matmul(x)
}

fn bias<'c>(cell: &'c CellBuilder, gate: &str, like: Tensor<'c>) -> Tensor<'c> {
    cell.parameter(&format!("b_{gate}"), &[like.shape().elements()])
}

fn ones<'c>(cell: &'c CellBuilder, like: Tensor<'c>) -> Tensor<'c> {
    cell.constant(1.0, like.shape())
}

fn lstm_state(network: &mut Network, size: usize) -> Result<RecordId, CellError> {
    network.record("state", [("h", shape(&[size])?), ("c", shape(&[size])?)])
}

fn vector(network: &mut Network, name: &str, size: usize) -> Result<RecordId, CellError> {
    network.record(name, [("h", shape(&[size])?)])
}

fn shape(dims: &[usize]) -> Result<Shape, CellError> {
    let expected = "at least one element and fewer than 2^31";
    Shape::new(dims).ok_or_else(|| CellError::new("", format!("tensor of {dims:?}"), &[], expected))
}
