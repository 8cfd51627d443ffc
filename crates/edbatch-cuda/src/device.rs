//! The interface of devices: memory, compiled kernels and launches.

use std::ffi::CStr;

use super::CudaError;
use super::command_list::CommandList;
use super::compilation::OnCompile;
use super::team_pool::TeamPool;

/// The headers that a source may include, by name.
pub(crate) const HEADERS: [(&str, &str); 19] = [
    ("ahead.h", include_str!("kernels/ahead.h")),
    ("attention.h", include_str!("kernels/attention.h")),
    ("barrier.h", include_str!("kernels/barrier.h")),
    ("block.h", include_str!("kernels/block.h")),
    ("copies.h", include_str!("kernels/copies.h")),
    ("functions.h", include_str!("kernels/functions.h")),
    ("grid.h", include_str!("kernels/grid.h")),
    ("job.h", include_str!("kernels/job.h")),
    ("large.h", include_str!("kernels/large.h")),
    ("loss.h", include_str!("kernels/loss.h")),
    ("outputs.h", include_str!("kernels/outputs.h")),
    ("ring.h", include_str!("kernels/ring.h")),
    ("small.h", include_str!("kernels/small.h")),
    ("stage.h", include_str!("kernels/stage.h")),
    ("steps.h", include_str!("kernels/steps.h")),
    ("team.h", include_str!("kernels/team.h")),
    ("tensor.h", include_str!("kernels/tensor.h")),
    ("tensor_tile.h", include_str!("kernels/tensor_tile.h")),
    ("tile.h", include_str!("kernels/tile.h")),
];

/// The sources of the kernels that complete gradients and update parameters, which no program
/// changes: sums of rows, sums over calls, totals, and the update.
pub(crate) const GRIDS: [&str; 4] = [
    include_str!("kernels/rows.cu"),
    include_str!("kernels/sums.cu"),
    include_str!("kernels/totals.cu"),
    include_str!("kernels/update.cu"),
];

/// Bytes of shared memory before the resident weights of a block, and the minimum number of bytes
/// for rows after them: `AHEAD` and `ROWS` of `kernels/block.h`.
pub(crate) const AHEAD_BYTES: usize = 4 * 944;
pub(crate) const ROW_BYTES: usize = 4 * 2 * (64 * 36 + 32 * 64);

/// The maximum number of plans of a launch: `MAX_PARTS` of `kernels/team.h`.
pub(crate) const MAX_PARTS: usize = 32;

/// A C++ source that uses `kernels/block.h`.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The text, which may include [`HEADERS`]. The text or its last header defines the kernel.
    pub(crate) text: String,
    /// The kernel that it defines.
    pub(crate) kernel: Kernel,
}

/// The kernel of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    /// `plan_kernel` of `kernels/team.h`, which runs whole plans.
    Plan,
    /// `grid_kernel` of `kernels/grid.h`, whose blocks wait for no other block.
    Grid,
    /// `probe_kernel` of `kernels/probe.cu`, which measures an NVIDIA device.
    Probe,
}

impl Kernel {
    /// Returns the name of the kernel's function.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Plan => c"plan_kernel",
            Self::Grid => c"grid_kernel",
            Self::Probe => c"probe_kernel",
        }
    }
}

/// The stream that waits, of a stream of the device and one of another library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// The stream of the device.
    Own,
    /// The stream of the other library.
    Other,
}

/// The owner of memory: the device or the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemorySide {
    /// Device memory.
    Device,
    /// Pinned host memory that the device can read and write.
    Host,
}

/// The properties of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Properties {
    /// The product name.
    pub(crate) name: String,
    /// The compiler's name of the architecture, such as `sm_90`.
    pub(crate) architecture: String,
    /// The number of SMs.
    pub(crate) sms: u32,
    /// The maximum shared memory of a block, in bytes.
    pub(crate) shared_bytes: usize,
}

impl Properties {
    /// A device of this size, of no architecture.
    pub(crate) fn of_size(sms: u32, shared_bytes: usize) -> Self {
        Self { name: String::new(), architecture: String::new(), sms, shared_bytes }
    }
}

