//! The systems that are compared: ours, variants of ours with a part removed or added, and other
//! published methods of batching.
//!
//! All run on the same engine. The other methods share one backend, [`Plain`]: whole batches, one
//! kernel for each operation, and the fastest third-party matrix product for each shape. Ours runs
//! on our own kernels; `no-kernel` shows how much they contribute.

use std::sync::Arc;

use clap::ValueEnum;
use edbatch::models::Model;
use edbatch::{Engine, EngineOptions, cell_schedules, cell_schedules_by};
use edbatch_cuda::{Compilation, CudaOptions, DevicePrecision};
use edbatch_graph::{Kind, Network};
use edbatch_layout::{CellStyle, Program, TooLarge};
use edbatch_policy::{Agenda, AnyPolicy, Depth, Frontier, Fsm, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Parameters, Precision, Profile, ThreadPool};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::plain::Plain;

/// A way to run a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, ValueEnum)]
pub enum System {
    /// Our cells, one node at a time
    Unbatched,
    /// Single operations without cells, batched by depth
    VanillaDepth,
    /// Single operations without cells, batched by mean depth
    VanillaAgenda,
    /// Cells batched by depth; inside a cell, operations in the order of their batches
    CellsDepth,
    /// Cells batched by mean depth, the same inside: what the paper calls Cavs DyNet
    CellsAgenda,
    /// The paper's system: a learned FSM-sort, batched cells laid out by Algorithm 2
    Paper,
    /// Our default: critical, planned cells, our own kernels
    Edbatch,
    /// edbatch with an engine for each thread, each running whole mini-batches
    Across,
    /// edbatch with all tables folded when the model is loaded
    Folded,
    /// edbatch in bf16: other results, with about three digits
    Bf16,
    /// edbatch with the policy agenda
    NoPolicy,
    /// edbatch without deduplicated products of looked-up rows
    NoHoisting,
    /// no-hoisting without stacked or fused operations: cells as the paper lays them out
    NoFusion,
    /// no-fusion without a layout: one operation at a time, as declared
    NoLayout,
    /// edbatch on the backend of the other methods
    NoKernel,
    /// Our default on a CUDA device, a mini-batch at a time; added by --backends cuda
    Cuda,
    /// One engine per CPU thread, all on one CUDA device; each runs whole mini-batches
    CudaAcross,
    /// cuda with folded tables
    CudaFolded,
    /// cuda on tensor cores, with operands rounded to TF32
    CudaTf32,
    /// cuda on tensor cores, with operands rounded to bf16
    CudaBf16,
}

/// Accepted difference from the interpreter's results; larger for TF32 and bf16, which round
/// factors to a mantissa of 10 or 8 bits.
const TOLERANCE: f32 = 1e-4;
const TF32_TOLERANCE: f32 = 1e-2;
const BF16_TOLERANCE: f32 = 3e-2;

/// A system with everything that an engine needs, except the model and its weights.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The system.
    pub system: System,
    /// The policy that the paper's system has learned.
    pub learned: &'a Fsm,
    /// Threads of a mini-batch, or engines if each runs whole mini-batches on a thread of its own.
    pub threads: usize,
    /// A pool of `threads` threads, which several engines share.
    pub pool: Option<&'a ThreadPool>,
    /// The device, for systems that need one.
    pub device: Option<&'a Device>,
}

impl<'a> Setup<'a> {
    /// A system on `threads` threads, with defaults for the rest.
    pub fn new(system: System, learned: &'a Fsm, threads: usize) -> Self {
        Self { system, learned, threads, pool: None, device: None }
    }

    /// Sets the device.
    pub fn on(self, device: Option<&'a Device>) -> Self {
        Self { device, ..self }
    }

    /// Returns the number of threads that share a mini-batch.
    pub fn threads_inside(&self) -> usize {
        if self.system.is_across() { 1 } else { self.threads }
    }

    /// Makes an engine, and the profile that times its steps.
    pub fn engine<M: Model>(
        &self,
        model: M,
        parameters: &Parameters,
    ) -> Result<(Engine<M>, Arc<Profile>), Failure> {
        let system = self.system;
        let program = Arc::new(system.program(model.network())?);
        let pool = match self.pool {
            Some(pool) => pool.clone(),
            None => ThreadPool::new(self.threads_inside()),
        };
        let (backend, profile): (Box<dyn Backend>, _) = if let Some(options) = system.on_cuda() {
            let device = self.device.ok_or("no device was opened for this system")?;
            // Steps on the device are not timed one by one.
            (device.load(&program, parameters, &options)?, Arc::default())
        } else if system.is_plain() {
            let plain = Plain::new(program.clone(), parameters);
            let profile = plain.profile();
            (Box::new(plain), profile)
        } else {
            let cpu = Cpu::new(program.clone(), parameters, Level::detect(), system.precision())?;
            let mut cpu = cpu.with_pool(pool.clone());
            let profile = cpu.profile();
            (Box::new(cpu), profile)
        };
        let mut options = EngineOptions::new().pool(pool);
        if let Some(policy) = system.policy(self.learned) {
            options = options.policy(policy);
        }
        let engine = Engine::with_backend(model, parameters, program, backend, options)?;
        Ok((engine, profile))
    }
}

