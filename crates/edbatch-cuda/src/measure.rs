//! Launches of a probe kernel (`kernels/probe.cu`), by which benchmarks measure an NVIDIA device,
//! and attributes of the device. Plans do not need this module.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use edbatch_layout::Program;

pub use super::device::MemorySide;
use super::device::{Device, Kernel, Source};
use super::loaded::CompiledKernels;
pub use super::nvidia::THREADS;
use super::nvidia::{Nvidia, NvidiaProgram, TIMEOUT};
use super::store::Store;
use super::{CudaError, CudaOptions, DeviceModel, LaunchTimes, nvrtc};

/// Attributes of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Hardware {
    /// The product name.
    pub name: String,
    /// The compiler's name of the architecture, such as `sm_90`.
    pub architecture: String,
    /// The number of SMs.
    pub sms: u32,
    /// The maximum shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The newest CUDA version that the driver supports, (major, minor).
    pub driver: (u32, u32),
    /// The maximum clock of its SMs, in kHz; 0 if unknown.
    pub clock_khz: u32,
    /// The maximum clock of its memory, in kHz; 0 if unknown.
    pub memory_clock_khz: u32,
    /// The size of the L2 cache, in bytes.
    pub cache_bytes: usize,
}

/// Returns the version of NVRTC, (major, minor), or `None` if it is not installed.
#[must_use]
pub fn compiler() -> Option<(u32, u32)> {
    nvrtc::compiler().ok().map(|compiler| compiler.version)
}

/// Compiles the probe kernel for an architecture. No device is needed.
///
/// # Errors
/// If NVRTC is not installed or does not support the architecture.
pub fn compile(architecture: &str) -> Result<CompiledKernels, CudaError> {
    CompiledKernels::of(&source(), architecture, None)
}

fn source() -> Source {
    Source { text: include_str!("kernels/probe.cu").to_string(), kernel: Kernel::Probe }
}

/// A way to launch a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launching {
    /// An ordinary launch.
    Plain,
    /// A cooperative launch, whose blocks all run at the same time.
    Cooperative,
}

/// The number of chains of multiply-adds of a thread, as in the kernel.
pub const CHAINS: u32 = 8;

/// The distance between the barriers of teams in memory, in words.
const APART: usize = 64;

/// The work of a launch of the probe kernel. At the end of each launch, the last block writes a
/// word of host memory, like a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeWork {
    /// The way to launch.
    pub how: Launching,
    /// The number of teams.
    pub teams: u32,
    /// The number of blocks of a team.
    pub blocks: u32,
    /// The memory that the blocks copy from and to.
    pub sides: [MemorySide; 2],
    /// The number of barriers of each team.
    pub barriers: u32,
    /// The number of multiply-adds in each chain of a thread.
    pub terms: u32,
}

/// `ProbeArguments` of `kernels/probe.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ProbeArguments {
    barriers: u64,
    from: u64,
    to: u64,
    ends: u64,
    done: u64,
    timeout: u64,
    fours: u32,
    terms: u32,
    rounds: u32,
    blocks: u32,
    number: u32,
}

/// A device with the probe kernel.
pub struct ProbeDevice {
    device: Arc<Nvidia>,
    program: NvidiaProgram,
    hardware: Hardware,
}

impl ProbeDevice {
    /// Opens a device. Indices count from 0.
    ///
    /// # Errors
    /// If the driver or the device is missing or too old, or if the kernel is not cached and NVRTC
    /// is not installed.
    pub fn open(index: usize) -> Result<Self, CudaError> {
        let device = Nvidia::open(index, Store::of_user())?;
        let program = device.compile(&source(), None)?;
        let hardware = device.hardware()?;
        Ok(Self { device, program, hardware })
    }

    /// Returns the attributes of the device.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Returns the model of a program on this device.
    #[must_use]
    pub fn model(&self, program: &Program, options: &CudaOptions) -> DeviceModel {
        DeviceModel::on(program, options, self.device.properties())
    }

    /// Returns the times of all launches of plans on the device so far, in this process.
    #[must_use]
    pub fn launch_times(&self) -> LaunchTimes {
        self.device.team_pool().times()
    }

