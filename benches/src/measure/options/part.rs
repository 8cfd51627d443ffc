//! The parts of a run.

use clap::ValueEnum;

/// A part of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// Batches of every policy, and the lower bound; with searches if it is named
    Counts,
    /// Instances a second of every system
    Throughput,
    /// Time of mini-batches of 1 and 8
    Latency,
    /// Time by phase
    Breakdown,
    /// Cost and benefit of learning a policy
    Learn,
    /// Copies made by cells, as declared and as planned
    Cells,
    /// Reductions of PQ-trees
    #[value(name = "pqtree")]
    PqTree,
    /// Cost of a node in graphs of 1,000 to a million nodes
    Growth,
    /// Training: instances a second forward, back and updated, by part of a step
    Training,
    /// Tables and figures of the paper's evaluation, in hours; only by name
    Paper,
    /// Other people's programs, chosen by --peers
    #[value(skip)]
    Peers,
    /// Memory and bits during an hour of mini-batches of changing shape; only by name
    Soak,
    /// Bandwidths and peak of a CUDA device; this and the following parts only by name or with
    /// --gpu
    Probe,
    /// Goldens and random networks: the device computes the processor's bits
    Verify,
    /// Training of goldens and random networks: the device computes the processor's bits
    VerifyTraining,
    /// Launches, barriers and transfers of the device
    Latencies,
    /// Waves of unit tiles of every shape, and the constants of the model that follow from them
    Waves,
    /// compute-sanitizer on small inputs
    Sanitize,
    /// Many plans at once on the device: no bit changes
    Stress,
}

impl Part {
    /// The parts for a device, in the order of a run. Throughput comes before `Stress`.
    pub const DEVICE: [Self; 7] = [
        Self::Probe,
        Self::Verify,
        Self::VerifyTraining,
        Self::Latencies,
        Self::Waves,
        Self::Stress,
        Self::Sanitize,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no part is hidden").get_name().into()
    }
}
