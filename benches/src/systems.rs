//! The systems that are compared: ours, parts of it, and other published methods of batching.
//!
//! All run on the same runtime. What others' systems have in common is their backend, [`Plain`]:
//! whole batches, a kernel an operation, and the best of others' matrix products for each shape.
//! Our own runs on ours; `no-kernel` says what that alone gives.

use std::sync::Arc;

use clap::ValueEnum;
use edbatch::{Engine, EngineOptions, cell_schedules, cell_schedules_by};
use edbatch_graph::{Kind, Network};
use edbatch_layout::{CellStyle, Program, TooLarge};
use edbatch_models::Model;
use edbatch_policy::{Agenda, AnyPolicy, Depth, Frontier, Fsm, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Parameters, Profile, ThreadPool};
use serde::Serialize;

use crate::backends::BackendName;
use crate::plain::Plain;
use crate::workload::Failure;

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
    /// Cells batched by depth, and inside them operations, laid out as they come
    CellsDepth,
    /// Cells batched by mean depth, and inside them operations: what the paper calls Cavs DyNet
    CellsAgenda,
    /// As in the paper: a learned FSM-sort, cells batched inside and laid out by Alg. 2
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
    /// The same, and nothing stacked or fused: cells as the paper lays them out
    NoFusion,
    /// The same, and no layout: an operation at a time, as declared
    NoLayout,
    /// As edbatch, on the others' backend
    NoKernel,
    /// Our best, on a CUDA device: what `--backends cuda` adds
    Cuda,
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
    pub const ABLATION: [Self; 7] = [
        Self::NoPolicy,
        Self::NoHoisting,
        Self::NoFusion,
        Self::NoLayout,
        Self::NoKernel,
        Self::Cached,
        Self::Folded,
    ];

    /// Ours on a device, one for each backend that `--backends` may name.
    pub const DEVICES: [Self; 1] = [Self::Cuda];

    /// What the command line calls it.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("no system is hidden");
        value.get_name().into()
    }

    /// What records call it: our best has one name on all backends.
    #[must_use]
    pub fn recorded(self) -> String {
        if self == Self::Cuda { Self::Edbatch.name() } else { self.name() }
    }

    /// What carries its plans out.
    #[must_use]
    pub fn backend(self) -> BackendName {
        if self == Self::Cuda { BackendName::Cuda } else { BackendName::Cpu }
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

    /// Whether one thread runs parts of a mini-batch where its values leave the cache.
    #[must_use]
    pub fn divides(self) -> bool {
        !Self::METHODS[..6].contains(&self)
    }

    /// Whether it runs on the others' backend.
    #[must_use]
    pub fn is_plain(self) -> bool {
        !self.divides() || self == Self::NoKernel
    }

    /// How it compiles the cells of a network.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    pub fn program(self, network: &Arc<Network>) -> Result<Program, TooLarge> {
        let of = |style| Program::new(network.clone(), style);
        let scheduled =
            |style, schedules: &[_]| Program::scheduled(network.clone(), style, schedules);
        match self {
            Self::Folded => Ok(of(CellStyle::Hoisted)?.fold_tables(u64::MAX)),
            Self::VanillaDepth | Self::VanillaAgenda | Self::NoLayout => of(CellStyle::Declaration),
            Self::CellsDepth => {
                scheduled(CellStyle::Batched, &cell_schedules_by(network, &mut Depth::new()))
            }
            Self::CellsAgenda => {
                scheduled(CellStyle::Batched, &cell_schedules_by(network, &mut Agenda::new()))
            }
            Self::Paper | Self::NoFusion => scheduled(CellStyle::Paper, &cell_schedules(network)),
            Self::Unbatched | Self::NoHoisting => of(CellStyle::Planned),
            _ => of(CellStyle::Hoisted),
        }
    }

    /// An engine that runs a model in this way, with so many threads for each mini-batch; and where
    /// the time of its steps goes.
    ///
    /// # Errors
    /// If a cell is too large to be addressed, memory for its weights cannot be had, or there is no
    /// device.
    pub fn engine<M: Model>(
        self,
        model: M,
        parameters: &Parameters,
        learned: &Fsm,
        threads: usize,
    ) -> Result<(Engine<M>, Arc<Profile>), Failure> {
        let program = Arc::new(self.program(model.network())?);
        let pool = ThreadPool::new(threads);
        let (backend, profile): (Box<dyn Backend>, _) = if self.backend() != BackendName::Cpu {
            // Nothing that it does is timed step by step.
            (self.backend().load(&program, parameters)?, Arc::default())
        } else if self.is_plain() {
            let plain = Plain::new(program.clone(), parameters);
            let profile = plain.profile();
            (Box::new(plain), profile)
        } else {
            let cpu = Cpu::new(program.clone(), parameters, Level::detect())?;
            let mut cpu = cpu.with_pool(pool.clone());
            let profile = cpu.profile();
            (Box::new(cpu), profile)
        };
        let mut options = EngineOptions::new().pool(pool);
        if let Some(policy) = self.policy(learned) {
            options = options.policy(policy);
        }
        if self == Self::Cached {
            options = options.plan_cache(CACHE);
        }
        let engine = Engine::with_backend(model, parameters, program, backend, options)?;
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

    fn fork(&self) -> AnyPolicy {
        Box::new(Self)
    }
}
