//! Second pass: which directions and permutations follow from each other, once all operands of a batch have equal trees.
//!
//! *Source*: `DecideNodesOrder` of Alg. 2, whose comments name the two union–finds the wrong way round.
//!
//! *Cost*: O(lanes · α).

use super::component::Component;
use super::isomorphism::{Listener, Matcher};
use super::relation::{Contradiction, Permutation, Relation, Turn};
use super::snapshot::Snapshot;

/// How the orders of a tree's nodes hang together.
#[derive(Debug)]
pub(super) struct Orientation {
    /// Of Q-nodes, and of nodes with two children.
    pub(super) turns: Relation<Turn>,
    /// Of P-nodes with three children or more.
    pub(super) permutations: Relation<Permutation>,
    possible: Result<(), Contradiction>,
}

/// Relates the nodes of all operands that are kept. An error if no order of the tree aligns all batches.
pub(super) fn orient(
    tree: &Snapshot,
    component: &Component,
    kept: &[Vec<u32>],
) -> Result<Orientation, Contradiction> {
    let mut orientation = Orientation {
        turns: Relation::new(tree.len()),
        permutations: Relation::new(tree.len()),
        possible: Ok(()),
    };
    let mut matcher = Matcher::default();
    let lanes = |element: u32| component.elements[element as usize].lanes.as_slice();
    for batch in kept {
        let Some((&hub, others)) = batch.split_first() else {
            continue;
        };
        for &other in others {
            matcher.match_operands(tree, lanes(hub), lanes(other), &mut orientation);
            orientation.possible?;
        }
    }
    Ok(orientation)
}

impl Listener for Orientation {
    fn directions(&mut self, a: u32, b: u32, turned: bool) {
        self.possible = self.possible.and_then(|()| self.turns.relate(a, b, &Turn(turned)));
    }

    fn permutations(&mut self, a: u32, b: u32, to: &[u32]) {
        let relation = &mut self.permutations;
        self.possible = self.possible.and_then(|()| relation.relate(a, b, &Permutation::new(to)));
    }

    fn missing(&mut self, _: &mut dyn Iterator<Item = u32>) {
        unreachable!("operands have equal trees after the first pass");
    }
}
