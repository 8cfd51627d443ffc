//! The backend: plans on tapes, a launch a wave.

use std::path::PathBuf;
use std::sync::Arc;

use edbatch_layout::{PhaseTable, Plan, Planner, Program, Tape};

use super::CudaError;
use super::device::{Arguments, Device, Side};
use super::emulated::Emulated;
use super::nvidia::Nvidia;
use super::nvrtc;
use super::on_tape::{alone, find_wanted, too_large};
use super::source::source;
use super::store::{Key, Store};
use super::weights::WeightLayout;
use crate::{Backend, BackendError, Bytes, Given, Outputs, Parameters};

/// Carries plans out on a CUDA device, or on an emulated one.
///
/// A wave is a launch, and a block takes a tile of the calls of a step and a slice of its columns.
/// The bits are those of the CPU's levels that fuse multiplications and additions.
struct Cuda<D: Device> {
    loaded: Arc<Loaded<D>>,
    memory: PlanMemory<D>,
    tape: Tape,
    /// Of the plan that ran last, by wanted value: where its elements begin among the outputs, and
    /// the index of its greatest element.
    starts: Vec<usize>,
    greatest: Vec<u32>,
}

/// What is decided and copied once, shared by backends on the same weights.
struct Loaded<D: Device> {
    device: D,
    program: Arc<Program>,
    table: PhaseTable,
    kernels: D::Program,
    weights: D::Memory,
    /// The program's folded tables, if it has any; behind them, the scratch that making them took.
    folded: Option<D::Memory>,
    /// Bytes of both.
    weight_bytes: usize,
}

/// What plans need; it grows by half, and nothing is taken in a steady state.
struct PlanMemory<D: Device> {
    tape: Buffer<D>,
    given: Buffer<D>,
    arena: Buffer<D>,
    /// Where rows stay, and where they stayed before: in turns.
    stay: [Buffer<D>; 2],
    outputs: Buffer<D>,
    indices: Buffer<D>,
}

/// Memory of a side, as long as the longest plan needed it.
struct Buffer<D: Device> {
    side: Side,
    what: &'static str,
    words: usize,
    memory: Option<D::Memory>,
}

/// A device that is the host: the same kernels, compiled by the C++ compiler of the machine.
/// Threads, blocks and jobs run in orders that `seed` shuffles, and no bit depends on them.
///
/// For tests, and to see what a device would compute; far slower than [`Cpu`](crate::Cpu).
///
/// # Errors
/// If there is no C++ compiler, or memory for the weights cannot be had.
pub fn emulated(
    program: Arc<Program>,
    parameters: &Parameters,
    seed: u32,
) -> Result<Box<dyn Backend>, BackendError> {
    Ok(Box::new(Cuda::new(Emulated::new(seed), program, parameters)?))
}

/// A CUDA device, counted from 0. Its kernels are compiled by NVRTC when a program first needs
/// them, and found in the user's cache afterwards: `$XDG_CACHE_HOME/edbatch`, or
/// `~/.cache/edbatch`.
///
/// # Errors
/// If the driver or the device is missing or too old, if the kernels are not stored and there is no
/// compiler, or if memory for the weights cannot be had.
pub fn nvidia(
    program: Arc<Program>,
    parameters: &Parameters,
    index: usize,
) -> Result<Box<dyn Backend>, BackendError> {
    let device = Nvidia::new(index, Store::of_user())?;
    Ok(Box::new(Cuda::new(device, program, parameters)?))
}

/// A program's kernels for an architecture.
#[derive(Debug)]
#[non_exhaustive]
pub struct CompiledKernels {
    /// Bytes of machine code.
    pub bytes: usize,
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of registers that a thread must leave in memory and fetch again.
    pub spilled: usize,
    /// Bytes of a thread's memory for what is in no register.
    pub stack: usize,
    code: Vec<u8>,
    key: Key,
}

impl CompiledKernels {
    /// Puts the kernels where [`nvidia`] finds them, into the user's cache; where that is, if the
    /// user has one. On a machine without a compiler a copy of the folder will do.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store(&self) -> std::io::Result<Option<PathBuf>> {
        let store = Store::of_user();
        store.put(&self.key, &self.code)?;
        Ok(store.path(&self.key))
    }
}

