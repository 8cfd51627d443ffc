//! A large mini-batch in parts: each thread wires, schedules, plans and runs whole instances.
//!
//! Threads that share batches look for each other at every batch, fetch rows that another one wrote, and
//! wait while one of them plans. Instances have nothing in common, so parts of a mini-batch need none of
//! that: two threads take little more than half the time, wherever the cores stand. A part must be large
//! enough to fill its batches.
//!
//! Where values are so large that those of a mini-batch leave the cache before they are read again (matrices, as in
//! MV-RNN), parts that stay in it are faster on a single thread too.

use std::cell::RefCell;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, LockResult, Mutex, PoisonError};

use edbatch_graph::{Graph, Network};
use edbatch_models::Model;
use edbatch_runtime::Team;

use crate::executor::Executor;
use crate::in_flight::InFlight;
use crate::{Counts, Rows, RunError, Statistics};

/// Fewer instances for each thread are run by all threads together.
const FEWEST: usize = 4;

/// More instances make batches no faster, but parts less even.
const MOST: usize = 64;

/// What one thread needs to run instances, and what that took.
pub(crate) struct Lane {
    pub(crate) executor: Executor,
    pub(crate) statistics: Statistics,
    /// The graph that ran last, for its memory.
    pub(crate) graph: RefCell<Graph>,
}

impl Lane {
    pub(crate) fn new(network: &Arc<Network>, executor: Executor) -> Self {
        let graph = RefCell::new(Graph::new(network.clone()));
        Self { executor, statistics: Statistics::default(), graph }
    }

    /// The same on memory of its own, and nothing counted yet.
    pub(crate) fn another(&self, network: &Arc<Network>) -> Self {
        let mut another = Self::new(network, self.executor.another());
        another.statistics.counts = self.statistics.counts.map(|_| Counts::default());
        another
    }

    /// Inputs on their way through this lane.
    pub(crate) fn in_flight<'a, M: Model>(&'a mut self, model: &'a M) -> InFlight<'a, M> {
        let Self { executor, statistics, graph } = self;
        InFlight { model, graph, executor, statistics }
    }

    /// Runs inputs; as many outputs take the rows that each emits, and lend their memory.
    pub(crate) fn run<M: Model>(
        &mut self,
        model: &M,
        inputs: &[M::Input],
        outputs: &mut [Rows],
    ) -> Result<(), RunError> {
        let seats = outputs.iter_mut().map(mem::take).collect();
        let done = |instance: usize, rows: &mut Rows| mem::swap(&mut outputs[instance], rows);
        self.in_flight(model).run(seats, inputs, |_, _| true, done)
    }

    /// Counts what another has run as its own.
    fn take_in(&mut self, other: &mut Self) {
        let counts = other.statistics.counts.map(|_| Counts::default());
        let new = Statistics { counts, ..Statistics::default() };
        self.statistics.weight_bytes = other.executor.bytes().weights as u64;
        self.statistics.add(&mem::replace(&mut other.statistics, new));
        if let (Some(own), Some(report)) = (self.executor.report_mut(), other.executor.report_mut())
        {
            own.merge(&mem::take(report));
        }
    }
}

/// Bytes of values that stay in a cache: a quarter of what the cores of a server share.
const CACHED: u128 = 8 << 20;

/// How mini-batches are divided, and a lane for each of several threads.
pub(crate) struct Lanes {
    /// None, if the caller's thread is the only one.
    lanes: Vec<Mutex<Lane>>,
    team: Team,
}

impl Lanes {
    /// Lanes for so many threads, the caller's among them.
    pub(crate) fn new(threads: usize, lane: impl Fn() -> Lane) -> Self {
        let lanes = if threads > 1 { threads } else { 0 };
        let lanes = (0..lanes).map(|_| Mutex::new(lane())).collect();
        Self { lanes, team: Team::new(threads - 1) }
    }

