//! Derives an order of the variables from the tree and the relation of its nodes.
//!
//! Related nodes form classes, each with a root. The children of a root stay in the tree's order.
//! The children of any other node are put in the corresponding order: child `i` goes where the root
//! has its child `label(i)`.
//!
//! *Source*: `GetLeafOrder` of the paper's appendix. *Cost*: O(variables).

use super::relation::Relation;
use super::snapshot::{NONE, Snapshot};

/// Returns an order of the variables that the tree allows and that satisfies the relation of its
/// nodes.
pub(super) fn order(tree: &Snapshot, relation: &mut Relation) -> Vec<u32> {
    let mut order = Vec::new();
    let mut stack: Vec<u32> = tree.len().checked_sub(1).into_iter().collect();
    while let Some(id) = stack.pop() {
        let node = tree.node(id);
        if node.variable != NONE {
            order.push(node.variable);
            continue;
        }
        // The last node pushed is visited first, so children are pushed from right to left.
        let begin = stack.len();
        stack.extend(tree.children(id));
        let (_, label) = relation.find(id);
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
