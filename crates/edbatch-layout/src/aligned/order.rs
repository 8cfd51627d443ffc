//! Reading an order off a tree: each root's children as they stand, all others as follows from
//! their roots.
//!
//! *Source*: `GetLeafOrder` of the paper's appendix. *Cost*: O(variables).

use super::orient::Orientation;
use super::snapshot::{NONE, Snapshot};

/// An order of the variables that the tree admits and the orientation demands.
pub(super) fn order(tree: &Snapshot, orientation: &mut Orientation) -> Vec<u32> {
    let mut order = Vec::new();
    let mut to_come: Vec<u32> = tree.len().checked_sub(1).into_iter().collect();
    while let Some(place) = to_come.pop() {
        let node = tree.node(place);
        if node.variable != NONE {
            order.push(node.variable);
            continue;
        }
        // What is pushed last comes first, so that children are wanted from right to left.
        let begin = to_come.len();
        to_come.extend(tree.children(place));
        if node.permutes {
            let (_, label) = orientation.permutations.find(place);
            let mut placed = vec![NONE; node.degree as usize];
            for &child in &to_come[begin..] {
                placed[label.apply(tree.node(child).index) as usize] = child;
            }
            to_come.truncate(begin);
            to_come.extend(placed.into_iter().rev());
        } else if orientation.turns.find(place).1.0 {
            to_come[begin..].reverse();
        }
    }
    order
}
