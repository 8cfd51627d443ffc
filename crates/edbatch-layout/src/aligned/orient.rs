//! Second pass: relates the matching nodes of isomorphic candidates.
//!
//! Only the first candidate of a batch is matched with each of the others, because isomorphism is
//! transitive.
//!
//! *Source*: `DecideNodesOrder` of Alg. 2, whose comments swap the names of the two union–finds.
//! *Cost*: O(positions · α).

use super::component::Component;
use super::isomorphism::{Matcher, Pair};
use super::relation::Relation;
use super::snapshot::Snapshot;

/// Relates the tree nodes of the accepted candidates of each batch; `accepted` lists them by batch.
/// Returns `None` if the relations contradict each other: then in every order of the tree, the
/// positions of some batch are in different orders in two accepted candidates.
pub(super) fn orient(
    tree: &Snapshot,
    component: &Component,
    accepted: &[Vec<u32>],
) -> Option<Relation> {
    let mut relation = Relation::new(tree.len());
    let mut matcher = Matcher::default();
    for (&first, others) in accepted.iter().filter_map(|batch| batch.split_first()) {
        for &other in others {
            let (first, other) = (component.positions_of(first), component.positions_of(other));
            let isomorphic = matcher.match_candidates(tree, first, other);
            assert!(isomorphic, "candidates of a batch are isomorphic after the first pass");
            let mut pairs = matcher.pairs.iter();
            if !pairs.all(|Pair { a, b, to }| relation.relate(*a, *b, to)) {
                return None;
            }
        }
    }
    Some(relation)
}
