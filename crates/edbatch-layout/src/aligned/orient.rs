//! Second pass: which directions and permutations follow from each other, once all operands of a
//! batch have equal trees.
//!
//! *Source*: `DecideNodesOrder` of Alg. 2, whose comments name the two union–finds the wrong way
//! round.
//!
//! *Cost*: O(positions · α).

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

/// Relates the nodes of all operands that are kept. An error if no order of the tree aligns all
/// batches.
pub(super) fn orient(
    tree: &Snapshot,
    component: &Component,
    kept: &[Vec<u32>],
) -> Result<Orientation, Contradiction> {
    let mut orientation = Orientation::free(tree);
    let mut matcher = Matcher::default();
    let positions = |element: u32| component.elements[element as usize].positions.as_slice();
    for batch in kept {
        let Some((&hub, others)) = batch.split_first() else {
            continue;
        };
        for &other in others {
            matcher.match_operands(tree, positions(hub), positions(other), &mut orientation);
            orientation.possible?;
        }
    }
    Ok(orientation)
}

/// Relates the nodes of the elements of `sequence`, which are those kept, one after the other.
/// Those that contradict the ones before them are left out of `kept`.
pub(super) fn orient_each(
    tree: &Snapshot,
    component: &Component,
    kept: &mut [Vec<u32>],
    sequence: &[u32],
) {
    let mut orientation = Orientation::free(tree);
    let mut matcher = Matcher::default();
    let element = |index: u32| &component.elements[index as usize];
    let mut is_refused = vec![false; component.elements.len()];
    for &index in sequence {
        let hub = kept[element(index).batch as usize][0];
        orientation.begin();
        matcher.match_operands(
            tree,
            &element(hub).positions,
            &element(index).positions,
            &mut orientation,
        );
        is_refused[index as usize] = orientation.end().is_err();
    }
    for batch in kept {
        batch.retain(|&index| !is_refused[index as usize]);
    }
}

impl Orientation {
    fn free(tree: &Snapshot) -> Self {
        let (turns, permutations) = (Relation::new(tree.len()), Relation::new(tree.len()));
        Self { turns, permutations, possible: Ok(()) }
    }

    fn begin(&mut self) {
        self.turns.begin();
        self.permutations.begin();
    }

    /// Keeps what was related since the beginning, or undoes it if it is contradictory.
    fn end(&mut self) -> Result<(), Contradiction> {
        if self.possible.is_ok() {
            self.turns.keep();
            self.permutations.keep();
        } else {
            self.turns.undo();
            self.permutations.undo();
        }
        std::mem::replace(&mut self.possible, Ok(()))
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{orient, orient_each};
    use crate::aligned::component::components;
    use crate::aligned::gradual::Gradual;
    use crate::aligned::gradual::tests::ranges;
    use crate::aligned::snapshot::Snapshot;
    use crate::aligned::{AlignedBatch, Problem};

    /// The second operand of the second batch wants 4, 5 as 0, 1 are, and 6, 7 not as 2, 3 are,
    /// which the first batch forbids. The third batch wants 4, 5 the other way round, and can have
    /// it: whichever nodes are related first.
    #[test]
    fn half_a_contradiction_is_forgotten() {
        for second in [[vec![0, 1, 2, 3], vec![4, 5, 7, 6]], [vec![2, 3, 0, 1], vec![7, 6, 4, 5]]] {
            let pairs = [[vec![2, 3], vec![6, 7]], second, [vec![0, 1], vec![5, 4]]];
            let batches = pairs.map(|pair| AlignedBatch::uniform(pair, 1)).to_vec();
            let component = components(&Problem { variables: 8, batches }).swap_remove(0);
            for added in [[0, 1, 2, 3, 4, 5], [4, 5, 0, 1, 2, 3]] {
                let mut gradual = Gradual::none(&component);
                assert!(added.iter().all(|&element| gradual.add(element)));
                let snapshot = Snapshot::of(&gradual.tree);
                orient_each(&snapshot, &component, &mut gradual.kept, &[0, 1, 2, 3, 4, 5]);
                assert_eq!(gradual.kept, [vec![0, 1], vec![2], vec![4, 5]]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// What is refused leaves no trace: the same elements are kept if all is related from the
        /// start for each of them.
        #[test]
        fn one_after_the_other_is_as_from_the_start(problem in ranges(16, 0.2)) {
            for component in components(&problem) {
                let mut gradual = Gradual::none(&component);
                let all = 0..component.elements.len() as u32;
                let passed: Vec<u32> = all.filter(|&element| gradual.add(element)).collect();
                let snapshot = Snapshot::of(&gradual.tree);
                let mut expected = vec![Vec::new(); component.batches as usize];
                for &index in &passed {
                    let batch = component.elements[index as usize].batch as usize;
                    expected[batch].push(index);
                    if orient(&snapshot, &component, &expected).is_err() {
                        expected[batch].pop();
                    }
                }
                orient_each(&snapshot, &component, &mut gradual.kept, &passed);
                prop_assert_eq!(&gradual.kept, &expected);
            }
        }
    }
}
