//! What a backend needs of a device, whoever it is.

use super::CudaError;

/// The headers that a source may include, by name.
pub(crate) const HEADERS: [(&str, &str); 9] = [
    ("block.h", include_str!("kernels/block.h")),
    ("functions.h", include_str!("kernels/functions.h")),
    ("job.h", include_str!("kernels/job.h")),
    ("launch.h", include_str!("kernels/launch.h")),
    ("matmul.h", include_str!("kernels/matmul.h")),
    ("outputs.h", include_str!("kernels/outputs.h")),
    ("product.h", include_str!("kernels/product.h")),
    ("reduce.h", include_str!("kernels/reduce.h")),
    ("softmax.h", include_str!("kernels/softmax.h")),
];

/// A program in the C++ of `kernels/block.h`.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The generated part. It includes [`HEADERS`], defines
    /// `DEVICE void wave(Block& block, const Arguments& a)`, and ends with `#include "launch.h"`.
    pub(crate) text: String,
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

/// A device: memory, programs, and one stream of launches that run in their order.
///
/// *Contract*: `Arguments` hold addresses of memory of this device that lives until
/// [`wait`](Self::wait) returns, and the source reads and writes inside of it. Between a launch and
/// the end of a `wait` after it, the host neither reads nor writes memory that the launch reads or
/// writes, and drops none of it.
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

    /// Copies to the beginning of memory of either side, behind the launches before, and waits for
    /// it.
    ///
    /// # Errors
    /// If there is less memory, or the driver reports an error.
    fn fill(&self, memory: &Self::Memory, bytes: &[u8]) -> Result<(), CudaError>;

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

    /// Waits for all launches.
    ///
    /// # Errors
    /// If one of them failed.
    fn wait(&self) -> Result<(), CudaError>;
}
