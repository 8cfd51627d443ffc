//! Parts that the models over binary trees share: sizes, wiring, and the cells of a TreeLSTM.

use edbatch_datasets::Tree;
use edbatch_graph::{CellBuilder, Kind, RecordId, Tensor};
use edbatch_models::{Build, BuildError};

use crate::model::Built;

/// The sizes of a model over binary trees.
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

/// The cells of a tree model with `NODES` kinds of inner nodes. A leaf looks up its token in
/// `TABLES` tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeKinds<const TABLES: usize, const NODES: usize> {
    pub(crate) leaf: Kind,
    pub(crate) nodes: [Kind; NODES],
    pub(crate) output: Kind,
}

impl<const TABLES: usize> TreeKinds<TABLES, 1> {
    pub(crate) async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Built {
        self.call(build, tree, |_| self.nodes[0])
    }
}

impl<const TABLES: usize, const NODES: usize> TreeKinds<TABLES, NODES> {
    /// Calls a cell for every node, then the output cell for every node, in post-order. `node`
    /// returns the cell of an inner node.
    pub(crate) fn call(
        &self,
        build: &Build<'_>,
        tree: &Tree<u32>,
        node: impl Fn(usize) -> Kind,
    ) -> Built {
        let mut states = Vec::with_capacity(tree.len());
        for i in 0..tree.len() {
            states.push(match (tree.token(i), tree.children(i)) {
                (Some(&token), []) => build.call(self.leaf, &[token; TABLES], &[])?,
                (None, &[l, r]) => {
                    build.call(node(i), &[], &[states[l as usize], states[r as usize]])?
                }
                (token, children) => {
                    return Err(BuildError::Input(format!(
                        "node {i} of a tree (in post-order): expected two children or a token, \
                         got {} children and {} token",
                        children.len(),
                        if token.is_some() { "a" } else { "no" }
                    )));
                }
            });
        }
        Ok(build.emit_each(self.output, states.iter().map(|&state| [state]))?)
    }
}

/// A leaf of a TreeLSTM with parameters `leaf.w_g` and `leaf.b_g` for each gate g. Returns `h` and
/// `c`.
pub(crate) fn lstm_leaf(cell: &CellBuilder, sizes: TreeSizes) -> Vec<Tensor<'_>> {
    let TreeSizes { vocabulary, embed, hidden, .. } = sizes;
    let e = cell.lookup("token", "embed.weight", &[vocabulary, embed]);
    let gate = |g| {
        cell.parameter(&format!("leaf.w_{g}"), &[hidden, embed]).matmul(e)
            + cell.parameter(&format!("leaf.b_{g}"), &[hidden])
    };
    let [i, o] = ["i", "o"].map(|g| gate(g).sigmoid());
    let u = gate("u").tanh();
    let c = i * u;
    vec![o * c.tanh(), c]
}

/// An inner node of a binary TreeLSTM with parameters `{prefix}.u_g_l`, `u_g_r` and `b_g` for each
/// gate g. Returns `h` and `c`.
pub(crate) fn lstm_node<'c>(
    cell: &'c CellBuilder,
    prefix: &str,
    state: RecordId,
) -> Vec<Tensor<'c>> {
    let [h_l, c_l] = cell.one("left", state);
    let [h_r, c_r] = cell.one("right", state);
    let hidden = h_l.shape().elements();
    let u = |g: &str| cell.parameter(&format!("{prefix}.u_{g}"), &[hidden, hidden]);
    let b = |g: &str| cell.parameter(&format!("{prefix}.b_{g}"), &[hidden]);
    let gate = |g: &str| u(&format!("{g}_l")).matmul(h_l) + u(&format!("{g}_r")).matmul(h_r) + b(g);
    let [i, o] = ["i", "o"].map(|g| gate(g).sigmoid());
    let f_l = (u("f_l").matmul(h_l) + b("f")).sigmoid();
    let f_r = (u("f_r").matmul(h_r) + b("f")).sigmoid();
    let c = i * gate("u").tanh() + f_l * c_l + f_r * c_r;
    vec![o * c.tanh(), c]
}
