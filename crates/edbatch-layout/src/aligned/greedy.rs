//! The greedy search: chooses the candidates to copy if no layout avoids all copies.
//!
//! Candidates are accepted one at a time, heaviest first; a candidate that is incompatible with the
//! accepted ones is copied. A second search first accepts all candidates that the declaration order
//! of the variables uses in place, so the result never copies more than that order. Restarts try
//! the candidates in other orders: shuffled, or first those that the best choice so far copies.
//!
//! Any subset of compatible candidates is compatible, so several candidates are tested at once: all
//! of them at first, half the number after a failure, twice the number after a success.
//!
//! *Source*: ours; Alg. 2 copies whole batches, which copies more. *Cost*: about 2 k log₂(n / k)
//! tests for k copied candidates of n, one test if none is copied. A test is linear in the
//! component.

use rand::Rng;
use rand::seq::SliceRandom;

use super::accepted::Accepted;
use super::component::Component;
use super::layout::heaviest_group;

/// A choice of candidates that one order of the variables uses in place together.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The accepted candidates, ascending.
    pub(super) accepted: Vec<u32>,
    /// The total weight of all other candidates, which are copied.
    pub(super) cost: u64,
    /// An order of the problem's variables that uses the accepted candidates in place.
    pub(super) order: Vec<u32>,
}

/// Returns the best choice of a search with the heaviest candidates first, a search that first
/// accepts the candidates in place in the declaration order, and `restarts` further searches.
pub(super) fn choose(component: &Component, restarts: u32, rng: &mut impl Rng) -> Choice {
    let heaviest_first = by_weight(component);
    let mut best = accept(Accepted::none(component), Vec::new(), &heaviest_first);
    if best.cost > 0 {
        let declared = declared(component);
        let mut accepted = Accepted::none(component);
        let addition = accepted.add(&declared).expect("the declaration order uses these in place");
        accepted.commit(addition);
        keep_better(&mut best, accept(accepted, declared, &heaviest_first));
    }
    for restart in 0..restarts {
        if best.cost == 0 {
            break;
        }
        let mut sequence = heaviest_first.clone();
        sequence.shuffle(rng);
        match restart % 3 {
            0 => sequence.sort_by_key(|candidate| best.accepted.binary_search(candidate).is_ok()),
            1 => sequence.sort_by_key(|&candidate| {
                std::cmp::Reverse(component.candidates[candidate as usize].weight)
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

/// Returns the candidates used in place if the variables are in the order of their numbers.
fn declared(component: &Component) -> Vec<u32> {
    let place_of: Vec<u32> = (0..component.variables.len() as u32).collect();
    let candidates: Vec<_> = (0..).zip(&component.candidates).collect();
    let batches = candidates.chunk_by(|(_, a), (_, b)| a.batch == b.batch);
    let in_place = batches.flat_map(|batch| {
        let operands = batch.iter().map(|&(index, c)| (index, &c.positions[..], c.weight));
        heaviest_group(operands, &place_of)
    });
    let mut in_place: Vec<u32> = in_place.collect();
    in_place.sort_unstable();
    in_place
}

/// Returns all candidates, heaviest first.
pub(super) fn by_weight(component: &Component) -> Vec<u32> {
    let mut sequence: Vec<u32> = (0..component.candidates.len() as u32).collect();
    sequence.sort_by_key(|&candidate| {
        std::cmp::Reverse(component.candidates[candidate as usize].weight)
    });
    sequence
}

/// Accepts each candidate of a sequence that is compatible with those accepted before it. `before`
/// lists the candidates that are accepted already, ascending.
fn accept(mut accepted: Accepted<'_>, before: Vec<u32>, sequence: &[u32]) -> Choice {
    let component = accepted.component;
    let is_new = |candidate: &u32| before.binary_search(candidate).is_err();
    let others: Vec<u32> = sequence.iter().copied().filter(is_new).collect();
    let mut indices = before;
    let (mut rest, mut length) = (&others[..], others.len());
    while !rest.is_empty() {
        let run = &rest[..length.min(rest.len())];
        match accepted.add(run) {
            Some(addition) => {
                accepted.commit(addition);
                indices.extend(run);
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
    indices.sort_unstable();
    let weight = |&candidate: &u32| component.candidates[candidate as usize].weight;
    let cost = component.weight() - indices.iter().map(weight).sum::<u64>();
    Choice { accepted: indices, cost, order: accepted.order() }
}
