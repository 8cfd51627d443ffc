//! Derives an order of the variables from the tree and the relation of its nodes.
//!
//! A node that is a root of the relation keeps the order of its children. The label that leads to
//! the root determines the order of the children of every other node.
//!
//! *Source*: `GetLeafOrder` of the paper's appendix. *Cost*: O(variables).

use super::relation::Relation;
use super::snapshot::{NONE, Snapshot};

/// Returns an order of the variables that the tree admits and that satisfies the relation.
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
