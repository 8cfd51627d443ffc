//! Runs the plans of `edbatch-layout` on NVIDIA GPUs of compute capability 8.0 or later.
//!
//! [`nvidia()`] loads a program on one or several devices and returns a
//! [`Backend`](edbatch_runtime::Backend). [`EmulatedDevice`] is a device on the host: it compiles
//! the same kernels with the machine's C++ compiler, so that tests run without a GPU. Use this
//! crate through the feature `cuda` of `edbatch`; use it directly if you schedule and plan
//! yourself.
//!
//! *Results* have the same bits as on CPUs with fused multiply-adds, unless TF32 or bf16 is
//! chosen.
//!
//! *Cost*: kernels are compiled once per model size and architecture and cached on disk. By
//! default, a round of a mini-batch is one launch if its teams fit on the device, and a step of
//! training at most seven. No memory is allocated once the largest plan has run.
//!
//! # Terms
//!
//! - A *wave* is a set of steps of a plan that do not depend on each other.
//! - A *phase* is a run of steps of a cell that thread blocks can divide by columns without
//!   synchronising ([`phases()`]).
//! - A *job* is a phase for the calls of a step, or a copy. Blocks run *tiles* of it: some calls
//!   and a slice of its columns.
//! - A *command list* is a plan as one array of numbers: waves of jobs ([`CommandList`]).
//! - A *team* is a set of thread blocks that run one plan together, one block per SM (streaming
//!   multiprocessor). Before a wave, the blocks of a team meet at a barrier, or each of its unit
//!   tiles waits for the rows that it reads.
//! - A *group* is the blocks of a team that hold all *resident weights* once: these stay in shared
//!   memory while a plan runs. Each of its blocks, a *slice*, holds the weights of some units.
//! - A *unit tile* is a tile of a job with resident weights, whose sums stay in registers.
//! - The *masters* are the parameters of a program for training, row by row, from which weights are
//!   packed.
//! - The *stage* of a step of training is the number of its last launch that ended well, in device
//!   memory. Later launches do nothing unless it is the number before their own.
//! - A *superstep* is the code of a kernel between two barriers of a block.
//!
//! # Where to read next
//!
//! `command_list.rs`, `backend.rs` and `team_pool.rs`; then the kernels: `kernels/block.h`,
//! `kernels/tile.h`, `kernels/ring.h`, `kernels/tensor_tile.h`, `kernels/large.h`,
//! `kernels/small.h`, `kernels/steps.h` and `kernels/team.h`. Of training, begin with `step.rs`,
//! `trained.rs` and `kernels/stage.h`. `unsafe` code is in `emulated.rs`, `nvidia.rs`, the files
//! below these, and `nvrtc.rs`.

mod backend;
mod binary;
mod borrowed;
mod check_waves;
mod command_list;
mod compilation;
mod cpp;
mod device;
mod emulated;
mod error;
mod launch_times;
mod loaded;
pub mod measure;
mod memory;
mod model;
mod nvidia;
mod nvrtc;
mod open;
mod operations;
mod options;
mod pass;
mod phase_table;
mod phases;
mod place;
mod poll;
mod reads;
mod shapes;
mod slot;
mod source;
mod step;
mod store;
mod sums;
mod team_pool;
mod trained;
mod training;
mod unit_tile;
mod update;
mod waves;
mod weights;

#[cfg(test)]
mod tests;

pub use backend::CHAIN;
pub use binary::ResourceUsage;
pub use check_waves::{check_training_waves, check_waves};
pub use command_list::{CommandList, CopyJob};
pub use compilation::Compilation;
pub use edbatch_runtime::Borrowed;
pub use error::CudaError;
pub use launch_times::LaunchTimes;
pub use loaded::{CompiledKernels, compile, compile_training, kernel_source};
pub use model::{DeviceModel, Prediction, StepPrediction, TrainingModel};
pub use open::{EmulatedBackend, EmulatedDevice, TeamSize, nvidia, team_size};
pub use options::{CudaOptions, DevicePrecision, Driver};
pub use phase_table::{PhaseEntry, PhaseTable};
pub use phases::{Phase, check_phases, phases};
pub use shapes::{LARGE_TILE, TILE};
pub use waves::waves;

/// The README's example, compiled and run by the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
