//! What running mini-batches took.

use std::time::Duration;

use crate::Report;

/// Counts and times since an engine was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Inputs.
    pub instances: u64,
    /// Graphs: mini-batches or parts of them, and one more for each time that instances await
    /// values.
    pub graphs: u64,
    /// Nodes of all graphs.
    pub nodes: u64,
    /// Batches of all schedules; nodes, where nothing is batched.
    pub batches: u64,
    /// What is counted only if asked for, as it costs about as much as scheduling.
    pub counts: Option<Counts>,
    /// Building graphs.
    pub construct: Duration,
    /// Deciding the order of batches.
    pub schedule: Duration,
    /// Deciding where rows lie.
    pub plan: Duration,
    /// Running batches and reading results.
    pub execute: Duration,
    /// The most bytes that were held at once for values: the largest arena, of all threads
    /// together.
    pub arena_bytes: u64,
    /// Bytes of the weights, which [other engines](crate::Engine::fork) may share.
    pub weight_bytes: u64,
}

impl Statistics {
    /// Adds the counts and times of other mini-batches, or of parts of one, not the bytes that they
    /// held.
    pub fn add(&mut self, other: &Self) {
        self.instances += other.instances;
        self.graphs += other.graphs;
        self.nodes += other.nodes;
        self.batches += other.batches;
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

    /// The most bytes that were held at once, for values and weights.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.arena_bytes + self.weight_bytes
    }
}

/// What [`EngineOptions::counts`](crate::EngineOptions::counts) adds to [`Statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Lower bounds on the batches, summed over all graphs.
    pub bound: u64,
    /// Bytes that were read through lists of rows.
    pub gathered_bytes: u64,
}

/// What mini-batches took, and how their kinds batched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) statistics: Statistics,
    /// If it is asked for.
    pub(crate) report: Option<Report>,
}

impl Tally {
    /// Nothing yet; with what is counted only if asked for, or without.
    pub(crate) fn new(counts: bool) -> Self {
        let report = counts.then(Report::default);
        let counts = counts.then(Counts::default);
        Self { statistics: Statistics { counts, ..Statistics::default() }, report }
    }

    /// Forgets what was counted, not what is to be counted.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.statistics.counts.is_some());
    }

    /// Adds what other mini-batches, or parts of one, took.
    pub(crate) fn add(&mut self, other: &Self) {
        self.statistics.add(&other.statistics);
        if let Some(other) = &other.report {
            self.report.get_or_insert_default().merge(other);
        }
    }
}
