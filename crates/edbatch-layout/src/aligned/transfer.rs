//! First pass: transfers constraints between the accepted candidates of each batch, until nothing
//! changes.
//!
//! Each round takes a [`Snapshot`] of the tree, matches the candidates of every batch that may have
//! changed, and collects the constraints that one has and another lacks. Then it reduces the tree
//! by them.
//!
//! *A failed reduction is a proof.* Consider an order that uses all accepted candidates in place.
//! Each candidate is contiguous in this order, so the tree allows the order at first. Where the
//! tree keeps the variables at some positions of a candidate consecutive, they are consecutive in
//! this order too. The batch's other accepted candidates have their positions in the same order, so
//! their variables at these positions are also consecutive. Hence the order satisfies every
//! transferred constraint, and the tree still allows it after each reduction. If a reduction leaves
//! no order, then no order uses all accepted candidates in place.
//!
//! The sequence of the reductions has no effect on the orders of the final tree.
//!
//! Only the first candidate of a batch is matched with each of the others, because isomorphism is
//! transitive.
//!
//! *Source*: `BroadcastConstraint` of Alg. 2. The paper's listing keeps the changes that a failed
//! batch made to the tree; here the caller undoes them. *Cost*: O(rounds · (variables + positions
//! of the changed batches)); few rounds in practice.

use pqtree::PqTree;

use super::component::Component;
use super::isomorphism::Matcher;
use super::snapshot::Snapshot;

/// Reduces the tree until the accepted candidates of each batch are isomorphic. `accepted` lists
/// them by batch; `changed` lists the batches to match first. Returns the final tree, or `None` if
/// no order uses all of them in place.
pub(super) fn transfer(
    tree: &mut PqTree,
    component: &Component,
    accepted: &[Vec<u32>],
    mut changed: Vec<u32>,
) -> Option<Snapshot> {
    let mut matcher = Matcher::default();
    let mut constraints: Vec<Vec<u32>> = Vec::new();
    let mut is_changed = vec![false; accepted.len()];
    loop {
        let snapshot = Snapshot::of(tree);
        for batch in changed.drain(..) {
            is_changed[batch as usize] = false;
            let Some((&first, others)) = accepted[batch as usize].split_first() else {
                continue;
            };
            for &other in others {
                let (first, other) = (component.positions_of(first), component.positions_of(other));
                if !matcher.match_candidates(&snapshot, first, other) {
                    constraints.append(&mut matcher.constraints);
                    matcher.match_candidates(&snapshot, other, first);
                    constraints.append(&mut matcher.constraints);
                }
            }
        }
        for constraint in constraints.drain(..) {
            if !tree.reduce(&constraint).ok()?.changed {
                continue;
            }
            let users = constraint.iter().flat_map(|&variable| &component.users[variable as usize]);
            for &batch in users {
                if !is_changed[batch as usize] {
                    is_changed[batch as usize] = true;
                    changed.push(batch);
                }
            }
        }
        if changed.is_empty() {
            return Some(snapshot);
        }
    }
}
