//! First pass, one operand after the other: each is joined to those before it, or leaves no trace.
//!
//! As [`transfer`](super::transfer), but a change is followed from operand to operand, and only
//! these are looked at, not the whole tree. Adding is a transaction: after a refusal the tree rolls
//! back.
//!
//! An operand is *rigid* if its positions have to lie in one order or its reverse, and the first
//! operand's of its batch in the same one. Nothing can be asked of it any more, so that it is not
//! looked at again; with more and more operands accepted, most are.
//!
//! *Cost*: what changes, times the operands that read a variable.

use pqtree::PqTree;

use super::component::Component;
use super::isomorphism::Matcher;
use super::local::Local;
use super::snapshot::Snapshot;
use super::transfer::{Missing, Separated};

/// Elements of a component that satisfy the first pass together.
#[derive(Debug)]
pub(super) struct Gradual<'a> {
    component: &'a Component,
    pub(super) tree: PqTree,
    /// The elements of each batch, as they were added. The others are compared with the first.
    pub(super) kept: Vec<Vec<u32>>,
    /// The elements that read each variable.
    readers: Vec<Vec<u32>>,
    state: Vec<State>,
    local: Local,
    matcher: Matcher,
    missing: Missing,
    /// Those that are to be compared again.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    /// Those that became rigid in this addition.
    stiffened: Vec<u32>,
    /// How many positions were compared.
    pub(super) work: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Out,
    Kept,
    Rigid,
}

impl<'a> Gradual<'a> {
    /// Nothing yet.
    pub(super) fn none(component: &'a Component) -> Self {
        let variables = component.variables.len() as u32;
        let elements = component.elements.len();
        let mut readers = vec![Vec::new(); variables as usize];
        for (index, element) in (0..).zip(&component.elements) {
            element.positions.iter().for_each(|&variable| readers[variable as usize].push(index));
        }
        Self {
            component,
            tree: PqTree::new(variables),
            kept: vec![Vec::new(); component.batches as usize],
            readers,
            state: vec![State::Out; elements],
            local: Local::new(variables),
            matcher: Matcher::default(),
            missing: Missing::default(),
            changed: Vec::new(),
            is_changed: vec![false; elements],
            stiffened: Vec::new(),
            work: 0,
        }
    }

    /// Adds an element if the first pass allows it. Says whether it does.
    pub(super) fn add(&mut self, index: u32) -> bool {
        let element = &self.component.elements[index as usize];
        let before = self.tree.checkpoint();
        self.kept[element.batch as usize].push(index);
        self.state[index as usize] = State::Kept;
        self.stiffened.clear();
        self.mark(index);
        let done = self.reduce(&element.positions).and_then(|()| self.settle());
        if done.is_ok() {
            self.tree.commit(before);
            return true;
        }
        self.tree.rollback(before);
        self.changed.drain(..).for_each(|index| self.is_changed[index as usize] = false);
        self.stiffened.drain(..).for_each(|index| self.state[index as usize] = State::Kept);
        self.kept[element.batch as usize].pop();
        self.state[index as usize] = State::Out;
        false
    }

    fn mark(&mut self, index: u32) {
        let place = index as usize;
        if self.state[place] == State::Kept && !self.is_changed[place] {
            self.is_changed[place] = true;
            self.changed.push(index);
        }
    }

