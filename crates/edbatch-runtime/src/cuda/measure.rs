//! For measuring a device of NVIDIA's: what it takes for a launch, for blocks that meet, for copies
//! and for multiplications, by a kernel that does nothing else (`kernels/probe.cu`).
//!
//! The design's estimates are made of these figures. Nothing here is needed to run a plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{Device, Kernel, MEETING, Side, Source};
use super::loaded::CompiledKernels;
use super::nvidia::{Nvidia, NvidiaProgram};
use super::store::Store;
use super::{CudaError, nvrtc};

/// What the driver says of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Hardware {
    /// What its maker calls it.
    pub name: String,
    /// What the compiler calls it: `sm_90a`.
    pub architecture: String,
    /// Its processors.
    pub processors: u32,
    /// Shared memory that a block can have, in bytes.
    pub shared_bytes: usize,
    /// The version of CUDA that the driver knows, (major, minor).
    pub driver: (u32, u32),
    /// The highest clock of its processors, in kHz; 0 where the driver does not say.
    pub clock_khz: u32,
    /// That of its memory.
    pub memory_clock_khz: u32,
    /// Bytes of the cache that all processors share.
    pub cache_bytes: usize,
}

/// The compiler's version, (major, minor); `None` where there is none.
#[must_use]
pub fn compiler() -> Option<(u32, u32)> {
    nvrtc::version().ok()
}

/// How a kernel is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launching {
    /// As any kernel.
    Plain,
    /// So that all its blocks run at the same time.
    Cooperative,
}

/// What the measuring kernel does in a launch. In each, the last block says that all is done, as a
/// plan's does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Experiment {
    /// Nothing.
    Launch {
        /// How.
        how: Launching,
        /// How many.
        blocks: u32,
    },
    /// The blocks of each team meet again and again.
    Meetings {
        /// Teams side by side.
        teams: u32,
        /// Blocks of a team.
        blocks: u32,
    },
    /// Blocks copy from the host's memory to the device's, as they do with a tape.
    Pull {
        /// How many.
        blocks: u32,
        /// In a launch.
        bytes: usize,
    },
    /// Blocks copy from the device's memory to the host's, as they do with outputs.
    WriteBack {
        /// How many.
        blocks: u32,
        /// In a launch.
        bytes: usize,
    },
    /// All processors copy within the device's memory; what fits its cache, from there.
    Copy {
        /// In a launch; half of what is moved.
        bytes: usize,
    },
    /// All processors multiply and add, in registers.
    MultiplyAdds,
}

/// What launches took.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Measured {
    /// Nanoseconds of each of many launches in a row, by the device's clock: what a launch takes,
    /// or what its call takes, if that is longer.
    pub device: Vec<f64>,
    /// Nanoseconds from the call until the host sees that it is done, one at a time.
    pub host: Vec<f64>,
    /// Nanoseconds of the call alone.
    pub call: Vec<f64>,
    /// In a launch: meetings of a team, bytes read and written, FLOPs; 0 for an empty one.
    pub work: f64,
}

/// A device to be measured.
pub struct Probe {
    device: Arc<Nvidia>,
    program: NvidiaProgram,
    hardware: Hardware,
}

/// `ProbeArguments` of `kernels/probe.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ProbeArguments {
    meetings: u64,
    from: u64,
    to: u64,
    ends: u64,
    done: u64,
    patience: u64,
    fours: u32,
    terms: u32,
    rounds: u32,
    blocks: u32,
    number: u32,
}

/// Meetings of a launch, and terms of a chain.
const ROUNDS: u32 = 1000;
const TERMS: u32 = 1 << 14;

/// As the kernel has them.
const CHAINS: u32 = 8;
const THREADS: u32 = 256;
/// Bytes from one meeting to the next.
const APART: usize = 256;

/// Launches behind each other that the device times together.
const BEHIND: u32 = 16;

/// Blocks of a processor that copy.
const COPYING: u32 = 8;

/// How long the blocks of a team, and then the host, wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// For so long a device is kept busy before samples are taken.
const WARM_UP: Duration = Duration::from_millis(100);

/// Bytes of a copy that are read back and compared: its end.
const COMPARED: usize = 1 << 16;

fn source() -> Source {
    Source { text: include_str!("kernels/probe.cu").to_string(), kernel: Kernel::Probe }
}

/// Compiles the measuring kernel for an architecture, on a machine that need not have a device.
///
/// # Errors
/// If there is no NVRTC, or it does not know the architecture.
pub fn compile(architecture: &str) -> Result<CompiledKernels, CudaError> {
    CompiledKernels::of(&source(), architecture)
}

impl Probe {
    /// A device, counted from 0, with the measuring kernel.
    ///
    /// # Errors
    /// If the driver or the device is missing or too old, or if the kernel is not stored and there
    /// is no compiler.
    pub fn open(index: usize) -> Result<Self, CudaError> {
        let device = Nvidia::open(index, Store::of_user())?;
        let program = device.compile(&source())?;
        let hardware = device.hardware()?;
        Ok(Self { device, program, hardware })
    }

