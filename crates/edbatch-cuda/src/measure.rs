//! Measurements of an NVIDIA device: launches, barriers, copies and multiply-adds, by a probe
//! kernel (`kernels/probe.cu`). Plans do not need this module.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{BARRIER_WORDS, Device, Kernel, Side, Source};
use super::loaded::CompiledKernels;
use super::nvidia::{Nvidia, NvidiaProgram};
use super::store::Store;
use super::{CudaError, nvrtc};

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

/// A way to launch a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launching {
    /// An ordinary launch.
    Plain,
    /// A cooperative launch, whose blocks all run at the same time.
    Cooperative,
}

/// The work of a launch of the probe kernel. At the end of each launch, the last block writes a
/// word of host memory, like a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Experiment {
    /// No work.
    Launch {
        /// The way to launch.
        how: Launching,
        /// The number of blocks.
        blocks: u32,
    },
    /// Barriers of teams.
    Barriers {
        /// The number of teams that run at the same time.
        teams: u32,
        /// The number of blocks of a team.
        blocks: u32,
    },
    /// Copies from host memory to device memory, as for command lists.
    Pull {
        /// The number of blocks.
        blocks: u32,
        /// Bytes per launch.
        bytes: usize,
    },
    /// Copies from device memory to host memory, as for outputs.
    WriteBack {
        /// The number of blocks.
        blocks: u32,
        /// Bytes per launch.
        bytes: usize,
    },
    /// Copies within device memory, or within the L2 cache if they fit.
    Copy {
        /// Bytes per launch. Each byte is read once and written once.
        bytes: usize,
    },
    /// Multiply-adds in registers on all SMs.
    MultiplyAdds,
}

/// The times of launches.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Measured {
    /// Nanoseconds per launch in a sequence of launches, by the device's clock. If the driver call
    /// takes longer than the launch, this is the time of the call.
    pub device: Vec<f64>,
    /// Nanoseconds from the driver call until the host sees the end of a single launch.
    pub host: Vec<f64>,
    /// Nanoseconds until the driver call that launches returns.
    pub call: Vec<f64>,
    /// The work of a launch: barriers per team, FLOPs, or bytes (bytes of
    /// [`Copy`](Experiment::Copy) count twice, as read and as written); 0 for no work.
    pub work: f64,
}

/// A device with the probe kernel.
pub struct Probe {
    device: Arc<Nvidia>,
    program: NvidiaProgram,
    hardware: Hardware,
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

/// The number of barriers of each team in a launch.
const ROUNDS: u32 = 1000;
/// The number of multiply-adds in a chain.
const TERMS: u32 = 1 << 14;

/// The number of chains of a thread, as in the kernel.
const CHAINS: u32 = 8;
/// The number of threads of a block, as in the kernel.
const THREADS: u32 = 256;
/// The distance between the barriers of teams in memory, in bytes.
const APART: usize = 256;

/// The number of launches that the device times together.
const BEHIND: u32 = 16;

/// The number of blocks per SM for [`Experiment::Copy`].
const COPYING: u32 = 8;

/// The time that blocks wait at a barrier.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The time of a warm-up before samples are taken.
const WARM_UP: Duration = Duration::from_millis(100);

/// The number of bytes at the end of a copy that are read back and compared.
const COMPARED: usize = 1 << 16;

fn source() -> Source {
    Source { text: include_str!("kernels/probe.cu").to_string(), kernel: Kernel::Probe }
}

/// Compiles the probe kernel for an architecture. No device is needed.
///
/// # Errors
/// If NVRTC is not installed or does not support the architecture.
pub fn compile(architecture: &str) -> Result<CompiledKernels, CudaError> {
    CompiledKernels::of(&source(), architecture, None)
}

impl Probe {
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

    /// Checks the result of a first launch, then measures further launches. Returns `samples`
    /// values for each time in [`Measured`].
    ///
    /// # Errors
    /// If the result is wrong, a launch fails, or memory cannot be allocated.
    pub fn measure(&self, experiment: Experiment, samples: usize) -> Result<Measured, CudaError> {
        let mut run = Run::new(self, experiment)?;
        run.launch()?;
        run.wait()?;
        run.compare()?;
        // Clocks rise under load.
        let warm = Instant::now() + WARM_UP;
        while Instant::now() < warm {
            run.launch()?;
            run.wait()?;
        }
        let (mut host, mut call) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let began = Instant::now();
            run.launch()?;
            call.push(began.elapsed().as_nanos() as f64);
            run.wait()?;
            host.push(began.elapsed().as_nanos() as f64);
        }
        let behind =
            |run: &mut Run<'_>| self.device.timed(|| (0..BEHIND).try_for_each(|_| run.launch()));
        let device = (0..samples).map(|_| Ok(behind(&mut run)? / f64::from(BEHIND)));
        let device = device.collect::<Result<_, CudaError>>()?;
        run.wait()?;
        Ok(Measured { device, host, call, work: run.work() })
    }

