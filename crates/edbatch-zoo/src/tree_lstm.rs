//! The binary TreeLSTM over parse trees, with scores for every node.
//!
//! *Source*: Tai, Socher and Manning, ACL 2015 (N-ary TreeLSTM), in the variant that the ED-Batch
//! authors benchmark: leaves read only an embedding, inner nodes only their two children.

use std::sync::Arc;

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Kind, Network};
use edbatch_models::{Build, BuildError, Model};

use crate::cells::{lstm_state, output};
use crate::tree::{TreeSizes, Wiring, lstm_leaf, lstm_node};

/// The binary TreeLSTM over parse trees, with scores for every node.
#[derive(Clone, Debug)]
pub struct TreeLstm {
    pub(crate) network: Arc<Network>,
    wiring: Wiring<1>,
    node: Kind,
}

impl TreeLstm {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: TreeSizes) -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = lstm_state(&mut network, sizes.hidden)?;
        let leaf = network.cell("leaf", state, |cell| lstm_leaf(cell, sizes))?;
        let node = network.cell("node", state, |cell| lstm_node(cell, "node", state))?;
        let output = output(&mut network, "state", state, sizes.classes)?;
        Ok(Self { network: Arc::new(network), wiring: Wiring { leaf, output }, node })
    }
}

impl Model for TreeLstm {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn work(&self, input: &Tree<u32>) -> usize {
        input.len()
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        self.wiring.build(build, tree, |_| self.node)
    }
}
