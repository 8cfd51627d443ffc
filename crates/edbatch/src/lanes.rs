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
use std::ops::Range;
use std::sync::{Arc, LockResult, Mutex, PoisonError};
use std::{fmt, mem};

use edbatch_graph::{Graph, Network, Record};
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

    /// Counts what others have run as its own, and all memory that is held.
    pub(crate) fn take_in(&mut self, others: &mut Lanes) {
        let mut held = self.executor.bytes().arena;
        for lane in others.each() {
            let bytes = lane.executor.bytes();
            held += bytes.arena;
            self.statistics.weight_bytes = bytes.weights as u64;
            let counts = lane.statistics.counts.map(|_| Counts::default());
            let new = Statistics { counts, ..Statistics::default() };
            self.statistics.add(&mem::replace(&mut lane.statistics, new));
            if let Some(report) = self.executor.report_mut() {
                report.merge(&lane.executor.report_mut().map(mem::take).unwrap_or_default());
            }
        }
        self.statistics.arena_bytes = self.statistics.arena_bytes.max(held as u64);
    }
}

/// Bytes of values that are kept in the cache: a quarter of what cores of servers share.
const CACHED: u128 = 8 << 20;

/// A lane for each thread.
pub(crate) struct Lanes {
    lanes: Vec<Mutex<Lane>>,
    team: Team,
    /// The most bytes of a node's values.
    row: usize,
}

impl Lanes {
    /// Lanes for so many threads, the caller's among them.
    pub(crate) fn new(threads: usize, network: &Network, lane: impl Fn() -> Lane) -> Self {
        let lanes = (0..threads).map(|_| Mutex::new(lane())).collect();
        let elements = |record: &Record| record.fields.iter().map(|f| f.shape.elements()).sum();
        let row: usize = network.records().iter().map(elements).max().unwrap_or(0);
        Self { lanes, team: Team::new(threads - 1), row: row * size_of::<f32>() }
    }

    /// All lanes, to change or to look at them.
    pub(crate) fn each(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.iter_mut().map(|lane| unpoisoned(lane.get_mut()))
    }

    /// Divides instances into parts: a single one, if all together are best.
    pub(crate) fn divide<M: Model>(&self, model: &M, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let (threads, instances) = (self.lanes.len(), inputs.len());
        let work: Vec<usize> = inputs.iter().map(|input| model.work(input)).collect();
        let for_threads = match instances.div_ceil(threads * MOST) {
            each if threads > 1 && instances >= threads * FEWEST => each * threads,
            _ => 1,
        };
        let bytes = sum(&work) * self.row as u128;
        let for_cache = bytes.div_ceil(CACHED).min(instances as u128) as usize;
        let parts = match for_threads.max(for_cache) {
            0 | 1 => 1,
            parts => parts.next_multiple_of(threads),
        };
        divide(&work, parts).collect()
    }

    /// As [`Lane::run`], in parts; of several errors that of the first part counts.
    pub(crate) fn run<M: Model>(
        &mut self,
        model: &M,
        parts: &[Range<usize>],
        inputs: &[M::Input],
        outputs: &mut [Rows],
    ) -> Result<(), RunError> {
        let mut rest = outputs;
        let part = |part: &Range<usize>| {
            let (outputs, behind) = mem::take(&mut rest).split_at_mut(part.len());
            rest = behind;
            (part.start, &inputs[part.clone()], outputs)
        };
        let parts: Vec<_> = parts.iter().map(part).collect();
        let lanes = &self.lanes;
        let failed = Mutex::new(None);
        self.team.share(parts.into_iter(), |member, (first, inputs, outputs)| {
            let mut lane = unpoisoned(lanes[member].lock());
            if let Err(error) = lane.run(model, inputs, outputs) {
                let mut failed = unpoisoned(failed.lock());
                if failed.as_ref().is_none_or(|&(other, _)| first < other) {
                    *failed = Some((first, error.of_part(first)));
                }
            }
        });
        match unpoisoned(failed.into_inner()) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

/// Cuts pieces of work into so many parts of about the same work, in their order. Some may be empty.
fn divide(work: &[usize], parts: usize) -> impl Iterator<Item = Range<usize>> {
    let all = sum(work);
    let (mut end, mut before) = (0, 0);
    (1..=parts).map(move |part| {
        let first = end;
        // A piece belongs to the part that its middle lies in.
        while end < work.len()
            && (part == parts
                || (2 * before + work[end] as u128) * (parts as u128) < 2 * all * part as u128)
        {
            before += work[end] as u128;
            end += 1;
        }
        first..end
    })
}

fn sum(work: &[usize]) -> u128 {
    work.iter().map(|&work| work as u128).sum()
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
        assert_eq!(divided(&[0, 0, 0], 2), [0..0, 0..3]);
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
