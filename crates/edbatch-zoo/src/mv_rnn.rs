//! The matrix-vector recursive network (MV-RNN): every node has a vector, its meaning, and a matrix
//! that transforms its sibling's meaning.
//!
//! *Source*: Socher, Huval, Manning and Ng, EMNLP 2012, in the variant that the ED-Batch authors
//! benchmark: a full matrix per word, and scores for every node.

use std::sync::Arc;

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Kind, Network, Shape};
use edbatch_models::{Build, BuildError, Model};

use crate::cells::{output, vector};
use crate::tree::Wiring;

/// The matrix-vector recursive network (MV-RNN): every node has a vector, its meaning, and a matrix
/// that transforms its sibling's meaning.
#[derive(Clone, Debug)]
pub struct MvRnn {
    pub(crate) network: Arc<Network>,
    wiring: Wiring<2>,
    node: Kind,
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

impl MvRnn {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: MvRnnSizes) -> Result<Self, CellError> {
        let MvRnnSizes { vocabulary, hidden, classes } = sizes;
        let mut network = Network::new();
        let matrix = Shape::Matrix(hidden as u32, hidden as u32);
        let meaning = network.record("meaning", [("v", vector(hidden)?), ("M", matrix)])?;
        let leaf = network.cell("leaf", meaning, |cell| {
            let v = cell.lookup("token", "embed.vector", &[vocabulary, hidden]);
            let m = cell.lookup("token", "embed.matrix", &[vocabulary, hidden, hidden]);
            vec![v, m]
        })?;
        let node = network.cell("node", meaning, |cell| {
            let [[v_l, m_l], [v_r, m_r]] = ["left", "right"].map(|port| cell.one(port, meaning));
            let [w_v, w_m] =
                ["node.w_v", "node.w_m"].map(|w| cell.parameter(w, &[hidden, 2 * hidden]));
            let [b_v, b_m] = ["node.b_v", "node.b_m"].map(|b| cell.parameter(b, &[hidden]));
            let crossed = cell.concat(&[m_l.matmul(v_r), m_r.matmul(v_l)]);
            let v = (w_v.matmul(crossed) + b_v).tanh();
            let m = w_m.matmul(cell.concat(&[m_l, m_r])) + b_m;
            vec![v, m]
        })?;
        let output = output(&mut network, "meaning", meaning, classes)?;
        Ok(Self { network: Arc::new(network), wiring: Wiring { leaf, output }, node })
    }
}

impl Model for MvRnn {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn work(&self, input: &Tree<u32>) -> usize {
        input.len()
    }

    fn bytes(&self, input: &Tree<u32>) -> usize {
        let record = self.network.fields(self.network[self.node].record());
        let elements: usize = record.fields.iter().map(|field| field.shape.elements()).sum();
        input.len() * elements * size_of::<f32>()
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        self.wiring.build(build, tree, |_| self.node)
    }
}
