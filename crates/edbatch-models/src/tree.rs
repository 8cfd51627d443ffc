//! What the models over binary trees share.

use edbatch_datasets::Tree;
use edbatch_graph::{CellBuilder, RecordId, Tensor};

use crate::model::BuildError;

/// A node of a binary tree; children as indices in post-order.
pub(crate) enum BinaryNode {
    Leaf(u32),
    Inner(usize, usize),
}

/// The node at an index in post-order.
pub(crate) fn binary_node(tree: &Tree<u32>, i: usize) -> Result<BinaryNode, BuildError> {
    match (tree.token(i), tree.children(i)) {
        (Some(&token), []) => Ok(BinaryNode::Leaf(token)),
        (None, &[l, r]) => Ok(BinaryNode::Inner(l as usize, r as usize)),
        (token, children) => Err(BuildError::Input(format!(
            "node {i} of a tree (in post-order): expected two children or a token, got {} \
             children and {} token",
            children.len(),
            if token.is_some() { "a" } else { "no" }
        ))),
    }
}

/// An inner node of a binary TreeLSTM; parameters `{prefix}.u_{g}_{l,r}` and `{prefix}.b_{g}` per
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
