//! The operands that were accepted so far, and the tree of the orders that serve them all.
//!
//! Adding is a transaction: an element that cannot be joined to those accepted leaves no trace. The
//! test is exact; it runs both passes, the second one afresh, as it has nothing to keep while nodes
//! of the tree still change.

use pqtree::{Checkpoint, PqTree};

use super::component::Component;
use super::order::order;
use super::orient::{Orientation, orient};
use super::snapshot::Snapshot;
use super::transfer::transfer;

/// Elements of a component that one order serves together.
#[derive(Debug)]
pub(super) struct Accepted<'a> {
    pub(super) component: &'a Component,
    tree: PqTree,
    /// The elements of each batch, as they were added.
    kept: Vec<Vec<u32>>,
    /// What the last addition found, unless it was undone.
    settled: Option<(Snapshot, Orientation)>,
}

/// What takes back an addition.
#[derive(Debug)]
#[must_use = "an addition is undone or kept"]
pub(super) struct Addition {
    before: Checkpoint,
    elements: Vec<u32>,
}

/// Why elements were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// Its variables cannot be neighbours.
    Apart,
    /// Variables that have to be neighbours, as those of the same positions of another operand are,
    /// cannot be.
    Nested,
    /// Its positions would have to lie in two orders.
    Turned,
}

impl<'a> Accepted<'a> {
    /// Nothing yet.
    pub(super) fn none(component: &'a Component) -> Self {
        let tree = PqTree::new(component.variables.len() as u32);
        let kept = vec![Vec::new(); component.batches as usize];
        Self { component, tree, kept, settled: None }
    }

    /// Adds elements, all or none of them.
    pub(super) fn add(&mut self, elements: &[u32]) -> Result<Addition, Refusal> {
        let addition = Addition { before: self.tree.checkpoint(), elements: elements.to_vec() };
        match self.try_add(elements) {
            Ok(()) => Ok(addition),
            Err(refusal) => {
                self.undo(addition);
                Err(refusal)
            }
        }
    }

    fn try_add(&mut self, elements: &[u32]) -> Result<(), Refusal> {
        let mut changed = Vec::new();
        for &index in elements {
            let element = &self.component.elements[index as usize];
            self.kept[element.batch as usize].push(index);
            changed.push(element.batch);
        }
        for &index in elements {
            let positions = &self.component.elements[index as usize].positions;
            if self.tree.reduce(positions).map_err(|_| Refusal::Apart)?.changed {
                let readers =
                    positions.iter().map(|&variable| &self.component.readers[variable as usize]);
                changed.extend(readers.flatten());
            }
        }
        changed.sort_unstable();
        changed.dedup();
        self.settled = Some(self.settle(changed)?);
        Ok(())
    }

    /// Both passes.
    fn settle(&mut self, changed: Vec<u32>) -> Result<(Snapshot, Orientation), Refusal> {
        let snapshot = transfer(&mut self.tree, self.component, &self.kept, changed)
            .map_err(|_| Refusal::Nested)?;
        let orientation =
            orient(&snapshot, self.component, &self.kept).map_err(|_| Refusal::Turned)?;
        Ok((snapshot, orientation))
    }

    /// Takes back an addition. Those after it have to be undone before.
    pub(super) fn undo(&mut self, addition: Addition) {
        self.settled = None;
        self.tree.rollback(addition.before);
        for &index in addition.elements.iter().rev() {
            let batch = self.component.elements[index as usize].batch;
            let last = self.kept[batch as usize].pop();
            debug_assert_eq!(last, Some(index), "the last addition is undone first");
        }
    }

    /// Makes an addition, and those after it, final.
    pub(super) fn keep(&mut self, addition: Addition) {
        self.tree.commit(addition.before);
    }

    /// An order, in the problem's names, that serves all that was accepted.
    pub(super) fn order(&mut self) -> Vec<u32> {
        let settled = self.settled.take().map_or_else(|| self.settle(Vec::new()), Ok);
        let (snapshot, mut orientation) = settled.expect("what was accepted was tested");
        let order = order(&snapshot, &mut orientation);
        order.into_iter().map(|variable| self.component.variables[variable as usize]).collect()
    }
}
