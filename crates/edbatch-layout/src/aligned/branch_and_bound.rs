//! Branch and bound: improves a choice of candidates, or proves it optimal.
//!
//! Candidates are decided one by one, heaviest first. Each is accepted if it is compatible with the
//! accepted ones, and then, in a second branch, copied. A branch ends if no choice in it can cost
//! less than the best one so far: if the weight copied so far, plus a lower bound on the weight
//! still to be copied, reaches the cost of the best choice.
//!
//! The bound adds the weights of the undecided candidates that are incompatible with an accepted
//! one. Among the others it forms disjoint pairs of incompatible candidates, and adds the smaller
//! weight of each pair.
//!
//! *Cost*: exponential, up to the given number of compatibility tests.

use super::accepted::Accepted;
use super::component::Component;
use super::greedy::{Choice, by_weight};

/// Searches for a better choice, with at most `tests` compatibility tests. Also returns true if the
/// returned choice is proved optimal.
pub(super) fn branch_and_bound(component: &Component, start: Choice, tests: u32) -> (Choice, bool) {
    let count = component.candidates.len();
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

/// For each candidate, the candidates that are incompatible with it.
fn exclusions(component: &Component) -> Vec<Vec<u32>> {
    let count = component.candidates.len() as u32;
    let mut excludes = vec![Vec::new(); count as usize];
    let mut accepted = Accepted::none(component);
    for a in 0..count {
        let first = accepted.add(&[a]).expect("an order can use any single candidate in place");
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
    /// The candidates in the order in which they are decided, heaviest first.
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

/// The error that the limit on compatibility tests is reached.
struct Spent;

impl Search<'_> {
    /// Decides the candidates from `next` on. `cost` is the total weight of the earlier candidates
    /// that are copied.
    fn branch(&mut self, next: usize, cost: u64) -> Result<(), Spent> {
        if cost + self.bound(next) >= self.best.cost {
            return Ok(());
        }
        let Some(&candidate) = self.sequence.get(next) else {
            let is_accepted = |&c: &u32| self.state[c as usize] == State::Accepted;
            let accepted = (0..self.sequence.len() as u32).filter(is_accepted).collect();
            self.best = Choice { accepted, cost, order: self.accepted.order() };
            return Ok(());
        };
        if !self.is_excluded(candidate) {
            self.tests = self.tests.checked_sub(1).ok_or(Spent)?;
            if let Some(addition) = self.accepted.add(&[candidate]) {
                self.state[candidate as usize] = State::Accepted;
                let done = self.branch(next + 1, cost);
                self.accepted.undo(addition);
                self.state[candidate as usize] = State::Open;
                done?;
            }
        }
        self.state[candidate as usize] = State::Copied;
        let done = self.branch(next + 1, cost + self.weight(candidate));
        self.state[candidate as usize] = State::Open;
        done
    }

    fn weight(&self, candidate: u32) -> u64 {
        self.component.candidates[candidate as usize].weight
    }

    fn is_excluded(&self, candidate: u32) -> bool {
        let mut excludes = self.excludes[candidate as usize].iter();
        excludes.any(|&other| self.state[other as usize] == State::Accepted)
    }

    /// Returns a lower bound on the weight that must be copied among the candidates from `next` on.
    fn bound(&self, next: usize) -> u64 {
        let open = &self.sequence[next..];
        let mut counted = vec![false; self.sequence.len()];
        let mut bound = 0;
        for &candidate in open {
            if self.is_excluded(candidate) {
                counted[candidate as usize] = true;
                bound += self.weight(candidate);
            }
        }
        for &candidate in open {
            if counted[candidate as usize] {
                continue;
            }
            let free = |&&other: &&u32| {
                self.state[other as usize] == State::Open && !counted[other as usize]
            };
            if let Some(&other) = self.excludes[candidate as usize].iter().find(free) {
                counted[candidate as usize] = true;
                counted[other as usize] = true;
                bound += self.weight(candidate).min(self.weight(other));
            }
        }
        bound
    }
}
