//! Which operands agree with the others of their batch: those that do are to be accepted first.
//!
//! Accepted too early, an operand whose positions are in no order that fits makes several be
//! refused that would fit. So look at a tree that asks for nothing but contiguous operands, as far
//! as it goes, and compare the operands of each batch in pairs: two agree if each of the sets that
//! the one has and the other lacks could be made consecutive, and if no node would have to be its
//! own reverse. An operand that disagrees waits, the longer the more weight is against it.
//!
//! *Source*: ours. *Cost*: O(variables + positions · ([`MATES`] + [`TRIALS`])).

use std::cmp::Reverse;

use pqtree::PqTree;
use rand::Rng;
use rand::seq::SliceRandom;

use super::component::Component;
use super::isomorphism::{Listener, Matcher};
use super::snapshot::Snapshot;
use super::transfer::Missing;

/// With how many of its batch an operand is compared, if there are more.
const MATES: usize = 8;

/// In how many orders operands are tried, to find those that exclude many others.
const TRIALS: u32 = 16;

/// The elements of a sequence, those first that agree with all of their batch.
pub(super) fn agreeing_first(
    component: &Component,
    sequence: &[u32],
    rng: &mut impl Rng,
) -> Vec<u32> {
    let (mut tree, mut lies_apart) = contiguous(component, sequence);
    let mut sequence = sequence.to_vec();
    if lies_apart.contains(&true) {
        sort_by_trials(component, &mut sequence, rng);
        (tree, lies_apart) = contiguous(component, &sequence);
    }
    let votes = vote(component, &mut tree, &lies_apart);
    sequence.sort_by_key(|&index| {
        let Votes { pro, contra } = votes[index as usize];
        let weight = component.elements[index as usize].weight;
        let balance = i128::from(pro) + i128::from(weight) - i128::from(contra);
        let order = if contra > 0 { Reverse(balance) } else { Reverse(0) };
        (lies_apart[index as usize], contra > 0, order)
    });
    sequence
}

/// The tree of what can be contiguous, and which elements cannot be, in the order of a sequence.
fn contiguous(component: &Component, sequence: &[u32]) -> (PqTree, Vec<bool>) {
    let mut tree = PqTree::new(component.variables.len() as u32);
    let mut lies_apart = vec![false; component.elements.len()];
    for &index in sequence {
        let positions = &component.elements[index as usize].positions;
        lies_apart[index as usize] = tree.reduce(positions).is_err();
    }
    (tree, lies_apart)
}

/// Those first that weigh much and are seldom refused in random orders: of elements that exclude
/// each other, one that excludes many is refused more often than each of these.
fn sort_by_trials(component: &Component, sequence: &mut [u32], rng: &mut impl Rng) {
    let mut accepted = vec![1u128; component.elements.len()];
    let mut shuffled = sequence.to_vec();
    for _ in 0..TRIALS {
        shuffled.shuffle(rng);
        let (_, lies_apart) = contiguous(component, &shuffled);
        accepted.iter_mut().zip(lies_apart).for_each(|(count, apart)| *count += u128::from(!apart));
    }
    let weight = |index: u32| u128::from(component.elements[index as usize].weight);
    sequence.sort_by_key(|&index| Reverse(accepted[index as usize] * weight(index)));
}

/// What weighs for an element, and against it.
#[derive(Clone, Copy, Default, Debug)]
struct Votes {
    pro: u64,
    contra: u64,
}

/// Compares the elements of each batch in pairs.
fn vote(component: &Component, tree: &mut PqTree, lies_apart: &[bool]) -> Vec<Votes> {
    let snapshot = Snapshot::of(tree);
    let mut votes = vec![Votes::default(); component.elements.len()];
    let (mut judge, mut matcher) = (Judge::default(), Matcher::default());
    let numbered: Vec<_> = (0..).zip(&component.elements).collect();
    for batch in numbered.chunk_by(|a, b| a.1.batch == b.1.batch) {
        let in_place: Vec<_> = batch.iter().filter(|&&(index, _)| !lies_apart[index]).collect();
        for (place, &&(a, one)) in in_place.iter().enumerate() {
            for &&(b, other) in in_place[place + 1..].iter().take(MATES) {
                let agree = judge.agree(tree, |judge| {
                    matcher.match_operands(&snapshot, &one.positions, &other.positions, judge)
                        || matcher.match_operands(
                            &snapshot,
                            &other.positions,
                            &one.positions,
                            judge,
                        )
                });
                for (index, mate) in [(a, other), (b, one)] {
                    let votes: &mut Votes = &mut votes[index];
                    let side = if agree { &mut votes.pro } else { &mut votes.contra };
                    *side += mate.weight;
                }
            }
        }
    }
    votes
}

/// Listens to what two operands ask of each other.
#[derive(Default, Debug)]
struct Judge {
    missing: Missing,
    is_turned: bool,
}

impl Judge {
    fn agree(&mut self, tree: &mut PqTree, compare: impl FnOnce(&mut Self) -> bool) -> bool {
        self.missing.clear();
        self.is_turned = false;
        compare(self);
        !self.is_turned && self.missing.sets().all(|set| tree.can_reduce(set).is_ok())
    }
}

impl Listener for Judge {
    fn directions(&mut self, a: u32, b: u32, turned: bool) {
        self.is_turned |= a == b && turned;
    }

    fn permutations(&mut self, a: u32, b: u32, to: &[u32]) {
        self.is_turned |= a == b && (0..).zip(to).any(|(from, &to)| from != to);
    }

    fn missing(&mut self, variables: &mut dyn Iterator<Item = u32>) {
        self.missing.missing(variables);
    }
}