    /// Reduces the tree, and marks the elements that this may concern.
    fn reduce(&mut self, set: &[u32]) -> Result<(), Separated> {
        if self.tree.reduce(set).map_err(|_| Separated)?.changed {
            for &variable in set {
                for reader in 0..self.readers[variable as usize].len() {
                    self.mark(self.readers[variable as usize][reader]);
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Separated> {
        while let Some(index) = self.changed.pop() {
            self.is_changed[index as usize] = false;
            let mut missing = std::mem::take(&mut self.missing);
            missing.clear();
            self.compare(index, &mut missing);
            let done = missing.sets().try_for_each(|set| self.reduce(set));
            self.missing = missing;
            done?;
        }
        Ok(())
    }

    /// Collects what an element and the first of its batch ask of each other; of the first itself,
    /// what it and all others do.
    fn compare(&mut self, index: u32, missing: &mut Missing) {
        let elements = &self.component.elements;
        let positions = |index: u32| elements[index as usize].positions.as_slice();
        let batch = &self.kept[elements[index as usize].batch as usize];
        let hub = batch[0];
        let others = if index == hub { &batch[1..] } else { std::slice::from_ref(&index) };
        self.work += (positions(hub).len() * (others.len() + 1)) as u64;
        let variables = others.iter().flat_map(|&other| positions(other)).chain(positions(hub));
        let snapshot = self.local.around(&self.tree, variables);
        let hub_is_rigid = has_one_order(snapshot, positions(hub));
        let mut stiffen = |index: u32| {
            if hub_is_rigid && self.state[index as usize] == State::Kept {
                self.state[index as usize] = State::Rigid;
                self.stiffened.push(index);
            }
        };
        let mut all_equal = true;
        for &other in others {
            if self.matcher.match_operands(snapshot, positions(hub), positions(other), missing) {
                stiffen(other);
            } else {
                self.matcher.match_operands(snapshot, positions(other), positions(hub), missing);
                all_equal = false;
            }
        }
        if index == hub && all_equal {
            stiffen(hub);
        }
    }
}

/// Whether the positions are all children of one Q-node.
fn has_one_order(tree: &Snapshot, positions: &[u32]) -> bool {
    let parent = |variable: u32| tree.node(tree.place(variable)).parent;
    let first = parent(positions[0]);
    !tree.node(first).permutes && positions.iter().all(|&variable| parent(variable) == first)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::{Gradual, State};
    use crate::aligned::component::{Component, components};
    use crate::aligned::transfer::transfer;
    use crate::aligned::{AlignedBatch, Problem};
    use pqtree::PqTree;

    /// The tree of the first pass over all elements at once, if it succeeds.
    fn at_once(component: &Component, elements: &[u32]) -> Option<PqTree> {
        let mut tree = PqTree::new(component.variables.len() as u32);
        let mut kept = vec![Vec::new(); component.batches as usize];
        for &index in elements {
            let element = &component.elements[index as usize];
            tree.reduce(&element.positions).ok()?;
            kept[element.batch as usize].push(index);
        }
        let all = (0..component.batches).collect();
        transfer(&mut tree, component, &kept, all).ok()?;
        Some(tree)
    }

    fn check(problem: &Problem) {
        for component in components(problem) {
            let mut gradual = Gradual::none(&component);
            let mut kept = Vec::new();
            for index in 0..component.elements.len() as u32 {
                kept.push(index);
                let expected = at_once(&component, &kept);
                assert_eq!(gradual.add(index), expected.is_some(), "{problem:?}: {index}");
                match expected {
                    Some(tree) => assert_eq!(gradual.tree, tree, "{problem:?}: {index}"),
                    None => {
                        kept.pop();
                    }
                }
                assert_eq!(gradual.kept.concat().len(), kept.len());
                assert!(gradual.state[index as usize] != State::Out || !kept.contains(&index));
            }
        }
    }

    fn problem(variables: u32) -> impl Strategy<Value = Problem> {
        let batch = (2..=6usize).prop_flat_map(move |positions| {
            let order = Just((0..variables).collect::<Vec<_>>()).prop_shuffle();
            // Ranges of the variables, with their positions shuffled, are rather accepted than any
            // variables.
            let operand = (any::<bool>(), 0..variables - positions as u32, order).prop_map(
                move |(any, begin, order)| {
                    let end = begin + positions as u32;
                    let range = order.iter().copied().filter(|v| (begin..end).contains(v));
                    if any { order[..positions].to_vec() } else { range.collect() }
                },
            );
            proptest::collection::vec(operand, 1..=4)
        });
        proptest::collection::vec(batch, 1..=6).prop_map(move |batches| Problem {
            variables,
            batches: batches
                .into_iter()
                .map(|operands| AlignedBatch::uniform(operands, 1))
                .collect(),
        })
    }

    /// Ranges in one order of positions a batch; with the given probability, in its reverse.
    pub(in crate::aligned) fn ranges(
        variables: u32,
        turned: f64,
    ) -> impl Strategy<Value = Problem> {
        let batch = (2..=6u32).prop_flat_map(move |positions| {
            let order = Just((0..positions).collect::<Vec<_>>()).prop_shuffle();
            let operand = (0..variables - positions, proptest::bool::weighted(turned));
            let operands = proptest::collection::vec(operand, 1..=4);
            (order, operands).prop_map(move |(order, operands)| {
                let position =
                    |position, turned| if turned { positions - 1 - position } else { position };
                let operand =
                    |(begin, turned)| order.iter().map(|&l| begin + position(l, turned)).collect();
                AlignedBatch::uniform(operands.into_iter().map(operand).collect::<Vec<_>>(), 1)
            })
        });
        proptest::collection::vec(batch, 1..=8)
            .prop_map(move |batches| Problem { variables, batches })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn one_after_the_other_is_as_all_at_once(problem in problem(12)) {
            check(&problem);
        }

        #[test]
        fn what_fits_is_accepted(problem in ranges(16, 0.0)) {
            check(&problem);
        }
    }
}