    /// Returns the nanoseconds until the host sees the end of `launches` launches of a team each,
    /// on streams of their own. Each team has `blocks` blocks and a thousand barriers. If launches
    /// overlap, several take about as long as one.
    ///
    /// # Errors
    /// If a launch fails, or memory cannot be allocated.
    pub fn side_by_side(
        &self,
        launches: usize,
        blocks: u32,
        samples: usize,
    ) -> Result<Vec<f64>, CudaError> {
        let barriers = Experiment::Barriers { teams: 1, blocks };
        let runs = (0..launches).map(|_| Run::new(self, barriers));
        let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
        let mut sample = || -> Result<f64, CudaError> {
            let began = Instant::now();
            for (stream, run) in runs.iter_mut().enumerate() {
                run.launch_on(Some(stream))?;
            }
            runs.iter().try_for_each(Run::wait)?;
            Ok(began.elapsed().as_nanos() as f64)
        };
        // The first one creates the streams.
        sample()?;
        (0..samples).map(|_| sample()).collect()
    }
}

type Memory = <Nvidia as Device>::Memory;

/// An experiment with its memory.
struct Run<'a> {
    probe: &'a Probe,
    experiment: Experiment,
    how: Launching,
    grid: u32,
    arguments: ProbeArguments,
    bytes: usize,
    done: Memory,
    ends: Memory,
    /// Other memory that the arguments point to.
    _memory: [Memory; 3],
}

impl<'a> Run<'a> {
    fn new(probe: &'a Probe, experiment: Experiment) -> Result<Self, CudaError> {
        let device = &*probe.device;
        let sms = probe.hardware.sms;
        use Launching::{Cooperative, Plain};
        let (how, teams, blocks, bytes) = match experiment {
            Experiment::Launch { how, blocks } => (how, 1, blocks, 0),
            Experiment::Barriers { teams, blocks } => (Cooperative, teams, blocks, 0),
            Experiment::Pull { blocks, bytes } | Experiment::WriteBack { blocks, bytes } => {
                (Cooperative, 1, blocks, bytes)
            }
            Experiment::Copy { bytes } => (Plain, 1, COPYING * sms, bytes),
            Experiment::MultiplyAdds => (Plain, 1, sms, 0),
        };
        let (from_side, to_side) = match experiment {
            Experiment::Pull { .. } => (Side::Host, Side::Device),
            Experiment::WriteBack { .. } => (Side::Device, Side::Host),
            _ => (Side::Device, Side::Device),
        };
        let grid = teams * blocks;
        let barriers = device.memory((teams as usize + 1) * APART, Side::Device)?;
        device.fill(&barriers, &vec![0; (teams as usize + 1) * APART / 4])?;
        let done = device.memory(4, Side::Host)?;
        let from = device.memory(bytes.max(16), from_side)?;
        device.fill(&from, &pattern(0..bytes / 4))?;
        let to = device.memory(bytes.max(16), to_side)?;
        let ends = device.memory(4 * (grid * THREADS) as usize, Side::Host)?;
        let arguments = ProbeArguments {
            barriers: device.address(&barriers),
            from: device.address(&from),
            to: device.address(&to),
            ends: device.address(&ends),
            done: device.address(&done),
            timeout: TIMEOUT.as_nanos() as u64,
            fours: (bytes / 16) as u32,
            terms: if experiment == Experiment::MultiplyAdds { TERMS } else { 0 },
            rounds: if matches!(experiment, Experiment::Barriers { .. }) { ROUNDS } else { 0 },
            blocks,
            number: 0,
        };
        let _memory = [barriers, from, to];
        Ok(Self { probe, experiment, how, grid, arguments, bytes, done, ends, _memory })
    }

    fn launch(&mut self) -> Result<(), CudaError> {
        self.launch_on(None)
    }

