//! Counts and times of running mini-batches.

use std::time::Duration;

use crate::Report;

/// Counts and times since an engine was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Number of inputs.
    pub instances: u64,
    /// Number of graphs: one for each mini-batch or part of one, and one more each time that
    /// instances await values.
    pub graphs: u64,
    /// Number of nodes in all graphs.
    pub nodes: u64,
    /// Number of batches in all schedules, or of nodes if nothing is batched.
    pub batches: u64,
    /// Number of decoder steps that were computed after the end of their sentence, and dropped. A
    /// device computes several steps of each sentence in a graph.
    pub dropped_steps: u64,
    /// Number of batches chosen by [`Critical`](edbatch_policy::Critical) because the table of a
    /// learned policy did not have the state.
    pub unseen: u64,
    /// Counts made only on request, because they cost about as much as scheduling.
    pub counts: Option<Counts>,
    /// Time to build graphs.
    pub construct: Duration,
    /// Time to schedule batches.
    pub schedule: Duration,
    /// Time to plan the memory layout of rows.
    pub plan: Duration,
    /// Time to run batches and read results.
    pub execute: Duration,
    /// Peak memory for values in bytes: the largest arena and the carried values, summed over the
    /// threads.
    pub arena_bytes: u64,
    /// Size of the weights in bytes. [Other engines](crate::Engine::fork) may share them.
    pub weight_bytes: u64,
}

impl Statistics {
    /// Adds counts and times of other mini-batches or parts of one, but not the bytes of memory.
    pub fn add(&mut self, other: &Self) {
        self.instances += other.instances;
        self.graphs += other.graphs;
        self.nodes += other.nodes;
        self.batches += other.batches;
        self.dropped_steps += other.dropped_steps;
        self.unseen += other.unseen;
        self.construct += other.construct;
        self.schedule += other.schedule;
        self.plan += other.plan;
        self.execute += other.execute;
        if let Some(other) = &other.counts {
            let own = self.counts.get_or_insert_default();
            own.bound += other.bound;
            own.gathered_bytes += other.gathered_bytes;
        }
    }

    /// Returns the peak memory for values and weights in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.arena_bytes + self.weight_bytes
    }
}

/// The additional [`Statistics`] of [`EngineOptions::counts`](crate::EngineOptions::counts).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Lower bounds on the number of batches, summed over all graphs.
    pub bound: u64,
    /// Number of bytes read through lists of rows.
    pub gathered_bytes: u64,
}

/// The statistics of mini-batches, with a report on request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) statistics: Statistics,
    /// The report, if requested.
    pub(crate) report: Option<Report>,
    /// The inputs and the nodes of the first round, and of the second.
    pub(crate) rounds: [(usize, usize); 2],
}

impl Tally {
    /// Creates an empty tally. If `counts`, it includes the [`Counts`] and the report.
    pub(crate) fn new(counts: bool) -> Self {
        let report = counts.then(Report::default);
        let counts = counts.then(Counts::default);
        let statistics = Statistics { counts, ..Statistics::default() };
        Self { statistics, report, ..Self::default() }
    }

    /// Returns an empty tally with the same choice of what to count.
    pub(crate) fn cleared(&self) -> Self {
        Self::new(self.statistics.counts.is_some())
    }

    /// Adds the tally of other mini-batches or parts of one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.statistics.add(&other.statistics);
        for (own, other) in self.rounds.iter_mut().zip(other.rounds) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
        if let Some(other) = &other.report {
            self.report.get_or_insert_default().merge(other);
        }
    }
}
