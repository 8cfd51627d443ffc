//! Derives an order of the variables from the tree and the relation of its nodes.
//!
//! A root of the union–find keeps the order of its children. For any other node, the label that
//! leads to its root determines the order of its children.
//!
//! *Source*: `GetLeafOrder` of the paper's appendix. *Cost*: O(variables).

use super::relation::Relation;
use super::snapshot::{NONE, Snapshot};

/// Returns an order of the variables that the tree admits and that fits the relation of its nodes.
pub(super) fn order(tree: &Snapshot, relation: &mut Relation) -> Vec<u32> {
    let mut order = Vec::new();
    let mut stack: Vec<u32> = tree.len().checked_sub(1).into_iter().collect();
    while let Some(place) = stack.pop() {
        let node = tree.node(place);
        if node.variable != NONE {
            order.push(node.variable);
            continue;
        }
        // The last node pushed is visited first, so children are pushed from right to left.
        let begin = stack.len();
        stack.extend(tree.children(place));
        let (_, label) = relation.find(place);
        if node.permutes {
            let mut placed = vec![NONE; node.degree as usize];
            for &child in &stack[begin..] {
                placed[label.apply(tree.node(child).index) as usize] = child;
            }
            stack.truncate(begin);
            stack.extend(placed.into_iter().rev());
        } else if !label.is_identity() {
            stack[begin..].reverse();
        }
    }
    order
}
