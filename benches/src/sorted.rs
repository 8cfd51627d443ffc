//! Records by what was measured, as tables and pages want them.

use crate::backends::BackendName;
use crate::record::{
    Breakdown, Cell, Counts, Figures, Growth, Learn, Peer, PqTrees, Record, Throughput,
};
use crate::soak::Soak;

/// The figures of some records.
#[derive(Clone, Debug, Default)]
pub struct Sorted<'a> {
    /// Batches by policy.
    pub counts: Vec<&'a Counts>,
    /// Speeds.
    pub throughputs: Vec<&'a Throughput>,
    /// Speeds with small mini-batches.
    pub latencies: Vec<&'a Throughput>,
    /// Where time goes.
    pub breakdowns: Vec<&'a Breakdown>,
    /// What learning costs.
    pub learns: Vec<&'a Learn>,
    /// What cells copy.
    pub cells: Vec<&'a Cell>,
    /// Speeds of PQ-trees.
    pub trees: Vec<&'a PqTrees>,
    /// What nodes cost.
    pub growths: Vec<&'a Growth>,
    /// Speeds of others.
    pub peers: Vec<&'a Peer>,
    /// What hours of mini-batches showed.
    pub soaks: Vec<&'a Soak>,
}

/// Whether plans were carried out by the processor, which peaks and rivals are those of.
#[must_use]
pub fn on_cpu(record: &Throughput) -> bool {
    record.backend == BackendName::Cpu.name()
}

impl<'a> Sorted<'a> {
    /// Sorts records.
    pub fn new(records: impl IntoIterator<Item = &'a Record>) -> Self {
        Self::of(records.into_iter().map(|record| &record.figures))
    }

    /// Sorts figures.
    pub fn of(figures: impl IntoIterator<Item = &'a Figures>) -> Self {
        let mut sorted = Self::default();
        for figures in figures {
            match figures {
                Figures::Counts(figures) => sorted.counts.push(figures),
                Figures::Throughput(figures) => sorted.throughputs.push(figures),
                Figures::Latency(figures) => sorted.latencies.push(figures),
                Figures::Breakdown(figures) => sorted.breakdowns.push(figures),
                Figures::Learn(figures) => sorted.learns.push(figures),
                Figures::Cells(figures) => sorted.cells.push(figures),
                Figures::PqTree(figures) => sorted.trees.push(figures),
                Figures::Growth(figures) => sorted.growths.push(figures),
                Figures::Peer(figures) => sorted.peers.push(figures),
                Figures::Soak(figures) => sorted.soaks.push(figures),
            }
        }
        sorted
    }
}

/// Groups of neighbours that have the same key.
pub fn groups<'r, R, K: PartialEq>(
    records: &'r [&'r R],
    key: impl Fn(&R) -> K + 'r,
) -> impl Iterator<Item = &'r [&'r R]> {
    records.chunk_by(move |a, b| key(a) == key(b))
}
