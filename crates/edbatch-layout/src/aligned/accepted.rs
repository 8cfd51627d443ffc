//! The operands accepted so far, and a PQ-tree of the orders that satisfy all of them.
//!
//! Adding elements is a transaction: if they are incompatible with those accepted before, nothing
//! changes. The test is exact: it runs [`transfer`] and [`orient`]. `orient` starts from scratch
//! each time, because `transfer` may change any node of the tree.

use pqtree::{Checkpoint, PqTree};

use super::component::Component;
use super::order::order;
use super::orient::orient;
use super::relation::Relation;
use super::snapshot::Snapshot;
use super::transfer::transfer;

/// Elements (operands) of a component that one order of the variables can all put in place.
#[derive(Debug)]
pub(super) struct Accepted<'a> {
    pub(super) component: &'a Component,
    tree: PqTree,
    /// The accepted elements of each batch, in the order of their addition.
    kept: Vec<Vec<u32>>,
    /// The results of [`transfer`] and [`orient`] for the last addition, unless it was undone.
    settled: Option<(Snapshot, Relation)>,
}

/// The data that undo one call of [`Accepted::add`].
#[derive(Debug)]
#[must_use = "an addition is undone or kept"]
pub(super) struct Addition {
    before: Checkpoint,
    elements: Vec<u32>,
}

impl<'a> Accepted<'a> {
    /// Creates a set without elements.
    pub(super) fn none(component: &'a Component) -> Self {
        let tree = PqTree::new(component.variables.len() as u32);
        let kept = vec![Vec::new(); component.batches as usize];
        Self { component, tree, kept, settled: None }
    }

    /// Adds all these elements. If no order satisfies them together with the accepted ones, adds
    /// none of them and returns `None`.
    pub(super) fn add(&mut self, elements: &[u32]) -> Option<Addition> {
        let addition = Addition { before: self.tree.checkpoint(), elements: elements.to_vec() };
        for &index in elements {
            self.kept[self.component.elements[index as usize].batch as usize].push(index);
        }
        self.settled = self.reduce(elements).and_then(|changed| self.settle(changed));
        if self.settled.is_none() {
            self.undo(addition);
            return None;
        }
        Some(addition)
    }

    /// Requires these operands to be contiguous. Returns the batches whose operands this may
    /// affect, or `None` if no order satisfies the requirement.
    fn reduce(&mut self, elements: &[u32]) -> Option<Vec<u32>> {
        let mut changed = Vec::new();
        for &index in elements {
            let element = &self.component.elements[index as usize];
            changed.push(element.batch);
            if self.tree.reduce(&element.positions).ok()?.changed {
                let variables = element.positions.iter();
                changed.extend(variables.flat_map(|&v| &self.component.readers[v as usize]));
            }
        }
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// Runs [`transfer`] on the changed batches, then [`orient`].
    fn settle(&mut self, changed: Vec<u32>) -> Option<(Snapshot, Relation)> {
        let snapshot = transfer(&mut self.tree, self.component, &self.kept, changed)?;
        let relation = orient(&snapshot, self.component, &self.kept)?;
        Some((snapshot, relation))
    }

    /// Undoes an addition. Later additions must be undone first.
    pub(super) fn undo(&mut self, addition: Addition) {
        self.settled = None;
        self.tree.rollback(addition.before);
        for &index in addition.elements.iter().rev() {
            let batch = self.component.elements[index as usize].batch;
            let last = self.kept[batch as usize].pop();
            debug_assert_eq!(last, Some(index), "the last addition is undone first");
        }
    }

    /// Makes an addition, and all later ones, final.
    pub(super) fn keep(&mut self, addition: Addition) {
        self.tree.commit(addition.before);
    }

    /// Returns an order that satisfies all accepted elements, in the problem's numbering of
    /// variables.
    pub(super) fn order(&mut self) -> Vec<u32> {
        let settled = self.settled.take().or_else(|| self.settle(Vec::new()));
        let (snapshot, mut relation) = settled.expect("accepted elements are compatible");
        let order = order(&snapshot, &mut relation);
        order.into_iter().map(|variable| self.component.variables[variable as usize]).collect()
    }
}
