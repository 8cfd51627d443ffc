//! The candidates accepted so far, and a PQ-tree that allows every order that uses all of them in
//! place.
//!
//! Accepting candidates is a transaction: if no order uses them in place together with the accepted
//! ones, nothing changes. The test is exact: it runs [`transfer`] and [`orient`]. `orient` starts
//! from scratch each time, because `transfer` may change any node of the tree.

use pqtree::{Checkpoint, PqTree};

use super::component::Component;
use super::order::order;
use super::orient::orient;
use super::relation::Relation;
use super::snapshot::Snapshot;
use super::transfer::transfer;

/// Candidates of a component that one order of the variables uses in place together.
#[derive(Debug)]
pub(super) struct Accepted<'a> {
    pub(super) component: &'a Component,
    tree: PqTree,
    /// The accepted candidates of each batch, in the order of their addition.
    by_batch: Vec<Vec<u32>>,
    /// The results of [`transfer`] and [`orient`] for the last addition, unless it was undone.
    result: Option<(Snapshot, Relation)>,
}

/// The data that undo one call of [`Accepted::add`].
#[derive(Debug)]
#[must_use = "an addition is undone or committed"]
pub(super) struct Addition {
    before: Checkpoint,
    candidates: Vec<u32>,
}

impl<'a> Accepted<'a> {
    /// Accepts no candidates at first.
    pub(super) fn none(component: &'a Component) -> Self {
        let tree = PqTree::new(component.variables.len() as u32);
        let by_batch = vec![Vec::new(); component.batches as usize];
        Self { component, tree, by_batch, result: None }
    }

    /// Accepts all these candidates. If no order uses them in place together with the accepted
    /// ones, accepts none of them and returns `None`.
    pub(super) fn add(&mut self, candidates: &[u32]) -> Option<Addition> {
        let addition = Addition { before: self.tree.checkpoint(), candidates: candidates.to_vec() };
        for &index in candidates {
            self.by_batch[self.component.candidates[index as usize].batch as usize].push(index);
        }
        self.result = self.reduce(candidates).and_then(|changed| self.settle(changed));
        if self.result.is_none() {
            self.undo(addition);
            return None;
        }
        Some(addition)
    }

    /// Reduces the tree to the orders in which these candidates are contiguous. Returns the batches
    /// whose candidates this may affect, or `None` if no order is left.
    fn reduce(&mut self, candidates: &[u32]) -> Option<Vec<u32>> {
        let mut changed = Vec::new();
        for &index in candidates {
            let candidate = &self.component.candidates[index as usize];
            changed.push(candidate.batch);
            if self.tree.reduce(&candidate.positions).ok()?.changed {
                let variables = candidate.positions.iter();
                changed.extend(variables.flat_map(|&v| &self.component.users[v as usize]));
            }
        }
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// Runs [`transfer`], which starts with the changed batches, then [`orient`].
    fn settle(&mut self, changed: Vec<u32>) -> Option<(Snapshot, Relation)> {
        let snapshot = transfer(&mut self.tree, self.component, &self.by_batch, changed)?;
        let relation = orient(&snapshot, self.component, &self.by_batch)?;
        Some((snapshot, relation))
    }

    /// Undoes an addition. Later additions must be undone first.
    pub(super) fn undo(&mut self, addition: Addition) {
        self.result = None;
        self.tree.rollback(addition.before);
        for &index in addition.candidates.iter().rev() {
            let batch = self.component.candidates[index as usize].batch;
            let last = self.by_batch[batch as usize].pop();
            debug_assert_eq!(last, Some(index), "the last addition is undone first");
        }
    }

    /// Makes an addition, and all later ones, final.
    pub(super) fn commit(&mut self, addition: Addition) {
        self.tree.commit(addition.before);
    }

    /// Returns an order that uses all accepted candidates in place, as variables of the problem.
    pub(super) fn order(&mut self) -> Vec<u32> {
        let result = self.result.take().or_else(|| self.settle(Vec::new()));
        let (snapshot, mut relation) = result.expect("accepted candidates are compatible");
        let order = order(&snapshot, &mut relation);
        order.into_iter().map(|variable| self.component.variables[variable as usize]).collect()
    }
}
