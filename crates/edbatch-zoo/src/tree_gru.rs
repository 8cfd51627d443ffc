//! The binary TreeGRU: a node's state is the mean of one GRU step per child. Scores every node.
//!
//! *Source*: the variant that the ED-Batch authors benchmark. A leaf uses its embedding as the
//! previous state, so embeddings have the size of states.

use std::sync::Arc;

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Kind, Network};
use edbatch_models::{Build, BuildError, Model};

use crate::cells::{between, bias, gru_state, output, weight};
use crate::tree::{TreeSizes, Wiring};

/// The binary TreeGRU: a node's state is the mean of one GRU step per child. Scores every node.
#[derive(Clone, Debug)]
pub struct TreeGru {
    pub(crate) network: Arc<Network>,
    wiring: Wiring<1>,
    node: Kind,
}

impl TreeGru {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large, or `embed` is not `hidden`.
    pub fn new(sizes: TreeSizes) -> Result<Self, CellError> {
        let TreeSizes { vocabulary, embed, hidden, classes } = sizes;
        let mut network = Network::new();
        let state = gru_state(&mut network, hidden)?;
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
        let output = output(&mut network, "state", state, classes)?;
        Ok(Self { network: Arc::new(network), wiring: Wiring { leaf, output }, node })
    }
}

impl Model for TreeGru {
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