impl System {
    /// The systems measured by default: all methods, ours last.
    pub const METHODS: [Self; 7] = [
        Self::Unbatched,
        Self::VanillaDepth,
        Self::VanillaAgenda,
        Self::CellsDepth,
        Self::CellsAgenda,
        Self::Paper,
        Self::Edbatch,
    ];

    /// Our system with a part removed or added.
    pub const ABLATION: [Self; 7] = [
        Self::NoPolicy,
        Self::NoHoisting,
        Self::NoFusion,
        Self::NoLayout,
        Self::NoKernel,
        Self::Folded,
        Self::Bf16,
    ];

    /// All variants of our system on a CUDA device.
    pub const DEVICE: [Self; 5] =
        [Self::Cuda, Self::CudaAcross, Self::CudaFolded, Self::CudaTf32, Self::CudaBf16];

    /// Returns the name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value().expect("no system is hidden");
        value.get_name().into()
    }

    /// Returns the name in records. It leaves out the backend, which is a separate field.
    pub fn recorded(self) -> String {
        match self {
            Self::Cuda => Self::Edbatch.name(),
            system => system.name().trim_start_matches("cuda-").into(),
        }
    }

    /// Returns the name of the backend that executes its plans.
    pub fn backend(self) -> &'static str {
        if self.on_cuda().is_some() { "cuda" } else { "cpu" }
    }

    /// Returns the options of a system on a CUDA device.
    pub fn on_cuda(self) -> Option<CudaOptions> {
        let report = |compilation: &Compilation| eprintln!("cuda: {compilation}");
        let options = CudaOptions::new().on_compile(report);
        match self {
            Self::Cuda | Self::CudaAcross | Self::CudaFolded => Some(options),
            Self::CudaTf32 => Some(options.precision(DevicePrecision::Tf32)),
            Self::CudaBf16 => Some(options.precision(DevicePrecision::Bf16)),
            _ => None,
        }
    }

    /// Returns true if each thread has an engine and runs whole mini-batches.
    pub fn is_across(self) -> bool {
        matches!(self, Self::Across | Self::CudaAcross)
    }

    /// Returns true if it runs single operations instead of cells.
    pub fn is_vanilla(self) -> bool {
        matches!(self, Self::VanillaDepth | Self::VanillaAgenda)
    }

    /// Returns true if tables are folded when the model is loaded.
    pub fn is_folded(self) -> bool {
        matches!(self, Self::Folded | Self::CudaFolded)
    }

    /// Returns the accepted difference from the interpreter's results.
    pub fn tolerance(self) -> f32 {
        match self {
            Self::CudaTf32 => TF32_TOLERANCE,
            Self::Bf16 | Self::CudaBf16 => BF16_TOLERANCE,
            _ => TOLERANCE,
        }
    }

    /// Returns the precision of its products on the CPU.
    pub fn precision(self) -> Precision {
        match self {
            Self::Bf16 | Self::CudaBf16 => Precision::Bf16,
            _ => Precision::F32,
        }
    }

    /// Returns its policy, or `None` for an engine's default.
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

    /// Returns true if a thread divides a mini-batch into parts that fit the cache.
    pub fn divides(self) -> bool {
        !Self::METHODS[..6].contains(&self)
    }

    /// Returns true if it runs on the backend of the other methods.
    pub fn is_plain(self) -> bool {
        !self.divides() || self == Self::NoKernel
    }

    /// Compiles the cells of a network.
    pub fn program(self, network: &Arc<Network>) -> Result<Program, TooLarge> {
        let of = |style| Program::new(network.clone(), style);
        let scheduled =
            |style, schedules: &[_]| Program::scheduled(network.clone(), style, schedules);
        match self {
            Self::Folded | Self::CudaFolded => Ok(of(CellStyle::Hoisted)?.fold_tables(u64::MAX)),
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
}

/// Returns random weights for a network, the same in every run.
pub fn weights(network: &Network) -> Parameters {
    Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(1))
}

/// A policy that runs one node at a time, of the first ready kind.
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