/// The arguments of a plan: `Arguments` of `kernels/block.h`. Each address is a
/// [`Device::address`] of memory that outlives the launch, or 0 if no job uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Arguments {
    /// The command list.
    pub(crate) commands: u64,
    /// The plan's arena, followed by its scratch.
    pub(crate) arena: u64,
    /// All parameters.
    pub(crate) weights: u64,
    /// All [folded tables](edbatch_layout::FoldedTable).
    pub(crate) folded: u64,
    /// Given rows, in host memory.
    pub(crate) given: u64,
    /// The rows that outlive the plan.
    pub(crate) store: u64,
    /// The elements of wanted values, in host memory.
    pub(crate) outputs: u64,
    /// The argmax indices of wanted values, in host memory.
    pub(crate) indices: u64,
    /// The trained parameters, or for other programs memory for the sums that the team's blocks
    /// keep while their tiles go on.
    pub(crate) masters: u64,
    /// The state of a step of training: `kernels/stage.h`.
    pub(crate) stage: u64,
    /// The team's two barriers: [`TEAM_BARRIER_WORDS`] words of device memory.
    pub(crate) barriers: u64,
    /// The longest time that a block waits, in nanoseconds.
    pub(crate) timeout: u64,
}

/// The arguments of a launch of teams: `TeamArguments` of `kernels/team.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct TeamArguments {
    /// The address of the table of a [`Placement`](super::place::Placement).
    pub(crate) places: u64,
    /// The number of blocks of a team and of a group of it, and the floats of shared memory of a
    /// block: of resident weights, and after them.
    pub(crate) blocks: u32,
    pub(crate) slices: u32,
    pub(crate) resident: u32,
    pub(crate) room: u32,
    /// 1 if a barrier comes before every wave, or 0.
    pub(crate) barriers: u32,
    /// A plan for each team.
    pub(crate) parts: [TeamPart; MAX_PARTS],
    /// The address of the state of a step of training, `Stage` of `kernels/stage.h`, and the number
    /// of the launch in it: it runs only if the state is at the number before. Without a state, 0.
    pub(crate) stage: u64,
    pub(crate) launch: u64,
}

/// A plan for a team: `Part` of `kernels/team.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct TeamPart {
    /// The arguments of the plan. The team copies the command list to device memory first.
    pub(crate) arguments: Arguments,
    /// The command list in host memory.
    pub(crate) host_commands: u64,
    /// The plan's end in host memory: [`TICKET_WORDS`] words.
    pub(crate) ticket: u64,
    /// An arena whose first `clear` floats the launch clears, a multiple of four. The plan's own
    /// arena is cleared before its first wave.
    pub(crate) cleared: u64,
    pub(crate) clear: u32,
    /// The length of the command list in words, a multiple of four.
    pub(crate) words: u32,
    /// The number of waves.
    pub(crate) waves: u32,
    /// The number of this launch among the launches of the team.
    pub(crate) number: u32,
    /// The words of a job in the command list.
    pub(crate) job: u32,
}

impl TeamPart {
    /// A plan whose command list lies at `arguments.commands` in host memory and is copied to
    /// `device_commands`. The launch clears some floats at an address.
    pub(crate) fn new(
        commands: &CommandList,
        arguments: Arguments,
        device_commands: u64,
        (cleared, clear): (u64, u32),
    ) -> Self {
        Self {
            cleared,
            clear,
            arguments: Arguments { commands: device_commands, ..arguments },
            host_commands: arguments.commands,
            words: commands.words().len().next_multiple_of(4) as u32,
            waves: commands.waves() as u32,
            job: commands.job() as u32,
            ..Self::default()
        }
    }
}

/// The size of the two barriers of a team, `TeamBarrier` of `kernels/team.h`, in words.
pub(crate) const TEAM_BARRIER_WORDS: usize = 32;

/// The words of the end of a plan, `Ticket` of `kernels/team.h`. The first receives the number of
/// the launch when the plan is done. From the third on there are five numbers of two words: the
/// nanoseconds when the team began and ended, the cycles of the first block's SM when it began and
/// ended, and the nanosecond when it ended.
pub(crate) const TICKET_WORDS: usize = 12;