    /// Launches on a stream of teams, or else on the stream of waves.
    fn launch_on(&mut self, stream: Option<usize>) -> Result<(), CudaError> {
        self.arguments.number += 1;
        let Probe { device, program, .. } = self.probe;
        device.launch_probe(program, stream, self.grid, self.how, &self.arguments)
    }

    /// Polls the word that the last block writes.
    fn wait(&self) -> Result<(), CudaError> {
        let (device, began) = (&*self.probe.device, Instant::now());
        while device.word(&self.done, 0) != self.arguments.number {
            if began.elapsed() > 2 * TIMEOUT {
                device.wait()?;
                return Err(CudaError::BarrierTimeout { timeout: TIMEOUT });
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn work(&self) -> f64 {
        match self.experiment {
            Experiment::Launch { .. } => 0.0,
            Experiment::Barriers { .. } => f64::from(ROUNDS),
            Experiment::Pull { .. } | Experiment::WriteBack { .. } => self.bytes as f64,
            Experiment::Copy { .. } => 2.0 * self.bytes as f64,
            Experiment::MultiplyAdds => {
                2.0 * f64::from(self.grid * THREADS * CHAINS) * f64::from(TERMS)
            }
        }
    }

    /// Checks the results of the first launch.
    fn compare(&self) -> Result<(), CudaError> {
        let (device, arguments) = (&*self.probe.device, &self.arguments);
        let compared = self.bytes.min(COMPARED);
        let first = (self.bytes - compared) / 4;
        let got = self.read(arguments.to + 4 * first as u64, compared)?;
        check("a copy", &got, &pattern(first..self.bytes / 4))?;
        if arguments.rounds > 0 {
            let teams = self.grid / arguments.blocks;
            let count = u64::from(arguments.rounds) * u64::from(arguments.blocks);
            for team in 0..teams {
                let at = arguments.barriers + u64::from(team) * APART as u64;
                let got = self.read(at, 4 * BARRIER_WORDS)?;
                let expected = [count as u32, (count >> 32) as u32];
                check("the count of a barrier", &got[..2], &expected)?;
            }
        }
        if arguments.terms > 0 {
            let threads = (self.grid * THREADS) as usize;
            let expected = vec![end_of_chains().to_bits(); threads];
            check("chains of products", &device.host(&self.ends)[..threads], &expected)?;
        }
        Ok(())
    }

    /// Copies device memory to the host.
    fn read(&self, address: u64, bytes: usize) -> Result<Vec<u32>, CudaError> {
        let Probe { device, program, .. } = self.probe;
        let [to, done] = [bytes.max(16), 4].map(|bytes| device.memory(bytes, Side::Host));
        let (to, done) = (to?, done?);
        let barriers = device.memory(2 * APART, Side::Device)?;
        device.fill(&barriers, &[0; 2 * APART / 4])?;
        let arguments = ProbeArguments {
            barriers: device.address(&barriers),
            from: address,
            to: device.address(&to),
            done: device.address(&done),
            fours: (bytes / 16) as u32,
            terms: 0,
            rounds: 0,
            blocks: 1,
            number: 1,
            ..self.arguments
        };
        let launched = device.launch_probe(program, None, 1, Launching::Plain, &arguments);
        // The launch uses the memory until it has ended, also after an error.
        device.wait().and(launched)?;
        Ok(device.host(&to)[..bytes / 4].to_vec())
    }
}

/// Waits for launches that still use the memory.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        // A destructor cannot report an error.
        let _ = self.probe.device.wait();
    }
}

/// Returns test data for a range of words. Each word differs from its neighbours.
fn pattern(words: std::ops::Range<usize>) -> Vec<u32> {
    words.map(|word| (word as u32).wrapping_mul(0x9E37_79B9)).collect()
}

/// Returns the expected result of each thread: the sum of its chains of multiply-adds.
fn end_of_chains() -> f32 {
    let chain = |chain| (0..TERMS).fold(chain as f32, |x, _| x.mul_add(1.0 - 1.0 / 4096.0, 0.5));
    (0..CHAINS).map(chain).sum()
}

fn check(what: &'static str, got: &[u32], expected: &[u32]) -> Result<(), CudaError> {
    match got == expected {
        true => Ok(()),
        false => Err(CudaError::failed(what, "the device's result is wrong")),
    }
}
