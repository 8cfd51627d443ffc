//! Second pass: relates the orders of nodes, once the operands of every batch have equal trees.
//!
//! *Source*: `DecideNodesOrder` of Alg. 2, whose comments swap the names of the two union–finds.
//! *Cost*: O(positions · α).

use super::component::Component;
use super::isomorphism::{Matcher, Pair};
use super::relation::Relation;
use super::snapshot::Snapshot;

/// Relates the tree nodes of the kept elements of each batch. Returns `None` if in every order of
/// the tree, some batch has elements with different orders of their positions.
pub(super) fn orient(
    tree: &Snapshot,
    component: &Component,
    kept: &[Vec<u32>],
) -> Option<Relation> {
    let mut relation = Relation::new(tree.len());
    let mut matcher = Matcher::default();
    let positions = |element: u32| component.elements[element as usize].positions.as_slice();
    for batch in kept {
        let Some((&hub, others)) = batch.split_first() else {
            continue;
        };
        for &other in others {
            let equal = matcher.match_operands(tree, positions(hub), positions(other));
            assert!(equal, "operands have equal trees after the first pass");
            let mut pairs = matcher.pairs.iter();
            if !pairs.all(|Pair { a, b, to }| relation.relate(*a, *b, to)) {
                return None;
            }
        }
    }
    Some(relation)
}
