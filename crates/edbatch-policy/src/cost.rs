//! What a schedule costs in time, when a batch of a kind costs a line: `base + slope × nodes`.
//!
//! Every node runs once under every schedule, so Σ slope × nodes is the same for all of them: two
//! schedules differ by Σ `base` of their batches alone. **The objective is a weighted number of
//! batches**, with one weight a kind; [`batch_costs`](CostModel::batch_costs) gives it to
//! [`beam`](fn@crate::beam), [`Critical`](crate::Critical) and [`learn`](fn@crate::learn). What
//! holds for batches holds for it: Σ base × longest chain is a lower bound, and a kind whose ratio
//! is 1 begins some cheapest schedule, because moving its batch to the front changes no sum.
//!
//! So costs matter where the bases differ: when a batch has to be wasted, let it be a cheap one.

use edbatch_graph::{Kind, Schedule};

/// Nanoseconds of a batch, by its number of nodes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Line {
    /// Of a batch, however small.
    pub base: f64,
    /// Of each node.
    pub slope: f64,
}

/// One batch, timed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Its kind.
    pub kind: Kind,
    /// Its nodes.
    pub nodes: u32,
    /// Its time.
    pub nanoseconds: f64,
}

/// A line per kind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    /// By kind.
    pub lines: Vec<Line>,
}

impl CostModel {
    /// The line of least squares through the samples of each kind; neither base nor slope is
    /// negative. A kind without samples costs nothing; one with a single size has no slope.
    #[must_use]
    pub fn fit(kinds: usize, samples: &[Sample]) -> Self {
        let of_kind = |kind| samples.iter().filter(move |sample| sample.kind.index() == kind);
        Self { lines: (0..kinds).map(|kind| line(of_kind(kind))).collect() }
    }

    /// Nanoseconds of a schedule.
    #[must_use]
    pub fn cost(&self, schedule: &Schedule) -> f64 {
        let cost = |batch: edbatch_graph::Batch<'_>| {
            let line = self.lines[batch.kind.index()];
            line.base + line.slope * batch.nodes.len() as f64
        };
        schedule.batches().map(cost).sum()
    }

    /// The weight of a batch of each kind: its base in whole nanoseconds, at least 1.
    #[must_use]
    pub fn batch_costs(&self) -> Vec<u32> {
        let weight = |line: &Line| line.base.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        self.lines.iter().map(weight).collect()
    }
}

fn line<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> Line {
    let count = samples.clone().count() as f64;
    if count == 0.0 {
        return Line::default();
    }
    let mean = |value: fn(&Sample) -> f64| samples.clone().map(value).sum::<f64>() / count;
    let (nodes, time) = (mean(|s| s.nodes.into()), mean(|s| s.nanoseconds));
    let (mut covariance, mut variance) = (0.0, 0.0);
    for sample in samples.clone() {
        let off = f64::from(sample.nodes) - nodes;
        covariance += off * (sample.nanoseconds - time);
        variance += off * off;
    }
    let slope = if variance == 0.0 { 0.0 } else { (covariance / variance).max(0.0) };
    let base = time - slope * nodes;
    if base >= 0.0 {
        return Line { base, slope };
    }
    // Through the origin, then.
    let square = mean(|s| f64::from(s.nodes).powi(2));
    let product = mean(|s| f64::from(s.nodes) * s.nanoseconds);
    Line { base: 0.0, slope: product / square }
}