/// Compiles a program's kernels for an architecture, such as `sm_90a`, on a machine that need not
/// have a device.
///
/// # Errors
/// If there is no NVRTC, or it does not know the architecture.
pub fn compile(program: &Program, architecture: &str) -> Result<CompiledKernels, CudaError> {
    let table = PhaseTable::new(program);
    let source = source(program, &table, &WeightLayout::new(program, &table));
    let binary = nvrtc::compile(&source, architecture)?;
    let usage = binary.usage().ok_or_else(|| CudaError::Failed {
        what: "NVRTC",
        why: format!("its log does not say what the kernels take: {}", binary.log),
    })?;
    let key = Key::new(&source, &nvrtc::OPTIONS, nvrtc::version()?, architecture);
    Ok(CompiledKernels {
        bytes: binary.code.len(),
        registers: usage.registers,
        spilled: usage.spilled,
        stack: usage.stack,
        code: binary.code,
        key,
    })
}

/// The C++ of a program's kernels. It includes the headers of this crate's `src/cuda/kernels`.
#[must_use]
pub fn kernel_source(program: &Program) -> String {
    let table = PhaseTable::new(program);
    source(program, &table, &WeightLayout::new(program, &table)).text
}

impl<D: Device> Cuda<D> {
    /// Compiles a program's kernels, copies its parameters to a device, and lets it compute the
    /// folded tables.
    fn new(
        device: D,
        program: Arc<Program>,
        parameters: &Parameters,
    ) -> Result<Self, BackendError> {
        let table = PhaseTable::new(&program);
        let layout = WeightLayout::new(&program, &table);
        let kernels = device.compile(&source(&program, &table, &layout))?;
        let floats = layout.fill(parameters).map_err(|error| error.of("packed weights"))?;
        let weight_bytes = size_of_val(floats.as_slice());
        let weights = device.memory(weight_bytes.max(4), Side::Device)?;
        let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_ne_bytes()).collect();
        device.fill(&weights, &bytes)?;
        let folded = None;
        let mut loaded = Loaded { device, program, table, kernels, weights, folded, weight_bytes };
        loaded.fold_tables()?;
        Ok(Self::on(Arc::new(loaded)))
    }

    fn on(loaded: Arc<Loaded<D>>) -> Self {
        let memory = PlanMemory {
            tape: Buffer::new(Side::Host, "a plan on its tape"),
            given: Buffer::new(Side::Host, "given rows"),
            arena: Buffer::new(Side::Device, "the arena of a mini-batch's values"),
            stay: [(); 2].map(|()| Buffer::new(Side::Device, "rows that stay")),
            outputs: Buffer::new(Side::Host, "what a plan is run for"),
            indices: Buffer::new(Side::Host, "what a plan is run for"),
        };
        let (tape, starts, greatest) = (Tape::default(), Vec::new(), Vec::new());
        Self { loaded, memory, tape, starts, greatest }
    }

    /// Copies a tape to the device, and launches all of its waves.
    fn launch(&mut self) -> Result<(), BackendError> {
        let Self { loaded, memory, tape, .. } = self;
        let device = &loaded.device;
        let words = memory.tape.reserve(device, tape.words().len())?;
        device.host_mut(words)[..tape.words().len()].copy_from_slice(tape.words());
        memory.arena.reserve(device, tape.arena())?;
        memory.outputs.reserve(device, tape.outputs())?;
        memory.indices.reserve(device, tape.indices())?;
        if tape.stay() > 0 {
            memory.stay[0].reserve(device, tape.stay())?;
        }
        let address =
            |buffer: &Buffer<D>| buffer.memory.as_ref().map_or(0, |memory| device.address(memory));
        let arguments = Arguments {
            tape: address(&memory.tape),
            arena: address(&memory.arena),
            weights: device.address(&loaded.weights),
            folded: loaded.folded.as_ref().map_or(0, |memory| device.address(memory)),
            given: address(&memory.given),
            stayed: address(&memory.stay[0]),
            stayed_before: address(&memory.stay[1]),
            outputs: address(&memory.outputs),
            indices: address(&memory.indices),
            wave: 0,
        };
        Ok(loaded.launch(tape, arguments)?)
    }

    /// Writes the host's given rows where the device reads them.
    fn give(&mut self, given: &Given<'_>) -> Result<(), BackendError> {
        let initial = given.initial.iter().map(<[f32]>::len).sum::<usize>();
        let device = &self.loaded.device;
        let memory = self.memory.given.reserve(device, initial + given.host.len())?;
        let floats = device.host_floats_mut(memory);
        let mut at = 0;
        for row in given.initial.iter().chain([given.host]) {
            floats[at..at + row.len()].copy_from_slice(row);
            at += row.len();
        }
        Ok(())
    }
}

