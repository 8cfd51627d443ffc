//! Branch and bound over the operands to copy: improves a choice, or proves it optimal.
//!
//! Elements are decided one by one, heaviest first: each is accepted if it is compatible with those
//! accepted before, and then, in a second branch, copied. A branch ends when the weight that it has
//! copied, plus a lower bound on the weight that it must still copy, reaches the cost of the best
//! choice. The bound adds the weights of undecided elements that are incompatible with an accepted
//! one. Among the others it forms disjoint pairs of incompatible elements, and adds the smaller
//! weight of each pair.
//!
//! *Cost*: exponential, up to the given number of compatibility tests.

use super::accepted::Accepted;
use super::component::Component;
use super::greedy::{Choice, by_weight};

/// Searches for a better choice, with at most `tests` compatibility tests. Also returns true if
/// they prove that the returned choice is optimal.
pub(super) fn branch_and_bound(component: &Component, start: Choice, tests: u32) -> (Choice, bool) {
    let count = component.elements.len();
    if start.cost == 0 || (count * count / 2) as u64 > u64::from(tests) {
        let proved = start.cost == 0;
        return (start, proved);
    }
    let mut search = Search {
        component,
        sequence: by_weight(component),
        excludes: exclusions(component),
        accepted: Accepted::none(component),
        state: vec![State::Open; count],
        best: start,
        tests,
    };
    let proved = search.branch(0, 0).is_ok();
    (search.best, proved)
}

/// For each element, the elements that are incompatible with it.
fn exclusions(component: &Component) -> Vec<Vec<u32>> {
    let count = component.elements.len() as u32;
    let mut excludes = vec![Vec::new(); count as usize];
    let mut accepted = Accepted::none(component);
    for a in 0..count {
        let first = accepted.add(&[a]).expect("a single operand can always be contiguous");
        for b in a + 1..count {
            match accepted.add(&[b]) {
                Some(second) => accepted.undo(second),
                None => {
                    excludes[a as usize].push(b);
                    excludes[b as usize].push(a);
                }
            }
        }
        accepted.undo(first);
    }
    excludes
}

struct Search<'a> {
    component: &'a Component,
    /// The elements in the order in which they are decided, heaviest first.
    sequence: Vec<u32>,
    excludes: Vec<Vec<u32>>,
    accepted: Accepted<'a>,
    state: Vec<State>,
    best: Choice,
    tests: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Accepted,
    Copied,
}

/// The error that all tests are used up.
struct Spent;

impl Search<'_> {
    /// Decides the elements from `next` on. `cost` is the total weight of the earlier elements that
    /// are copied.
    fn branch(&mut self, next: usize, cost: u64) -> Result<(), Spent> {
        if cost + self.bound(next) >= self.best.cost {
            return Ok(());
        }
        let Some(&element) = self.sequence.get(next) else {
            let accepted = |&e: &u32| self.state[e as usize] == State::Accepted;
            let kept = (0..self.sequence.len() as u32).filter(accepted).collect();
            self.best = Choice { kept, cost, order: self.accepted.order() };
            return Ok(());
        };
        if !self.is_excluded(element) {
            self.tests = self.tests.checked_sub(1).ok_or(Spent)?;
            if let Some(addition) = self.accepted.add(&[element]) {
                self.state[element as usize] = State::Accepted;
                let done = self.branch(next + 1, cost);
                self.accepted.undo(addition);
                self.state[element as usize] = State::Open;
                done?;
            }
        }
        self.state[element as usize] = State::Copied;
        let done = self.branch(next + 1, cost + self.weight(element));
        self.state[element as usize] = State::Open;
        done
    }

    fn weight(&self, element: u32) -> u64 {
        self.component.elements[element as usize].weight
    }

    fn is_excluded(&self, element: u32) -> bool {
        let mut excludes = self.excludes[element as usize].iter();
        excludes.any(|&other| self.state[other as usize] == State::Accepted)
    }

    /// Returns a lower bound on the total weight of those elements from `next` on that must be
    /// copied.
    fn bound(&self, next: usize) -> u64 {
        let open = &self.sequence[next..];
        let mut counted = vec![false; self.sequence.len()];
        let mut bound = 0;
        for &element in open {
            if self.is_excluded(element) {
                counted[element as usize] = true;
                bound += self.weight(element);
            }
        }
        for &element in open {
            if counted[element as usize] {
                continue;
            }
            let free = |&&other: &&u32| {
                self.state[other as usize] == State::Open && !counted[other as usize]
            };
            if let Some(&other) = self.excludes[element as usize].iter().find(free) {
                counted[element as usize] = true;
                counted[other as usize] = true;
                bound += self.weight(element).min(self.weight(other));
            }
        }
        bound
    }
}
