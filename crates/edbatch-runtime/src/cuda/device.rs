//! What a backend needs of a device, whoever it is.

use std::ffi::CStr;

use edbatch_layout::Tape;

use super::CudaError;
use super::slots::Slots;

/// The headers that a source may include, by name.
pub(crate) const HEADERS: [(&str, &str); 15] = [
    ("block.h", include_str!("kernels/block.h")),
    ("copies.h", include_str!("kernels/copies.h")),
    ("functions.h", include_str!("kernels/functions.h")),
    ("job.h", include_str!("kernels/job.h")),
    ("kept.h", include_str!("kernels/kept.h")),
    ("launch.h", include_str!("kernels/launch.h")),
    ("matmul.h", include_str!("kernels/matmul.h")),
    ("meet.h", include_str!("kernels/meet.h")),
    ("outputs.h", include_str!("kernels/outputs.h")),
    ("product.h", include_str!("kernels/product.h")),
    ("reduce.h", include_str!("kernels/reduce.h")),
    ("softmax.h", include_str!("kernels/softmax.h")),
    ("team.h", include_str!("kernels/team.h")),
    ("tf32.h", include_str!("kernels/tf32.h")),
    ("waves.h", include_str!("kernels/waves.h")),
];

/// Bytes of shared memory in front of what a block keeps: `SHARED` of `kernels/block.h`.
pub(crate) const ROW_BYTES: usize = 4 * 16 * (256 + 4);

/// The most plans of a launch: `MOST_PARTS` of `kernels/team.h`.
pub(crate) const MOST_PARTS: usize = 32;

/// A program in the C++ of `kernels/block.h`.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The generated part. It includes [`HEADERS`], the last of them that of its kernel.
    pub(crate) text: String,
    /// Which kernel it has.
    pub(crate) kernel: Kernel,
}

/// What a program can be launched as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    /// `wave_kernel` of `kernels/launch.h`, which carries out a wave of a plan.
    Wave,
    /// `plan_kernel` of `kernels/team.h`, which carries out whole plans.
    Plan,
    /// `probe_kernel` of `kernels/probe.cu`, which measures a device of NVIDIA's.
    Probe,
}

impl Kernel {
    /// Its name, which ends with a zero.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Wave => c"wave_kernel",
            Self::Plan => c"plan_kernel",
            Self::Probe => c"probe_kernel",
        }
    }
}

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The device's.
    Device,
    /// The host's, where the device reads and writes it too.
    Host,
}

/// What is known of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// What its maker calls it.
    pub(crate) name: String,
    /// What the compiler calls it: `sm_90a`.
    pub(crate) architecture: String,
    /// How many blocks run at once, where one fills a processor.
    pub(crate) processors: u32,
    /// Shared memory that a block can have, in bytes.
    pub(crate) shared_bytes: usize,
}

/// What a launch is about: `Arguments` of `kernels/block.h`. Addresses are [`Device::address`]es,
/// of memory that outlives the launch, or 0 where no job reads or writes there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Arguments {
    /// The plan, flattened.
    pub(crate) tape: u64,
    /// Rows and scratch.
    pub(crate) arena: u64,
    /// All parameters.
    pub(crate) weights: u64,
    /// All folded tables.
    pub(crate) folded: u64,
    /// Given rows, in the host's memory.
    pub(crate) given: u64,
    /// Where rows are left for the plan after this one.
    pub(crate) stayed: u64,
    /// Where the plan before left them.
    pub(crate) stayed_before: u64,
    /// Wanted elements, in the host's memory.
    pub(crate) outputs: u64,
    /// Wanted indices of greatest elements, in the host's memory.
    pub(crate) indices: u64,
    /// The wave to be carried out.
    pub(crate) wave: u32,
}

/// What a launch of teams is about: `TeamArguments` of `kernels/team.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct TeamArguments {
    /// The table of a [`Placement`](super::place::Placement).
    pub(crate) places: u64,
    /// Blocks of a team.
    pub(crate) blocks: u32,
    /// A plan for each team.
    pub(crate) parts: [TeamPart; MOST_PARTS],
}

/// A plan that a team carries out: `Part` of `kernels/team.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct TeamPart {
    /// The tape is the device's, for the team to write.
    pub(crate) arguments: Arguments,
    /// The tape in the host's memory.
    pub(crate) tape: u64,
    /// Where the blocks meet: a count and whether one was late, [`MEETING`] words of the device's.
    pub(crate) meeting: u64,
    /// Where the number of the launch is written when all is done, in the host's memory.
    pub(crate) done: u64,
    /// What the blocks have counted in all launches before.
    pub(crate) base: u64,
    /// How long a block waits for the others, in nanoseconds.
    pub(crate) patience: u64,
    /// Words of the tape, rounded up to fours.
    pub(crate) words: u32,
    /// Waves of the plan.
    pub(crate) waves: u32,
    /// The number of the launch.
    pub(crate) number: u32,
}

