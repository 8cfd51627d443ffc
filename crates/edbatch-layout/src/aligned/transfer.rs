//! First pass: every operand's constraints are transferred to the other operands of its batch,
//! until nothing changes.
//!
//! In rounds. A round looks at all batches that may have changed, in one [`Snapshot`], and collects
//! what their operands ask of each other; then the tree is reduced by all of that. Whatever is
//! asked is necessary, so that a reduction that fails proves that there is no ideal layout; and as
//! nothing but what is necessary was asked, the order of work does not matter to the tree that
//! comes out.
//!
//! Each operand is compared with the first of its batch alone: equality is transitive.
//!
//! *Source*: `BroadcastConstraint` of Alg. 2. Its listing goes on with a tree that a failed batch
//! has already narrowed; here the caller rolls back.
//!
//! *Cost*: O(rounds · (variables + positions of the batches that changed)); few rounds in practice.

use pqtree::PqTree;

use super::component::Component;
use super::isomorphism::{Listener, Matcher};
use super::snapshot::Snapshot;

/// A set of variables that have to be neighbours and cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Separated;

/// Reduces the tree until the operands of each batch have equal trees. `kept` are the elements of
/// each batch that count; of these batches only `changed` are looked at to begin with. Returns the
/// tree as it is then.
pub(super) fn transfer(
    tree: &mut PqTree,
    component: &Component,
    kept: &[Vec<u32>],
    mut changed: Vec<u32>,
) -> Result<Snapshot, Separated> {
    let mut matcher = Matcher::default();
    let mut missing = Missing::default();
    let mut is_changed = vec![false; kept.len()];
    loop {
        let snapshot = Snapshot::of(tree);
        missing.clear();
        for batch in changed.drain(..) {
            is_changed[batch as usize] = false;
            let Some((hub, others)) = kept[batch as usize].split_first() else {
                continue;
            };
            let positions =
                |element: u32| component.elements[element as usize].positions.as_slice();
            for &other in others {
                let (hub, other) = (positions(*hub), positions(other));
                if !matcher.match_operands(&snapshot, hub, other, &mut missing) {
                    matcher.match_operands(&snapshot, other, hub, &mut missing);
                }
            }
        }
        for set in missing.sets() {
            if !tree.reduce(set).map_err(|_| Separated)?.changed {
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
            return Ok(snapshot);
        }
    }
}

/// Sets of variables, one after the other.
#[derive(Default, Debug)]
pub(super) struct Missing {
    variables: Vec<u32>,
    ends: Vec<usize>,
}

impl Missing {
    pub(super) fn clear(&mut self) {
        self.variables.clear();
        self.ends.clear();
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins.zip(&self.ends).map(|(&begin, &end)| &self.variables[begin..end])
    }
}

impl Listener for Missing {
    fn directions(&mut self, _: u32, _: u32, _: bool) {}

    fn permutations(&mut self, _: u32, _: u32, _: &[u32]) {}

    fn missing(&mut self, variables: &mut dyn Iterator<Item = u32>) {
        self.variables.extend(variables);
        self.ends.push(self.variables.len());
    }
}