impl<D: Device> Loaded<D> {
    /// Launches all waves of a tape.
    fn launch(&self, tape: &Tape, mut arguments: Arguments) -> Result<(), CudaError> {
        // More blocks would only wait for each other; each takes several jobs then.
        let most = BLOCKS * self.device.facts().processors as usize;
        for wave in 0..tape.waves() {
            arguments.wave = wave as u32;
            let blocks = tape.jobs(wave).min(most) as u32;
            if blocks > 0 {
                self.device.launch(&self.kernels, blocks, &arguments)?;
            }
        }
        Ok(())
    }

    /// Computes the program's folded tables.
    fn fold_tables(&mut self) -> Result<(), BackendError> {
        let plan = self.program.folding_plan();
        if plan.steps.is_empty() {
            return Ok(());
        }
        let mut tape = Tape::default();
        tape.write(&self.program, &self.table, &plan, (0, 0)).map_err(|error| too_large(&error))?;
        let device = &self.device;
        let mut words = device.memory(4 * tape.words().len(), Side::Host)?;
        device.host_mut(&mut words)[..tape.words().len()].copy_from_slice(tape.words());
        let folded = device.memory(4 * tape.arena(), Side::Device)?;
        let arguments = Arguments {
            tape: device.address(&words),
            arena: device.address(&folded),
            weights: device.address(&self.weights),
            ..Arguments::default()
        };
        let launched = self.launch(&tape, arguments);
        // No memory may go before what was launched has ended.
        device.wait()?;
        launched?;
        self.weight_bytes += 4 * tape.arena();
        self.folded = Some(folded);
        Ok(())
    }
}

/// Blocks that a processor may have at once.
const BLOCKS: usize = 8;

impl<D: Device> Buffer<D> {
    fn new(side: Side, what: &'static str) -> Self {
        Self { side, what, words: 0, memory: None }
    }

    /// Makes the memory at least so many words long; what was in it may be lost. No launch may be
    /// under way that needs it.
    fn reserve(&mut self, device: &D, words: usize) -> Result<&mut D::Memory, BackendError> {
        if self.words < words || self.memory.is_none() {
            // First given back, so that both need not be held at once.
            self.memory = None;
            let more = words.max(self.words + self.words / 2).max(16);
            let memory = device.memory(4 * more, self.side).map_err(|error| match error {
                CudaError::Memory { bytes, .. } => {
                    BackendError::Memory { what: self.what, bytes: bytes as u64 }
                }
                error => error.into(),
            })?;
            (self.words, self.memory) = (more, Some(memory));
        }
        Ok(self.memory.as_mut().expect("taken above"))
    }
}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        Self::Cuda(error)
    }
}

impl<D: Device> Backend for Cuda<D> {
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        // What an earlier plan wrote is read no more.
        loaded.device.wait()?;
        let rows = (given.initial.len(), given.stayed);
        let written = self.tape.write(&loaded.program, &loaded.table, plan, rows);
        written.map_err(|error| too_large(&error))?;
        self.give(given)?;
        // What the plan before let stay is read while this one lets other rows stay.
        self.memory.stay.swap(0, 1);
        self.launch()
    }

    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError> {
        let Self { loaded, memory, starts, greatest, .. } = self;
        loaded.device.wait()?;
        let indices = memory.indices.memory.as_ref();
        let indices = indices.map_or(&[][..], |memory| loaded.device.host(memory));
        find_wanted(&loaded.program, plan, indices, starts, greatest);
        let elements = memory.outputs.memory.as_ref();
        let elements = elements.map_or(&[][..], |memory| loaded.device.host_floats(memory));
        Ok(Outputs::packed(&loaded.program, plan, (elements, starts), greatest))
    }

    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        loaded.device.wait()?;
        let written = self.tape.write(&loaded.program, &loaded.table, &alone(plan, step), (0, 0));
        written.map_err(|error| too_large(&error))?;
        self.launch()?;
        Ok(loaded.device.wait()?)
    }

    fn bytes(&self) -> Bytes {
        let stay = self.memory.stay.iter().map(|buffer| buffer.words).sum::<usize>();
        Bytes { weights: self.loaded.weight_bytes, arena: 4 * (self.memory.arena.words + stay) }
    }

    fn planner(&self) -> Planner {
        Planner::for_waves()
    }

    fn another(&self) -> Box<dyn Backend> {
        Box::new(Self::on(self.loaded.clone()))
    }
}