impl TeamPart {
    /// A plan whose tape lies where the arguments say, to be carried out from a copy on the device.
    pub(crate) fn new(tape: &Tape, arguments: Arguments, copy: u64) -> Self {
        Self {
            arguments: Arguments { tape: copy, ..arguments },
            tape: arguments.tape,
            words: tape.words().len().next_multiple_of(4) as u32,
            waves: tape.waves() as u32,
            ..Self::default()
        }
    }
}

/// Words of `Meeting` of `kernels/meet.h`.
pub(crate) const MEETING: usize = 4;

/// A device: memory, programs, one stream of launches that run in their order, and as many as there
/// are teams whose launches run side by side.
///
/// *Contract*: `Arguments` hold addresses of memory of this device that lives until the launch has
/// ended, and the source reads and writes inside of it. A launch of waves has ended when a
/// [`wait`](Self::wait) after it returns, one of teams when [`Slots::wait`] does. Before, the host
/// neither reads nor writes memory that the launch reads or writes, but for a flag, by
/// [`word`](Self::word), and drops none of it.
pub(crate) trait Device: Send + Sync + 'static {
    /// Memory of either [`Side`], given back when dropped.
    type Memory: Send + Sync;
    /// A compiled source, ready to be launched.
    type Program: Send + Sync;

    /// What is known of the device.
    fn facts(&self) -> &Facts;

    /// Compiles a source.
    ///
    /// # Errors
    /// If the compiler is missing, or refuses the source.
    fn compile(&self, source: &Source) -> Result<Self::Program, CudaError>;

    /// So many bytes, rounded up to whole words, at an address that is a multiple of 64. What is in
    /// them is not said.
    ///
    /// # Errors
    /// If they cannot be had.
    fn memory(&self, bytes: usize, side: Side) -> Result<Self::Memory, CudaError>;

    /// Copies words to the beginning of memory of either side, behind the launches before, and
    /// waits for it.
    ///
    /// # Errors
    /// If there is less memory, or the driver reports an error.
    fn fill(&self, memory: &Self::Memory, words: &[u32]) -> Result<(), CudaError>;

    /// Memory of the host's, word by word.
    ///
    /// # Panics
    /// If it is not of [`Side::Host`].
    fn host<'a>(&self, memory: &'a Self::Memory) -> &'a [u32];

    /// The same, to write.
    ///
    /// # Panics
    /// If it is not of [`Side::Host`].
    fn host_mut<'a>(&self, memory: &'a mut Self::Memory) -> &'a mut [u32];

    /// The same words, as floats.
    ///
    /// # Panics
    /// If it is not of [`Side::Host`].
    fn host_floats<'a>(&self, memory: &'a Self::Memory) -> &'a [f32];

    /// The same, to write.
    ///
    /// # Panics
    /// If it is not of [`Side::Host`].
    fn host_floats_mut<'a>(&self, memory: &'a mut Self::Memory) -> &'a mut [f32];

    /// Where the memory lies, as [`Arguments`] have it.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// A word of the host's memory that a launch may write meanwhile. What it wrote before that
    /// word can then be read.
    ///
    /// # Panics
    /// If it is not of [`Side::Host`], or shorter.
    fn word(&self, memory: &Self::Memory, index: usize) -> u32;

    /// Which teams are free.
    fn slots(&self) -> &Slots<Self::Memory>;

    /// Launches a program's `plan_kernel`: a team for each of the first `teams` parts, beside what
    /// runs on other streams. So many bytes of shared memory for each block.
    ///
    /// # Errors
    /// If there are more blocks than processors, or the driver reports an error.
    fn launch_teams(
        &self,
        program: &Self::Program,
        stream: usize,
        teams: usize,
        shared_bytes: usize,
        arguments: &TeamArguments,
    ) -> Result<(), CudaError>;

    /// Whether all launches of a stream have ended.
    ///
    /// # Errors
    /// If one of them failed.
    fn is_idle(&self, stream: usize) -> Result<bool, CudaError>;

    /// Launches a program's `wave_kernel` behind what was launched before, in so many blocks.
    ///
    /// # Errors
    /// If there are no blocks, or the driver reports an error.
    fn launch(
        &self,
        program: &Self::Program,
        blocks: u32,
        arguments: &Arguments,
    ) -> Result<(), CudaError>;

    /// Waits for all launches of waves.
    ///
    /// # Errors
    /// If one of them failed.
    fn wait(&self) -> Result<(), CudaError>;
}