/// A device: memory, programs, and a stream per team.
///
/// *Contract*: `Arguments` contain addresses of memory of this device. The memory lives until the
/// launch has ended, and the source accesses nothing outside of it. A launch has ended when
/// [`TeamPool::run`] returns, and all launches of a chain have when
/// [`Held`](super::team_pool::Held) is dropped, or released after the last one. Until then the host
/// neither accesses memory that the launch accesses, except by [`word`](Self::word), nor drops it.
pub(crate) trait Device: Send + Sync + 'static {
    /// Memory of the device or of the host, as its [`MemorySide`] says; freed when dropped.
    type Memory: Send + Sync;
    /// A compiled source, ready to be launched.
    type Program: Send + Sync;

    /// Returns the properties of the device.
    fn properties(&self) -> &Properties;

    /// Compiles a source. Only compilations by NVRTC are reported.
    ///
    /// # Errors
    /// If the compiler is missing or rejects the source.
    fn compile(&self, source: &Source, on_compile: OnCompile) -> Result<Self::Program, CudaError>;

    /// Allocates memory at a multiple of 64 bytes, rounded up to whole words. Its contents are
    /// unspecified.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    fn memory(&self, bytes: usize, side: MemorySide) -> Result<Self::Memory, CudaError>;

    /// Copies words to the start of memory, which may be of either [`MemorySide`], and waits for
    /// the copy.
    ///
    /// # Errors
    /// If the memory is shorter than `words`, or the driver reports an error.
    fn fill(&self, memory: &Self::Memory, words: &[u32]) -> Result<(), CudaError>;

    /// Sets all bits of memory of [`MemorySide::Device`], and waits for that.
    ///
    /// # Errors
    /// If the driver reports an error.
    fn clear(&self, memory: &Self::Memory) -> Result<(), CudaError>;

    /// Copies the first `words` words of memory of [`MemorySide::Device`] to other such memory, and
    /// waits for the copy.
    ///
    /// # Errors
    /// If one of them is shorter than `words`, or the driver reports an error.
    fn copy(&self, from: &Self::Memory, to: &Self::Memory, words: usize) -> Result<(), CudaError>;

    /// Copies words from index `first` on out of memory of [`MemorySide::Device`], and waits for
    /// the copy.
    ///
    /// # Errors
    /// If the memory is too short, or the driver reports an error.
    fn read(&self, memory: &Self::Memory, first: usize, to: &mut [u32]) -> Result<(), CudaError>;

    /// Returns host memory as words.
    ///
    /// # Panics
    /// If it is not of [`MemorySide::Host`].
    fn host<'a>(&self, memory: &'a Self::Memory) -> &'a [u32];

    /// Returns host memory as mutable words.
    ///
    /// # Panics
    /// If it is not of [`MemorySide::Host`].
    fn host_mut<'a>(&self, memory: &'a mut Self::Memory) -> &'a mut [u32];

    /// Returns host memory as floats.
    ///
    /// # Panics
    /// If it is not of [`MemorySide::Host`].
    fn host_floats<'a>(&self, memory: &'a Self::Memory) -> &'a [f32];

    /// Returns host memory as mutable floats.
    ///
    /// # Panics
    /// If it is not of [`MemorySide::Host`].
    fn host_floats_mut<'a>(&self, memory: &'a mut Self::Memory) -> &'a mut [f32];

    /// Returns the address of memory on the device, for [`Arguments`].
    fn address(&self, memory: &Self::Memory) -> u64;

    /// Loads a word of host memory that a launch may write at the same time. All writes of the
    /// launch before that word are then visible.
    ///
    /// # Panics
    /// If the memory is not of [`MemorySide::Host`], or the index is out of range.
    fn word(&self, memory: &Self::Memory, index: usize) -> u32;

    /// Returns the device's teams.
    fn team_pool(&self) -> &TeamPool<Self::Memory>;

    /// Launches a program's `plan_kernel` on a stream: a team for each of the first `teams` parts,
    /// with `shared_bytes` of shared memory for each block.
    ///
    /// # Errors
    /// If there are more blocks than SMs, or the driver reports an error.
    fn launch_teams(
        &self,
        program: &Self::Program,
        stream: usize,
        teams: usize,
        shared_bytes: usize,
        arguments: &TeamArguments,
    ) -> Result<(), CudaError>;

    /// Launches a program's `grid_kernel` on a stream, with `shared_bytes` of shared memory for
    /// each block, after all earlier launches on it. `arguments` are its `Work`, in words of 64
    /// bits.
    ///
    /// # Errors
    /// If there are no blocks, or the driver reports an error.
    fn launch_grid(
        &self,
        program: &Self::Program,
        stream: usize,
        blocks: usize,
        shared_bytes: usize,
        arguments: &[u64],
    ) -> Result<(), CudaError>;

    /// Copies words between two addresses of the device, on a stream, after all earlier work on it.
    ///
    /// # Errors
    /// If the driver reports an error.
    fn enqueue_copy(
        &self,
        stream: usize,
        from: u64,
        to: u64,
        words: usize,
    ) -> Result<(), CudaError>;

    /// Orders the work of a stream and of another library's `other`: what follows on one of them
    /// begins after all that is on the other one now.
    ///
    /// # Errors
    /// If the driver reports an error.
    fn order(&self, stream: usize, other: u64, follows: Follows) -> Result<(), CudaError>;

    /// Returns true if all launches of a stream have ended.
    ///
    /// # Errors
    /// If one of them failed.
    fn is_idle(&self, stream: usize) -> Result<bool, CudaError>;
}
