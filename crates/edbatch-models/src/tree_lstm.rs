//! The binary TreeLSTM over parse trees, with scores for every node.
//!
//! *Source*: Tai, Socher and Manning, ACL 2015 (N-ary TreeLSTM), in the form that the ED-Batch
//! authors benchmark: leaves read an embedding, inner nodes their two children alone.

use std::sync::Arc;

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Kind, Network};

use crate::cells::{linear, logits, lstm_state};
use crate::model::{BuildError, Model};
use crate::{Build, tree};

/// See the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct TreeLstm {
    network: Arc<Network>,
    leaf: Kind,
    node: Kind,
    output: Kind,
}

/// The sizes of a [`TreeLstm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeSizes {
    /// Number of tokens.
    pub vocabulary: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

impl TreeLstm {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: TreeSizes) -> Result<Self, CellError> {
        let TreeSizes { vocabulary, embed, hidden, classes } = sizes;
        let mut network = Network::new();
        let state = lstm_state(&mut network, hidden)?;
        let scores = logits(&mut network, classes)?;
        let leaf = network.cell("leaf", state, |cell| {
            let e = cell.lookup("token", "embed.weight", &[vocabulary, embed]);
            let gate = |g| {
                cell.parameter(&format!("leaf.w_{g}"), &[hidden, embed]).matmul(e)
                    + cell.parameter(&format!("leaf.b_{g}"), &[hidden])
            };
            let [i, o] = ["i", "o"].map(|g| gate(g).sigmoid());
            let u = gate("u").tanh();
            let c = i * u;
            vec![o * c.tanh(), c]
        })?;
        let node = network.cell("node", state, |cell| tree::lstm_node(cell, "node", state))?;
        let output = network.cell("output", scores, |cell| {
            let [h, _] = cell.one("state", state);
            vec![linear(cell, "out", classes, h)]
        })?;
        Ok(Self { network: Arc::new(network), leaf, node, output })
    }
}

impl Model for TreeLstm {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        let mut states = Vec::with_capacity(tree.len());
        for i in 0..tree.len() {
            states.push(match tree::binary_node(tree, i)? {
                tree::BinaryNode::Leaf(token) => build.call(self.leaf, &[token], &[])?,
                tree::BinaryNode::Inner(l, r) => {
                    build.call(self.node, &[], &[states[l], states[r]])?
                }
            });
        }
        for state in states {
            build.emit(build.call(self.output, &[], &[state])?);
        }
        Ok(())
    }
}
