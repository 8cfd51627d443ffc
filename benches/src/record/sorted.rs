//! Records grouped by kind.

use crate::record::finding::{Finding, Outcome};
use crate::record::soak::Soak;
use crate::record::training::Training;
use crate::record::{
    Breakdown, Cell, Counts, Figures, Growth, Learn, Peer, PqTrees, Record, Throughput,
};

/// The figures of records, grouped by kind.
#[derive(Clone, Debug, Default)]
pub struct Sorted<'a> {
    /// Numbers of batches of policies.
    pub counts: Vec<&'a Counts>,
    /// Throughput of systems.
    pub throughputs: Vec<&'a Throughput>,
    /// Throughput with small mini-batches.
    pub latencies: Vec<&'a Throughput>,
    /// Time by phase.
    pub breakdowns: Vec<&'a Breakdown>,
    /// Learned policies.
    pub learns: Vec<&'a Learn>,
    /// Copies made by cells.
    pub cells: Vec<&'a Cell>,
    /// PQ-trees.
    pub trees: Vec<&'a PqTrees>,
    /// Costs of nodes in growing graphs.
    pub growths: Vec<&'a Growth>,
    /// Other programs.
    pub peers: Vec<&'a Peer>,
    /// Soaks.
    pub soaks: Vec<&'a Soak>,
    /// Checks and figures of a CUDA device.
    pub findings: Vec<&'a Finding>,
    /// Training.
    pub trainings: Vec<&'a Training>,
}

/// Returns true if the plans ran on the CPU.
pub fn on_cpu(record: &Throughput) -> bool {
    record.case.backend == "cpu"
}

impl<'a> Sorted<'a> {
    /// Groups records.
    pub fn new(records: impl IntoIterator<Item = &'a Record>) -> Self {
        Self::of(records.into_iter().map(|record| &record.figures))
    }

    /// Groups figures.
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
                Figures::Device(figures) => sorted.findings.push(figures),
                Figures::Training(figures) => sorted.trainings.push(figures),
            }
        }
        let key = |it: &&'a Training| (&it.case.model, it.case.hidden, it.case.batch);
        sorted.trainings.sort_by_key(key);
        sorted
    }

    /// Returns true if figures depend on a CUDA device.
    pub fn is_of_device(&self) -> bool {
        let throughputs = self.throughputs.iter().chain(&self.latencies);
        !self.findings.is_empty()
            || throughputs.map(|record| &record.case.backend).any(|backend| backend == "cuda")
            || self.breakdowns.iter().any(|record| record.case.backend == "cuda")
            || self.peers.iter().any(|record| record.case.backend == "cuda")
    }

    /// Returns a message if a check failed.
    pub fn failure(&self) -> Option<String> {
        let failed = |finding: &&&Finding| finding.outcome == Outcome::Failed;
        let findings: Vec<String> =
            self.findings.iter().filter(failed).map(ToString::to_string).collect();
        let soak = self.soaks.iter().find_map(|soak| soak.failure());
        soak.or((!findings.is_empty()).then(|| findings.join("; ")))
    }
}

/// Groups neighbouring records with the same key.
pub fn groups<'r, R, K: PartialEq>(
    records: &'r [&'r R],
    key: impl Fn(&R) -> K + 'r,
) -> impl Iterator<Item = &'r [&'r R]> {
    records.chunk_by(move |a, b| key(a) == key(b))
}
