//! Giving up operands: which of them to copy when there is no ideal layout.
//!
//! Operands are accepted one at a time, the heaviest first; those that cannot be joined to the ones before them are
//! copied. Then again in other orders: those first that the declaration order serves, so that a plan is never worse than
//! it; then those first that were copied in the best attempt, or all shuffled.
//!
//! As a subset of what can be accepted together can be accepted too, a run of operands is tried as one: all of them at
//! first, half as many after a refusal, twice as many after a success. So k refusals among n operands take about
//! 2 k log₂(n / k) tests, and none of them one. *Cost*: a test is linear in the part of the problem that is searched.
//!
//! *Source*: ours. Alg. 2 gives up whole batches, which copies more.

use rand::Rng;
use rand::seq::SliceRandom;

use super::accepted::Accepted;
use super::component::Component;
use super::layout::heaviest_group;

/// A choice of elements that one order serves.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Those used in place, ascending.
    pub(super) kept: Vec<u32>,
    /// The weight of all others.
    pub(super) cost: u64,
    /// An order of the problem's variables that serves them.
    pub(super) order: Vec<u32>,
}

/// The best choice of an attempt with the heaviest first, one from the declaration order, and `restarts` more.
pub(super) fn give_up(component: &Component, restarts: u32, rng: &mut impl Rng) -> Choice {
    let heaviest_first = by_weight(component);
    let mut best = accept_in_order(component, &heaviest_first);
    if best.cost > 0 {
        let declared = served_as_declared(component);
        let mut sequence = heaviest_first.clone();
        sequence.sort_by_key(|element| declared.binary_search(element).is_err());
        keep_better(&mut best, accept_in_order(component, &sequence));
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
        keep_better(&mut best, accept_in_order(component, &sequence));
    }
    best
}

fn keep_better(best: &mut Choice, other: Choice) {
    if other.cost < best.cost {
        *best = other;
    }
}

/// The elements that are used in place if the variables lie as they are numbered, ascending.
fn served_as_declared(component: &Component) -> Vec<u32> {
    let position: Vec<u32> = (0..component.variables.len() as u32).collect();
    let mut elements: Vec<u32> = (0..component.elements.len() as u32).collect();
    let element = |index: &u32| &component.elements[*index as usize];
    elements.sort_by_key(|index| element(index).batch);
    let batches = elements.chunk_by(|a, b| element(a).batch == element(b).batch);
    let mut served: Vec<u32> = batches
        .flat_map(|batch| {
            let named = |index: &u32| (*index, &element(index).lanes[..], element(index).weight);
            heaviest_group(batch.iter().map(named), &position)
        })
        .collect();
    served.sort_unstable();
    served
}

/// All elements, the heaviest first.
pub(super) fn by_weight(component: &Component) -> Vec<u32> {
    let mut sequence: Vec<u32> = (0..component.elements.len() as u32).collect();
    sequence.sort_by_key(|&element| std::cmp::Reverse(component.elements[element as usize].weight));
    sequence
}

fn accept_in_order(component: &Component, sequence: &[u32]) -> Choice {
    let mut accepted = Accepted::none(component);
    let mut kept = accept_each(&mut accepted, sequence);
    kept.sort_unstable();
    let weight = |&element: &u32| component.elements[element as usize].weight;
    let cost = component.weight() - kept.iter().map(weight).sum::<u64>();
    Choice { kept, cost, order: accepted.order() }
}

/// Accepts what can be, one after the other. Returns it.
fn accept_each(accepted: &mut Accepted<'_>, sequence: &[u32]) -> Vec<u32> {
    let mut kept = Vec::with_capacity(sequence.len());
    let (mut rest, mut length) = (sequence, sequence.len());
    while !rest.is_empty() {
        let run = &rest[..length.min(rest.len())];
        match accepted.add(run) {
            Ok(addition) => {
                accepted.keep(addition);
                kept.extend(run);
                length *= 2;
            }
            Err(_) if run.len() > 1 => {
                length = run.len() / 2;
                continue;
            }
            Err(_) => {}
        }
        rest = &rest[run.len()..];
    }
    kept
}
