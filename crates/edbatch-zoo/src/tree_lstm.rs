//! The binary TreeLSTM over parse trees, with scores for every node.
//!
//! *Source*: Tai, Socher and Manning, ACL 2015 (N-ary TreeLSTM), in the variant that the ED-Batch
//! authors benchmark: leaves read only an embedding, inner nodes only their two children.

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Network};

use crate::cells::{lstm_state, output};
use crate::model::model;
use crate::tree::{TreeKinds, TreeSizes, lstm_leaf, lstm_node};

model! {
    /// The binary TreeLSTM over parse trees, with scores for every node.
    pub struct TreeLstm: TreeKinds<1, 1>, TreeSizes, Tree<u32>, Tree::len
}

fn declare(network: &mut Network, sizes: TreeSizes) -> Result<TreeKinds<1, 1>, CellError> {
    let state = lstm_state(network, sizes.hidden)?;
    let leaf = network.cell("leaf", state, |cell| lstm_leaf(cell, sizes))?;
    let node = network.cell("node", state, |cell| lstm_node(cell, "node", state))?;
    let output = output(network, "state", state, sizes.classes)?;
    Ok(TreeKinds { leaf, nodes: [node], output })
}
