//! The matrix-vector recursive network (MV-RNN): every node has a vector, its meaning, and a matrix
//! that transforms its sibling's meaning.
//!
//! *Source*: Socher, Huval, Manning and Ng, EMNLP 2012, in the variant that the ED-Batch authors
//! benchmark: a full matrix per word, and scores for every node.

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Network, Shape};

use crate::cells::{output, vector};
use crate::model::model;
use crate::tree::TreeKinds;

model! {
    /// The matrix-vector recursive network (MV-RNN): every node has a vector, its meaning, and a
    /// matrix that transforms its sibling's meaning.
    pub struct MvRnn: TreeKinds<2, 1>, MvRnnSizes, Tree<u32>, Tree::len, bytes
}

/// The sizes of an [`MvRnn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MvRnnSizes {
    /// Number of tokens. Each has its own matrix: their table has `vocabulary × hidden²` elements.
    pub vocabulary: usize,
    /// The length of a vector; matrices are `hidden × hidden`.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

fn declare(network: &mut Network, sizes: MvRnnSizes) -> Result<TreeKinds<2, 1>, CellError> {
    let MvRnnSizes { vocabulary, hidden, classes } = sizes;
    let matrix = Shape::Matrix(hidden as u32, hidden as u32);
    let meaning = network.record("meaning", [("v", vector(hidden)?), ("M", matrix)])?;
    let leaf = network.cell("leaf", meaning, |cell| {
        let v = cell.lookup("token", "embed.vector", &[vocabulary, hidden]);
        let m = cell.lookup("token", "embed.matrix", &[vocabulary, hidden, hidden]);
        vec![v, m]
    })?;
    let node = network.cell("node", meaning, |cell| {
        let [[v_l, m_l], [v_r, m_r]] = ["left", "right"].map(|port| cell.one(port, meaning));
        let [w_v, w_m] = ["node.w_v", "node.w_m"].map(|w| cell.parameter(w, &[hidden, 2 * hidden]));
        let [b_v, b_m] = ["node.b_v", "node.b_m"].map(|b| cell.parameter(b, &[hidden]));
        let crossed = cell.concat(&[m_l.matmul(v_r), m_r.matmul(v_l)]);
        let v = (w_v.matmul(crossed) + b_v).tanh();
        let m = w_m.matmul(cell.concat(&[m_l, m_r])) + b_m;
        vec![v, m]
    })?;
    let output = output(network, "meaning", meaning, classes)?;
    Ok(TreeKinds { leaf, nodes: [node], output })
}

impl TreeKinds<2, 1> {
    /// Returns the bytes of the meanings of a tree.
    pub(crate) fn bytes(&self, network: &Network, tree: &Tree<u32>) -> usize {
        let record = network.fields(network[self.leaf].record());
        let elements: usize = record.fields.iter().map(|field| field.shape.elements()).sum();
        tree.len() * elements * size_of::<f32>()
    }
}