    /// What the driver says of the device.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Takes so many samples of launches, after a launch whose result was compared with what it
    /// should be.
    ///
    /// # Errors
    /// If the result is another one, a launch fails, or memory cannot be had.
    pub fn measure(&self, experiment: Experiment, samples: usize) -> Result<Measured, CudaError> {
        let mut run = Run::new(self, experiment)?;
        run.launch()?;
        run.wait()?;
        run.compare()?;
        // Clocks rise with the load.
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
    /// What the arguments point to beside these.
    _memory: [Memory; 3],
}

impl<'a> Run<'a> {
    fn new(probe: &'a Probe, experiment: Experiment) -> Result<Self, CudaError> {
        let device = &*probe.device;
        let processors = probe.hardware.processors;
        use Launching::{Cooperative, Plain};
        let (how, teams, blocks, bytes) = match experiment {
            Experiment::Launch { how, blocks } => (how, 1, blocks, 0),
            Experiment::Meetings { teams, blocks } => (Cooperative, teams, blocks, 0),
            Experiment::Pull { blocks, bytes } | Experiment::WriteBack { blocks, bytes } => {
                (Cooperative, 1, blocks, bytes)
            }
            Experiment::Copy { bytes } => (Plain, 1, COPYING * processors, bytes),
            Experiment::MultiplyAdds => (Plain, 1, processors, 0),
        };
        let (from_side, to_side) = match experiment {
            Experiment::Pull { .. } => (Side::Host, Side::Device),
            Experiment::WriteBack { .. } => (Side::Device, Side::Host),
            _ => (Side::Device, Side::Device),
        };
        let grid = teams * blocks;
        let meetings = device.memory((teams as usize + 1) * APART, Side::Device)?;
        device.fill(&meetings, &vec![0; (teams as usize + 1) * APART / 4])?;
        let done = device.memory(4, Side::Host)?;
        device.fill(&done, &[0])?;
        let from = device.memory(bytes.max(16), from_side)?;
        device.fill(&from, &pattern(0..bytes / 4))?;
        let to = device.memory(bytes.max(16), to_side)?;
        let ends = device.memory(4 * (grid * THREADS) as usize, Side::Host)?;
        let arguments = ProbeArguments {
            meetings: device.address(&meetings),
            from: device.address(&from),
            to: device.address(&to),
            ends: device.address(&ends),
            done: device.address(&done),
            patience: PATIENCE.as_nanos() as u64,
            fours: (bytes / 16) as u32,
            terms: if experiment == Experiment::MultiplyAdds { TERMS } else { 0 },
            rounds: if matches!(experiment, Experiment::Meetings { .. }) { ROUNDS } else { 0 },
            blocks,
            number: 0,
        };
        let _memory = [meetings, from, to];
        Ok(Self { probe, experiment, how, grid, arguments, bytes, done, ends, _memory })
    }

    fn launch(&mut self) -> Result<(), CudaError> {
        self.arguments.number += 1;
        let Probe { device, program, .. } = self.probe;
        device.launch_probe(program, self.grid, self.how, &self.arguments)
    }

    /// Looks at the word that the last block writes.
    fn wait(&self) -> Result<(), CudaError> {
        let (device, began) = (&*self.probe.device, Instant::now());
        while device.word(&self.done, 0) != self.arguments.number {
            if began.elapsed() > 2 * PATIENCE {
                device.wait()?;
                return Err(CudaError::Late { patience: PATIENCE });
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn work(&self) -> f64 {
        match self.experiment {
            Experiment::Launch { .. } => 0.0,
            Experiment::Meetings { .. } => f64::from(ROUNDS),
            Experiment::Pull { .. } | Experiment::WriteBack { .. } => self.bytes as f64,
            Experiment::Copy { .. } => 2.0 * self.bytes as f64,
            Experiment::MultiplyAdds => {
                2.0 * f64::from(self.grid * THREADS * CHAINS) * f64::from(TERMS)
            }
        }
    }

    /// After the first launch: whether it did what it should.
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
                let at = arguments.meetings + u64::from(team) * APART as u64;
                let got = self.read(at, 4 * MEETING)?;
                let expected = [count as u32, (count >> 32) as u32];
                check("the count of a meeting", &got[..2], &expected)?;
            }
        }
        if arguments.terms > 0 {
            let threads = (self.grid * THREADS) as usize;
            let expected = vec![end_of_chains().to_bits(); threads];
            check("chains of products", &device.host(&self.ends)[..threads], &expected)?;
        }
        Ok(())
    }

    /// What is in the device's memory, by way of the host's.
    fn read(&self, address: u64, bytes: usize) -> Result<Vec<u32>, CudaError> {
        let Probe { device, program, .. } = self.probe;
        let [to, done] = [bytes.max(16), 4].map(|bytes| device.memory(bytes, Side::Host));
        let (to, done) = (to?, done?);
        let meetings = device.memory(2 * APART, Side::Device)?;
        device.fill(&meetings, &[0; 2 * APART / 4])?;
        let arguments = ProbeArguments {
            meetings: device.address(&meetings),
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
        let launched = device.launch_probe(program, 1, Launching::Plain, &arguments);
        // No memory may go before what was launched has ended.
        device.wait().and(launched)?;
        Ok(device.host(&to)[..bytes / 4].to_vec())
    }
}

/// What was launched may still write to its memory.
impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Nobody asks any more whether it was carried out.
        let _ = self.probe.device.wait();
    }
}

/// Words that differ from their neighbours.
fn pattern(words: std::ops::Range<usize>) -> Vec<u32> {
    words.map(|word| (word as u32).wrapping_mul(0x9E37_79B9)).collect()
}

/// What each thread leaves of its chains.
fn end_of_chains() -> f32 {
    let chain = |chain| (0..TERMS).fold(chain as f32, |x, _| x.mul_add(1.0 - 1.0 / 4096.0, 0.5));
    (0..CHAINS).map(chain).sum()
}

fn check(what: &'static str, got: &[u32], expected: &[u32]) -> Result<(), CudaError> {
    match got == expected {
        true => Ok(()),
        false => Err(CudaError::failed(what, "the device's result is another one than expected")),
    }
}
