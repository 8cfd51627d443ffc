//! The binary TreeGRU: a node's state is the mean of one GRU step per child. Scores every node.
//!
//! *Source*: the variant that the ED-Batch authors benchmark. A leaf uses its embedding as the
//! previous state, so embeddings have the size of states.

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Network};

use crate::cells::{between, bias, gru_state, output, weight};
use crate::model::model;
use crate::tree::{TreeKinds, TreeSizes};

model! {
    /// The binary TreeGRU: a node's state is the mean of one GRU step per child. Scores every node.
    ///
    /// The size `embed` must be `hidden`.
    pub struct TreeGru: TreeKinds<1, 1>, TreeSizes, Tree<u32>, Tree::len
}

fn declare(network: &mut Network, sizes: TreeSizes) -> Result<TreeKinds<1, 1>, CellError> {
    let TreeSizes { vocabulary, embed, hidden, classes } = sizes;
    let state = gru_state(network, hidden)?;
    let leaf = network.cell("leaf", state, |cell| {
        let e = cell.lookup("token", "embed.weight", &[vocabulary, embed]);
        let gate = |g: &str, x| {
            weight(cell, &format!("leaf.w_{g}"), e, x).matmul(x)
                + bias(cell, &format!("leaf.b_{g}"), e)
        };
        let [r, z] = ["r", "z"].map(|g| gate(g, e).sigmoid());
        vec![between(z, e, gate("c", r * e).tanh())]
    })?;
    let node = network.cell("node", state, |cell| {
        let [[l], [r]] = ["left", "right"].map(|port| cell.one(port, state));
        let halves = [("l", l), ("r", r)].map(|(s, h)| {
            let gate = |g: &str, x| {
                weight(cell, &format!("node.u_{g}_{s}"), h, x).matmul(x)
                    + bias(cell, &format!("node.b_{g}"), h)
            };
            let [r, z] = ["r", "z"].map(|g| gate(g, h).sigmoid());
            between(z, h, gate("c", r * h).tanh())
        });
        vec![(halves[0] + halves[1]).scale(0.5)]
    })?;
    let output = output(network, "state", state, classes)?;
    Ok(TreeKinds { leaf, nodes: [node], output })
}
