//! The greedy pass: chooses the operands to copy if no layout avoids all copies.
//!
//! Operands are accepted one at a time, heaviest first; an operand that is incompatible with the
//! accepted ones is copied. A second pass first accepts all operands that the declaration order of
//! the variables puts in place, so the result never copies more than that order. Restarts try
//! operands in other orders: shuffled, or first those that the best choice so far copies.
//!
//! Any subset of compatible operands is compatible, so several operands are tested at once: all of
//! them at first, half the number after a failure, twice the number after a success.
//!
//! *Source*: ours; Alg. 2 withdraws whole batches, which copies more. *Cost*: about 2 k log₂(n / k)
//! tests for k copied operands of n, one test if none is copied. A test is linear in the component.

use rand::Rng;
use rand::seq::SliceRandom;

use super::accepted::Accepted;
use super::component::Component;
use super::layout::heaviest_group;

/// A set of elements that one order of the variables puts in place.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The elements used in place, ascending.
    pub(super) kept: Vec<u32>,
    /// The total weight of all other elements, which are copied.
    pub(super) cost: u64,
    /// An order of the problem's variables that puts the kept elements in place.
    pub(super) order: Vec<u32>,
}

/// Returns the best choice of a pass with the heaviest elements first, a pass that starts with the
/// elements in place in the declaration order, and `restarts` further passes.
pub(super) fn choose(component: &Component, restarts: u32, rng: &mut impl Rng) -> Choice {
    let heaviest_first = by_weight(component);
    let mut best = accept(Accepted::none(component), Vec::new(), &heaviest_first);
    if best.cost > 0 {
        let declared = declared(component);
        let mut accepted = Accepted::none(component);
        let addition = accepted.add(&declared).expect("the declaration order satisfies these");
        accepted.keep(addition);
        keep_better(&mut best, accept(accepted, declared, &heaviest_first));
    }
    for restart in 0..restarts {
        if best.cost == 0 {
            break;
        }
        let mut sequence = heaviest_first.clone();
        sequence.shuffle(rng);
        match restart % 3 {
            0 => sequence.sort_by_key(|element| best.kept.binary_search(element).is_ok()),
            1 => sequence.sort_by_key(|&element| {
                std::cmp::Reverse(component.elements[element as usize].weight)
            }),
            _ => {}
        }
        keep_better(&mut best, accept(Accepted::none(component), Vec::new(), &sequence));
    }
    best
}

fn keep_better(best: &mut Choice, other: Choice) {
    if other.cost < best.cost {
        *best = other;
    }
}

/// The elements used in place if variables are laid out in the order of their numbers, ascending.
fn declared(component: &Component) -> Vec<u32> {
    let place_of: Vec<u32> = (0..component.variables.len() as u32).collect();
    let elements: Vec<_> = (0..).zip(&component.elements).collect();
    let batches = elements.chunk_by(|(_, a), (_, b)| a.batch == b.batch);
    let in_place = batches.flat_map(|batch| {
        let operands = batch.iter().map(|&(index, e)| (index, &e.positions[..], e.weight));
        heaviest_group(operands, &place_of)
    });
    let mut in_place: Vec<u32> = in_place.collect();
    in_place.sort_unstable();
    in_place
}

/// All elements, heaviest first.
pub(super) fn by_weight(component: &Component) -> Vec<u32> {
    let mut sequence: Vec<u32> = (0..component.elements.len() as u32).collect();
    sequence.sort_by_key(|&element| std::cmp::Reverse(component.elements[element as usize].weight));
    sequence
}

/// Accepts each element of a sequence that is compatible with those accepted before it. `kept`
/// lists the elements that `accepted` already contains, ascending.
fn accept(mut accepted: Accepted<'_>, mut kept: Vec<u32>, sequence: &[u32]) -> Choice {
    let component = accepted.component;
    let is_new = |element: &u32| kept.binary_search(element).is_err();
    let others: Vec<u32> = sequence.iter().copied().filter(is_new).collect();
    let (mut rest, mut length) = (&others[..], others.len());
    while !rest.is_empty() {
        let run = &rest[..length.min(rest.len())];
        match accepted.add(run) {
            Some(addition) => {
                accepted.keep(addition);
                kept.extend(run);
                length *= 2;
            }
            None if run.len() > 1 => {
                length = run.len() / 2;
                continue;
            }
            None => {}
        }
        rest = &rest[run.len()..];
    }
    kept.sort_unstable();
    let weight = |&element: &u32| component.elements[element as usize].weight;
    let cost = component.weight() - kept.iter().map(weight).sum::<u64>();
    Choice { kept, cost, order: accepted.order() }
}
