//! The contestants. All run on the same runtime, so differences are the methods'.

use std::sync::Arc;

use clap::ValueEnum;
use edbatch::Engine;
use edbatch_graph::Kind;
use edbatch_layout::{CellStyle, Program, TooLarge};
use edbatch_models::Model;
use edbatch_policy::{Agenda, Critical, Depth, Frontier, Fsm, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Cpu, Parameters, Products};
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
}

impl System {
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

    /// Its policy; the paper's has been learned.
    #[must_use]
    pub fn policy(self, learned: &Fsm) -> Box<dyn Policy + Send> {
        match self {
            Self::Unbatched => Box::new(Single),
            Self::VanillaDepth | Self::CellsDepth => Box::new(Depth::new()),
            Self::VanillaAgenda | Self::CellsAgenda => Box::new(Agenda::new()),
            Self::Paper => Box::new(learned.clone()),
            Self::Edbatch => Box::new(Critical::new()),
        }
    }

    /// An engine that runs a model in this way.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    pub fn engine<M: Model>(
        self,
        model: M,
        parameters: &Parameters,
        learned: &Fsm,
    ) -> Result<Engine<M>, TooLarge> {
        let (style, products) = match self {
            Self::Unbatched => (CellStyle::Planned, Products::Packed),
            Self::Edbatch => (CellStyle::Hoisted, Products::Packed),
            Self::Paper => (CellStyle::Planned, Products::MatrixMultiply),
            _ => (CellStyle::Declaration, Products::MatrixMultiply),
        };
        let program = Arc::new(Program::new(model.network().clone(), style)?);
        let cpu = Cpu::new(program.clone(), parameters, products, Level::detect());
        let engine = Engine::with_backend(model, parameters, program, Box::new(cpu));
        Ok(engine.with_policy(self.policy(learned)))
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
}