    /// All lanes, to change or to look at them.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut().map(|lane| unpoisoned(lane.get_mut()))
    }

    /// Divides instances into parts: a single one, if all together are best.
    pub(crate) fn parts<M: Model>(&self, model: &M, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let (threads, instances) = (self.team.threads(), inputs.len());
        let for_threads = match instances.div_ceil(threads * MOST) {
            each if threads > 1 && instances >= threads * FEWEST => each * threads,
            _ => 1,
        };
        let bytes: u128 = inputs.iter().map(|input| model.bytes(input) as u128).sum();
        let for_cache = bytes.div_ceil(CACHED).min(instances as u128) as usize;
        let parts = match for_threads.max(for_cache) {
            0 | 1 => 1,
            parts => parts.next_multiple_of(threads),
        };
        let work: Vec<usize> = inputs.iter().map(|input| model.work(input)).collect();
        divide(&work, parts).filter(|part| !part.is_empty()).collect()
    }

    /// As [`Lane::run`], in parts, or on a lane of their own if they are one; which counts all of it.
    pub(crate) fn run<M: Model>(
        &mut self,
        own: &mut Lane,
        model: &M,
        inputs: &[M::Input],
        outputs: &mut [Rows],
    ) -> Result<(), RunError> {
        let parts = self.parts(model, inputs);
        let mut rest = outputs;
        let mut parts = parts.into_iter().map(|part| {
            let (outputs, behind) = mem::take(&mut rest).split_at_mut(part.len());
            rest = behind;
            (part.start, &inputs[part], outputs)
        });
        if self.lanes.is_empty() || parts.len() <= 1 {
            return parts.try_for_each(|(first, inputs, outputs)| {
                own.run(model, inputs, outputs).map_err(|error| error.of_part(first))
            });
        }
        let parts: Vec<_> = parts.collect();
        let (lanes, failed) = (&self.lanes, Mutex::new(None));
        self.team.share(parts.into_iter(), |member, (first, inputs, outputs)| {
            let mut lane = unpoisoned(lanes[member].lock());
            if let Err(error) = lane.run(model, inputs, outputs) {
                // Of several errors that of the first part counts.
                let mut failed = unpoisoned(failed.lock());
                if failed.as_ref().is_none_or(|&(other, _)| first < other) {
                    *failed = Some((first, error.of_part(first)));
                }
            }
        });
        self.each().for_each(|lane| own.take_in(lane));
        match unpoisoned(failed.into_inner()) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// Cuts pieces of work into so many parts of about the same work, in their order. Some may be empty.
fn divide(pieces: &[usize], parts: usize) -> impl Iterator<Item = Range<usize>> {
    // What is no work at all is divided as any other.
    let work = |piece: &usize| (*piece).max(1) as u128;
    let all: u128 = pieces.iter().map(work).sum();
    let (mut end, mut before) = (0, 0);
    (1..=parts as u128).map(move |part| {
        let first = end;
        // A piece belongs to the part that its middle lies in.
        let bound = 2 * all * part;
        while let Some(work) = pieces.get(end).map(work)
            && (2 * before + work) * parts as u128 <= bound
        {
            before += work;
            end += 1;
        }
        first..end
    })
}

/// What was locked, whatever a panic left in it: every mini-batch begins anew.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_about_as_much_work_and_leave_nothing_out() {
        let divided = |work: &[usize], parts| divide(work, parts).collect::<Vec<_>>();
        assert_eq!(divided(&[1; 8], 2), [0..4, 4..8]);
        assert_eq!(divided(&[5, 1, 1, 1, 1, 1], 2), [0..1, 1..6]);
        assert_eq!(divided(&[1, 1, 9, 1], 3), [0..2, 2..3, 3..4]);
        assert_eq!(divided(&[usize::MAX, 1, 1], 2), [0..1, 1..3]);
        assert_eq!(divided(&[0; 4], 2), [0..2, 2..4]);
        assert_eq!(divided(&[], 2), [0..0, 0..0]);
        for parts in 1..9 {
            let work: Vec<_> = (0..50).map(|i| i * 37 % 23).collect();
            let ranges = divided(&work, parts);
            assert!(ranges.iter().flat_map(Clone::clone).eq(0..50), "{ranges:?}");
            let (all, most) = (work.iter().sum::<usize>(), 22);
            for range in ranges {
                let part: usize = work[range].iter().sum();
                assert!(part.abs_diff(all / parts) <= most, "{part} of {all} in {parts}");
            }
        }
    }
}
