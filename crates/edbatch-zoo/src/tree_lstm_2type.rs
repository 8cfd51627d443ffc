//! The binary TreeLSTM with two kinds of inner nodes, each with its own parameters.
//!
//! *Source*: the benchmark of the same name by the ED-Batch authors. A hash of the tree's number
//! and the node's index chooses the cell of a node. With a grammar, the label of the phrase would
//! choose it.

use edbatch_datasets::Tree;
use edbatch_graph::{CellError, Network};
use edbatch_models::Build;

use crate::cells::{lstm_state, output};
use crate::model::{Built, model};
use crate::tree::{TreeKinds, TreeSizes, lstm_leaf, lstm_node};

model! {
    /// The binary TreeLSTM with two kinds of inner nodes, each with its own parameters.
    pub struct TreeLstm2Type: TreeKinds<1, 2>, TreeSizes, IndexedTree, work
}

/// A tree and its index in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexedTree {
    /// The index of the tree in its file, from 0. With a node's index it determines the node's
    /// kind.
    pub index: u32,
    /// The tree.
    pub tree: Tree<u32>,
}

fn declare(network: &mut Network, sizes: TreeSizes) -> Result<TreeKinds<1, 2>, CellError> {
    let state = lstm_state(network, sizes.hidden)?;
    let leaf = network.cell("leaf", state, |cell| lstm_leaf(cell, sizes))?;
    let mut node = |name| network.cell(name, state, |cell| lstm_node(cell, name, state));
    let nodes = [node("node0")?, node("node1")?];
    let output = output(network, "state", state, sizes.classes)?;
    Ok(TreeKinds { leaf, nodes, output })
}

fn work(input: &IndexedTree) -> usize {
    input.tree.len()
}

impl TreeKinds<1, 2> {
    pub(crate) async fn build(&self, build: &Build<'_>, input: &IndexedTree) -> Built {
        let position = |node: usize| u64::from(input.index) << 32 | node as u64;
        let kind = |node| self.nodes[(splitmix64(position(node)) & 1) as usize];
        self.call(build, &input.tree, kind)
    }
}

/// Hashes 64 bits to 64 bits.
///
/// *Source*: Steele, Lea and Flood, OOPSLA 2014.
fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    /// The first two outputs of the published generator with seed 0.
    #[test]
    fn splitmix64_equals_the_published_values() {
        assert_eq!(super::splitmix64(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(super::splitmix64(0x9E37_79B9_7F4A_7C15), 0x6E78_9E6A_A1B9_65F4);
    }
}