    /// Returns the nanoseconds between the start and the end of the launches that `launch` makes
    /// on the probe's stream, measured by the device.
    ///
    /// # Errors
    /// If `launch` or the driver fails.
    pub fn timed(&self, launch: impl FnOnce() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        self.device.timed(launch)
    }

    /// Allocates the memory of launches of the same work, which copy `words`.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    ///
    /// # Panics
    /// If there are no blocks, or the number of words is not a multiple of four.
    pub fn launches(&self, work: ProbeWork, words: &[u32]) -> Result<Launches<'_>, CudaError> {
        let device = &*self.device;
        let grid = work.teams.checked_mul(work.blocks).filter(|&blocks| blocks > 0);
        let grid = grid.expect("at least one block, and at most u32::MAX");
        assert!(words.len().is_multiple_of(4), "{} words", words.len());
        let [from, to] = work.sides.map(|side| device.memory((4 * words.len()).max(16), side));
        let counts = vec![0; (work.teams as usize + 1) * APART];
        let barriers = device.memory(4 * counts.len(), MemorySide::Device)?;
        let ends = device.memory(4 * grid as usize * THREADS as usize, MemorySide::Host)?;
        let memory = [barriers, from?, to?, ends, device.memory(4, MemorySide::Host)?];
        device.fill(&memory[0], &counts)?;
        device.fill(&memory[1], words)?;
        let [barriers, from, to, ends, done] =
            memory.each_ref().map(|memory| device.address(memory));
        let arguments = ProbeArguments {
            barriers,
            from,
            to,
            ends,
            done,
            timeout: TIMEOUT.as_nanos() as u64,
            fours: (words.len() / 4) as u32,
            terms: work.terms,
            rounds: work.barriers,
            blocks: work.blocks,
            number: 0,
        };
        Ok(Launches { probe: self, how: work.how, grid, arguments, memory })
    }
}

/// Launches of the same work, with their memory.
pub struct Launches<'a> {
    probe: &'a ProbeDevice,
    how: Launching,
    grid: u32,
    arguments: ProbeArguments,
    /// The barriers, the words to copy and their copies, the ends of chains, and the word that the
    /// last block writes.
    memory: [<Nvidia as Device>::Memory; 5],
}

impl Launches<'_> {
    /// Launches on a stream of teams, or else on the probe's own.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn launch(&mut self, stream: Option<usize>) -> Result<(), CudaError> {
        self.arguments.number += 1;
        let ProbeDevice { device, program, .. } = self.probe;
        device.launch_probe(program, stream, self.grid, self.how, &self.arguments)
    }

    /// Polls the word that the last block of the last launch writes.
    ///
    /// # Errors
    /// If a launch failed, or does not end.
    pub fn wait(&self) -> Result<(), CudaError> {
        let (device, began) = (&*self.probe.device, Instant::now());
        while device.word(&self.memory[4], 0) != self.arguments.number {
            if began.elapsed() > 2 * TIMEOUT {
                device.wait()?;
                return Err(CudaError::BarrierTimeout { timeout: TIMEOUT });
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Returns a range of the copied words.
    ///
    /// # Errors
    /// If a launch or the driver failed.
    pub fn copied(&self, words: Range<usize>) -> Result<Vec<u32>, CudaError> {
        self.probe.device.read(&self.memory[2], words)
    }

    /// Returns the counter of a team's barrier, low word first.
    ///
    /// # Errors
    /// If a launch or the driver failed.
    pub fn barrier_count(&self, team: u32) -> Result<Vec<u32>, CudaError> {
        let start = APART * team as usize;
        self.probe.device.read(&self.memory[0], start..start + 2)
    }

    /// Returns the bits of each thread's sum of chains.
    ///
    /// # Errors
    /// If a launch or the driver failed.
    pub fn ends_of_chains(&self) -> Result<Vec<u32>, CudaError> {
        self.probe.device.read(&self.memory[3], 0..(self.grid * THREADS) as usize)
    }
}

/// Waits for launches that still use the memory.
impl Drop for Launches<'_> {
    fn drop(&mut self) {
        // A destructor cannot report an error.
        let _ = self.probe.device.wait();
    }
}
