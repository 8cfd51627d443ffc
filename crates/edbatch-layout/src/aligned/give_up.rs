//! Giving up operands: which of them to copy when there is no ideal layout.
//!
//! Operands are accepted one at a time, the heaviest first; those that cannot be joined to the ones
//! before them are copied. Then again in other orders: those first that the declaration order
//! serves, so that a plan is never worse than it; then those first that were copied in the best
//! attempt, or all shuffled.
//!
//! As a subset of what can be accepted together can be accepted too, a run of operands is tried as
//! one: all of them at first, half as many after a refusal, twice as many after a success. So k
//! refusals among n operands take about 2 k log₂(n / k) tests, and none of them one. *Cost*: a test
//! is linear in the part of the problem that is searched. Large parts are [sifted](super::sift)
//! therefore, and tests and restarts are bounded by how many positions they look at.
//!
//! *Source*: ours. Alg. 2 gives up whole batches, which copies more.

use rand::Rng;
use rand::seq::SliceRandom;

use super::accepted::Accepted;
use super::agreement::agreeing_first;
use super::component::Component;
use super::layout::heaviest_group;
use super::sift::sift;

/// A component with more positions than this is sifted.
const LARGE: u32 = 256;

/// No restart begins after so many positions were looked at, in large components; each attempt
/// counts as [`FIXED_WORK`] looks at each position besides what the sifting takes.
const MOST_WORK: u64 = 1 << 21;
const FIXED_WORK: u64 = 4;

/// How many positions the tests after a sifting may look at.
const TEST_LANES: u32 = 1 << 21;

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

/// The best choice of an attempt with the heaviest first, one from the declaration order, and
/// `restarts` more.
pub(super) fn give_up(component: &Component, restarts: u32, rng: &mut impl Rng) -> Choice {
    let heaviest_first = by_weight(component);
    let mut work = 0;
    let mut best = accept_in_order(component, &heaviest_first, rng, &mut work);
    let declared = if best.cost > 0 { served_as_declared(component) } else { Vec::new() };
    if best.cost > 0 && (!is_large(component) || weight_without(component, &declared) < best.cost) {
        let mut accepted = Accepted::none(component);
        let addition = accepted.add(&declared).expect("the declaration order serves them");
        accepted.keep(addition);
        keep_better(&mut best, accept_others(accepted, declared, &heaviest_first));
    }
    for restart in 0..restarts {
        if best.cost == 0 || work > MOST_WORK {
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
        keep_better(&mut best, accept_in_order(component, &sequence, rng, &mut work));
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
    let place_of: Vec<u32> = (0..component.variables.len() as u32).collect();
    let mut elements: Vec<u32> = (0..component.elements.len() as u32).collect();
    let element = |index: &u32| &component.elements[*index as usize];
    elements.sort_by_key(|index| element(index).batch);
    let batches = elements.chunk_by(|a, b| element(a).batch == element(b).batch);
    let mut served: Vec<u32> = batches
        .flat_map(|batch| {
            let named =
                |index: &u32| (*index, &element(index).positions[..], element(index).weight);
            heaviest_group(batch.iter().map(named), &place_of)
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

/// Whether a test of the whole component is too dear to be made for each operand.
fn is_large(component: &Component) -> bool {
    component.positions() > LARGE
}

/// The weight of all elements but these.
fn weight_without(component: &Component, kept: &[u32]) -> u64 {
    let weight = |&element: &u32| component.elements[element as usize].weight;
    component.weight() - kept.iter().map(weight).sum::<u64>()
}

/// Adds the positions that a large component made it look at to `work`.
fn accept_in_order(
    component: &Component,
    sequence: &[u32],
    rng: &mut impl Rng,
    work: &mut u64,
) -> Choice {
    if is_large(component) {
        let mut accepted = Accepted::none(component);
        if let Ok(addition) = accepted.add(sequence) {
            accepted.keep(addition);
            return accept_others(accepted, sequence.to_vec(), &[]);
        }
        let sifted = sift(component, &agreeing_first(component, sequence, rng));
        *work += sifted.work + FIXED_WORK * u64::from(component.positions());
        return accept_others(sifted.accepted, sifted.kept, sequence);
    }
    accept_others(Accepted::none(component), Vec::new(), sequence)
}

/// Accepts what can be of a sequence besides what is kept already; in large components, as far as
/// [`TEST_LANES`] allow.
fn accept_others(mut accepted: Accepted<'_>, mut kept: Vec<u32>, sequence: &[u32]) -> Choice {
    let component = accepted.component;
    let mut is_kept = vec![false; component.elements.len()];
    kept.iter().for_each(|&element| is_kept[element as usize] = true);
    let others = sequence.iter().copied().filter(|&element| !is_kept[element as usize]);
    let tests = if is_large(component) { TEST_LANES / component.positions() } else { u32::MAX };
    kept.extend(accept_each(&mut accepted, &others.collect::<Vec<_>>(), tests));
    kept.sort_unstable();
    let cost = weight_without(component, &kept);
    Choice { kept, cost, order: accepted.order() }
}

/// Accepts what can be, one after the other, as far as so many tests show. Returns it.
fn accept_each(accepted: &mut Accepted<'_>, sequence: &[u32], tests: u32) -> Vec<u32> {
    let mut kept = Vec::with_capacity(sequence.len());
    let (mut rest, mut length) = (sequence, sequence.len());
    for _ in 0..tests {
        if rest.is_empty() {
            break;
        }
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
