//! The systems that are compared: ours, parts of it, and other published methods of batching.
//!
//! All run on the same runtime, so that differences are those of the methods.

use std::sync::Arc;

use clap::ValueEnum;
use edbatch::{Engine, EngineError, EngineOptions};
use edbatch_graph::Kind;
use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_policy::{Agenda, AnyPolicy, Depth, Frontier, Fsm, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Cpu, Parameters, Products, Profile, ThreadPool};
use serde::Serialize;

/// A way to run a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Our cells, a node at a time
    Unbatched,
    /// Operation by operation, no cells, batched by depth
    VanillaDepth,
    /// Operation by operation, no cells, batched by mean depth
    VanillaAgenda,
    /// Cells in declaration order, batched by depth
    CellsDepth,
    /// Cells in declaration order, batched by mean depth: what the paper calls Cavs
    CellsAgenda,
    /// As in the paper: a learned FSM-sort, planned cells, another's matrix products
    Paper,
    /// Our best: `Critical`, planned cells, our own kernels
    Edbatch,
    /// As edbatch, but a thread runs whole mini-batches, several at once
    Across,
    /// As edbatch, with plans kept for equal topologies
    Cached,
    /// As edbatch, with all tables folded when the model is loaded
    Folded,
    /// As edbatch, with the policy agenda
    NoPolicy,
    /// As edbatch, without products of looked-up rows done once per distinct row
    NoHoisting,
    /// As edbatch, without planned cells: nothing stacked, hoisted or fused
    NoLayout,
    /// As edbatch, with another's matrix products
    NoKernel,
}

/// Bytes of kept plans.
const CACHE: usize = 256 << 20;

impl System {
    /// Those that are measured unless others are named; the rest are our own without some part.
    pub const METHODS: [Self; 7] = [
        Self::Unbatched,
        Self::VanillaDepth,
        Self::VanillaAgenda,
        Self::CellsDepth,
        Self::CellsAgenda,
        Self::Paper,
        Self::Edbatch,
    ];

    /// Our own with one part less, or one part more.
    pub const ABLATION: [Self; 6] = [
        Self::NoPolicy,
        Self::NoHoisting,
        Self::NoLayout,
        Self::NoKernel,
        Self::Cached,
        Self::Folded,
    ];

    /// What tables and records call it.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("no system is hidden");
        value.get_name().into()
    }

    /// Whether it runs operations, not cells.
    #[must_use]
    pub fn is_vanilla(self) -> bool {
        matches!(self, Self::VanillaDepth | Self::VanillaAgenda)
    }

    /// Its policy, if it does not schedule as an engine does by default; the paper's has been
    /// learned.
    #[must_use]
    pub fn policy(self, learned: &Fsm) -> Option<AnyPolicy> {
        match self {
            Self::Unbatched => Some(Box::new(Single)),
            Self::VanillaDepth | Self::CellsDepth => Some(Box::new(Depth::new())),
            Self::VanillaAgenda | Self::CellsAgenda | Self::NoPolicy => {
                Some(Box::new(Agenda::new()))
            }
            Self::Paper => Some(Box::new(learned.clone())),
            _ => None,
        }
    }

    /// Whether threads divide its mini-batches; otherwise they share each batch.
    #[must_use]
    pub fn divides(self) -> bool {
        !Self::METHODS[..6].contains(&self)
    }

    /// How its cells are compiled, and what multiplies.
    #[must_use]
    pub fn cells(self) -> (CellStyle, Products) {
        match self {
            Self::Unbatched | Self::NoHoisting => (CellStyle::Planned, Products::Packed),
            Self::Paper => (CellStyle::Planned, Products::MatrixMultiply),
            Self::NoLayout => (CellStyle::Declaration, Products::Packed),
            Self::NoKernel => (CellStyle::Hoisted, Products::MatrixMultiply),
            Self::VanillaDepth | Self::VanillaAgenda | Self::CellsDepth | Self::CellsAgenda => {
                (CellStyle::Declaration, Products::MatrixMultiply)
            }
            _ => (CellStyle::Hoisted, Products::Packed),
        }
    }

    /// An engine that runs a model in this way, with so many threads for each mini-batch; and where
    /// the time of its steps goes.
    ///
    /// # Errors
    /// If a cell is too large to be addressed, or memory for its weights cannot be had.
    pub fn engine<M: Model>(
        self,
        model: M,
        parameters: &Parameters,
        learned: &Fsm,
        threads: usize,
    ) -> Result<(Engine<M>, Arc<Profile>), EngineError> {
        let (style, products) = self.cells();
        let tables = if self == Self::Folded { u64::MAX } else { 0 };
        let program = Program::new(model.network().clone(), style)?.fold_tables(tables);
        let program = Arc::new(program);
        let cpu = Cpu::new(program.clone(), parameters, products, Level::detect())?;
        let pool = ThreadPool::new(threads);
        let mut cpu = cpu.with_pool(pool.clone());
        let profile = cpu.profile();
        let mut options = EngineOptions::new().pool(pool);
        if let Some(policy) = self.policy(learned) {
            options = options.policy(policy);
        }
        if self == Self::Cached {
            options = options.plan_cache(CACHE);
        }
        let engine = Engine::with_backend(model, parameters, program, Box::new(cpu), options)?;
        Ok((engine, profile))
    }
}

/// One node at a time, those of the first ready kind first.
struct Single;

impl Policy for Single {
    fn start(&mut self, _: &Frontier) {}

    fn next(&mut self, frontier: &Frontier) -> Kind {
        frontier.ready_kinds().next().expect("a node remains")
    }

    fn count(&self, _: &Frontier, _: Kind) -> usize {
        1
    }

    fn another(&self) -> AnyPolicy {
        Box::new(Self)
    }
}
