//! What is measured of a model: its size, its kernels, and how engines use the device.

use std::fmt;
use std::sync::Arc;

use edbatch::cuda::{CudaOptions, Driver, Precision};
use edbatch_graph::Network;
use edbatch_layout::{CellStyle, Program};

use crate::workload::Failure;

/// The workloads, the first one first when there is little time.
pub const MODELS: [&str; 4] = ["tree_lstm", "lattice_lstm", "bilstm_tagger", "lstm_nmt"];

/// What is compiled of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels {
    /// What launches a plan.
    pub driver: Driver,
    /// How products are rounded.
    pub precision: Precision,
    /// Whether tables are folded when it is loaded.
    pub folded: bool,
}

impl Kernels {
    /// By teams, exact, nothing folded: what comparisons are made with.
    pub const TEAMS: Self =
        Self { driver: Driver::Teams, precision: Precision::Exact, folded: false };

    /// The same with a launch a wave.
    pub const WAVES: Self = Self { driver: Driver::Waves, ..Self::TEAMS };

    /// With folded tables.
    pub const FOLDED: Self = Self { folded: true, ..Self::TEAMS };

    /// With folded tables, on tensor cores.
    pub const TF32: Self = Self { precision: Precision::Tf32, ..Self::FOLDED };

    /// All that throughput is measured of.
    pub const ALL: [Self; 4] = [Self::TEAMS, Self::WAVES, Self::FOLDED, Self::TF32];

    /// The program of a network.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    pub fn program(&self, network: &Arc<Network>) -> Result<Arc<Program>, Failure> {
        let tables = if self.folded { u64::MAX } else { 0 };
        let program = Program::new(network.clone(), CellStyle::default())?;
        Ok(Arc::new(program.fold_tables(tables)))
    }

    /// How a device is to carry its plans out.
    #[must_use]
    pub fn options(&self) -> CudaOptions {
        CudaOptions::new().driver(self.driver).precision(self.precision)
    }

    /// Whether results have the bits of the CPU.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.precision == Precision::Exact
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = match self.driver {
            Driver::Teams => "teams",
            Driver::Waves => "waves",
        };
        let precision = if self.is_exact() { "exact" } else { "tf32" };
        let folded = if self.folded { ", folded" } else { "" };
        write!(f, "{driver}, {precision}{folded}")
    }
}

/// How engines use the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A mini-batch at a time, in parts, each on a team: for results that are wanted soon.
    One,
    /// Engines side by side, each with mini-batches of its own on a team.
    Many,
}

/// Which time it is, of a mini-batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// From parsed inputs to outputs on the host.
    EndToEnd,
    /// From a plan to its outputs: the tape, the launch, the device, reading.
    Execute,
    /// Construction, scheduling and planning.
    Host,
}

/// What is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The model.
    pub model: String,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Inputs of a mini-batch.
    pub batch: usize,
    /// What is compiled.
    pub kernels: Kernels,
    /// What for.
    pub use_: Use,
}

impl Setting {
    /// The one that the design's figures are about.
    #[must_use]
    pub fn main(model: &str, kernels: Kernels, use_: Use) -> Self {
        Self { model: model.into(), hidden: 256, batch: 64, kernels, use_ }
    }

    /// What records call its time.
    #[must_use]
    pub fn what(&self, clock: Clock) -> String {
        let clock = match clock {
            Clock::EndToEnd => "end to end",
            Clock::Execute => "plan to outputs",
            Clock::Host => "construct, schedule, plan",
        };
        format!("{self}: {clock}")
    }

    /// What records call its share of the device's peak.
    #[must_use]
    pub fn share_of_peak(&self) -> String {
        format!("{self}: share of the peak")
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, hidden, batch, kernels, use_ } = self;
        let use_ = match use_ {
            Use::One => "one at a time",
            Use::Many => "side by side",
        };
        write!(f, "{model}, H = {hidden}, {batch} inputs, {kernels}, {use_}")
    }
}
