//! First pass: transfers the constraints of every operand to the other operands of its batch, until
//! nothing changes.
//!
//! Each round takes a [`Snapshot`] of the tree, compares the operands of every batch that may have
//! changed, and collects the sets of variables that must be consecutive. Then it reduces the tree
//! by these sets. Every layout without copies keeps each set consecutive, so a reduction that fails
//! proves that none exists. The order of the reductions has no effect on the final tree's orders.
//!
//! Each operand is compared only with its batch's first, because equality of trees is transitive.
//!
//! *Source*: `BroadcastConstraint` of Alg. 2. The paper's listing keeps the changes that a failed
//! batch made to the tree; here the caller undoes them. *Cost*: O(rounds · (variables + positions
//! of the changed batches)); few rounds in practice.

use pqtree::PqTree;

use super::component::Component;
use super::isomorphism::Matcher;
use super::snapshot::Snapshot;

/// Reduces the tree until, in each batch, the parts of the tree that order the operands' variables
/// match position by position. `kept` lists the operands of each batch, as elements of the
/// component; `changed` lists the batches to compare first. Returns the final tree, or `None` if a
/// set of variables that must be consecutive cannot be.
pub(super) fn transfer(
    tree: &mut PqTree,
    component: &Component,
    kept: &[Vec<u32>],
    mut changed: Vec<u32>,
) -> Option<Snapshot> {
    let mut matcher = Matcher::default();
    let mut missing: Vec<Vec<u32>> = Vec::new();
    let mut is_changed = vec![false; kept.len()];
    loop {
        let snapshot = Snapshot::of(tree);
        for batch in changed.drain(..) {
            is_changed[batch as usize] = false;
            let Some((hub, others)) = kept[batch as usize].split_first() else {
                continue;
            };
            let positions =
                |element: u32| component.elements[element as usize].positions.as_slice();
            for &other in others {
                let (hub, other) = (positions(*hub), positions(other));
                if !matcher.match_operands(&snapshot, hub, other) {
                    missing.append(&mut matcher.missing);
                    matcher.match_operands(&snapshot, other, hub);
                    missing.append(&mut matcher.missing);
                }
            }
        }
        for set in missing.drain(..) {
            if !tree.reduce(&set).ok()?.changed {
                continue;
            }
            for &batch in set.iter().flat_map(|&variable| &component.readers[variable as usize]) {
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
