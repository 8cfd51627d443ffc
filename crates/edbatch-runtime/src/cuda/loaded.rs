//! A program on a device: what is decided, compiled and copied once.

use std::path::PathBuf;
use std::sync::Arc;

use edbatch_layout::{PhaseTable, Program, Tape};

use super::backend::too_large;
use super::device::{Arguments, Device, Facts, Side, Source, TeamPart};
use super::place::{Placement, recurrent};
use super::slots::Team;
use super::source::source;
use super::store::{Key, Store};
use super::weights::WeightLayout;
use super::{CudaError, CudaOptions, Driver, nvrtc};
use crate::{BackendError, Parameters};

/// What is decided and copied once, shared by backends on the same weights.
pub(super) struct Loaded<D: Device> {
    pub(super) device: Arc<D>,
    pub(super) program: Arc<Program>,
    pub(super) table: PhaseTable,
    pub(super) kernels: D::Program,
    pub(super) weights: D::Memory,
    /// The program's folded tables, if it has any; behind them, the scratch that making them took.
    pub(super) folded: Option<D::Memory>,
    /// Bytes of both.
    pub(super) weight_bytes: usize,
    /// How plans are divided between the blocks of a team, and the table of it on the device;
    /// none where a wave is a launch.
    pub(super) teams: Option<(Placement, D::Memory)>,
}

/// What is decided of a program before it is compiled.
struct Decided {
    table: PhaseTable,
    layout: WeightLayout,
    source: Source,
    /// For a device of these facts; none where a wave is a launch.
    placement: Option<Placement>,
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
    /// Compiles a source for an architecture.
    pub(super) fn of(source: &Source, architecture: &str) -> Result<Self, CudaError> {
        let binary = nvrtc::compile(source, architecture)?;
        let usage = binary.usage().ok_or_else(|| CudaError::Failed {
            what: "NVRTC",
            why: format!("its log does not say what the kernels take: {}", binary.log),
        })?;
        let key = Key::new(source, &nvrtc::OPTIONS, nvrtc::version()?, architecture);
        Ok(Self {
            bytes: binary.code.len(),
            registers: usage.registers,
            spilled: usage.spilled,
            stack: usage.stack,
            code: binary.code,
            key,
        })
    }

    /// Puts the kernels where [`nvidia`](super::nvidia()) finds them, into the user's cache; where
    /// that is, if the user has one. On a machine without a compiler a copy of the folder will do.
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
pub fn compile(
    program: &Program,
    options: &CudaOptions,
    architecture: &str,
) -> Result<CompiledKernels, CudaError> {
    CompiledKernels::of(&Decided::new(program, options, None)?.source, architecture)
}

/// The C++ of a program's kernels. It includes the headers of this crate's `src/cuda/kernels`.
///
/// # Errors
/// If the environment chooses a driver that does not exist.
pub fn kernel_source(program: &Program, options: &CudaOptions) -> Result<String, CudaError> {
    Ok(Decided::new(program, options, None)?.source.text)
}

impl Decided {
    fn new(
        program: &Program,
        options: &CudaOptions,
        facts: Option<&Facts>,
    ) -> Result<Self, CudaError> {
        let mut table = PhaseTable::new(program);
        let layout = WeightLayout::new(program, &table);
        let recurrent = match options.chosen_driver()? {
            Driver::Teams => Some(recurrent(program, &table)),
            Driver::Waves => None,
        };
        let source = source(program, &table, &layout, recurrent.as_deref(), options.precision);
        let placement = recurrent.zip(facts).map(|(recurrent, facts)| {
            recurrent.iter().for_each(|stack| table.leave_undivided(stack.phase));
            let phases = table.entries().len();
            let Facts { processors, shared_bytes, .. } = *facts;
            Placement::new(&recurrent, phases, processors, shared_bytes, options.fewest_blocks)
        });
        Ok(Self { table, layout, source, placement })
    }
}

impl<D: Device> Loaded<D> {
    /// Compiles a program's kernels, copies its parameters to a device, and lets it compute the
    /// folded tables.
    pub(super) fn new(
        device: Arc<D>,
        program: Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let Decided { table, layout, source, placement } =
            Decided::new(&program, options, Some(device.facts()))?;
        let kernels = device.compile(&source)?;
        let packed = layout.packed(parameters).map_err(|error| error.of("packed weights"))?;
        let weight_bytes = size_of_val(packed.as_slice());
        let weights = copied(&*device, &packed)?;
        drop(packed);
        let teams = placement.map(|placement| {
            let places = copied(&*device, &placement.table())?;
            Ok::<_, CudaError>((placement, places))
        });
        let teams = teams.transpose()?;
        let folded = None;
        let mut loaded =
            Self { device, program, table, kernels, weights, folded, weight_bytes, teams };
        loaded.fold_tables()?;
        Ok(loaded)
    }

    /// How plans are carried out by teams; none where a wave is a launch.
    pub(super) fn team(&self) -> Option<Team<'_, D>> {
        let (placement, places) = self.teams.as_ref()?;
        Some(Team {
            device: &*self.device,
            program: &self.kernels,
            places: self.device.address(places),
            blocks: placement.blocks,
            shared_bytes: placement.shared_bytes,
        })
    }

    /// Launches all waves of a tape.
    pub(super) fn launch_waves(
        &self,
        tape: &Tape,
        mut arguments: Arguments,
    ) -> Result<(), CudaError> {
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
        let device = &*self.device;
        let bytes = 4 * tape.words().len().next_multiple_of(4);
        let mut words = device.memory(bytes, Side::Host)?;
        device.host_mut(&mut words)[..tape.words().len()].copy_from_slice(tape.words());
        let pulled = device.memory(bytes, Side::Device)?;
        let folded = device.memory(4 * tape.arena(), Side::Device)?;
        let arguments = Arguments {
            tape: device.address(&words),
            arena: device.address(&folded),
            weights: device.address(&self.weights),
            ..Arguments::default()
        };
        let ended = match self.team() {
            Some(team) => {
                let part = TeamPart::new(&tape, arguments, device.address(&pulled));
                let (slots, mut flights) = (device.slots(), Vec::new());
                let launched = slots.launch(&team, &[part], &mut flights);
                let ended = flights.into_iter().try_for_each(|flight| slots.wait(device, flight));
                launched.and(ended)
            }
            None => {
                let launched = self.launch_waves(&tape, arguments);
                // No memory may go before what was launched has ended.
                device.wait().and(launched)
            }
        };
        ended?;
        self.weight_bytes += 4 * tape.arena();
        self.folded = Some(folded);
        Ok(())
    }
}

/// Blocks of a launch for each processor, which has room for two or more of them at once: those
/// that end sooner make room for the rest.
const BLOCKS: usize = 8;

/// Memory of the device with these words.
fn copied<D: Device>(device: &D, words: &[u32]) -> Result<D::Memory, CudaError> {
    let memory = device.memory(4 * words.len().max(1), Side::Device)?;
    device.fill(&memory, words)?;
    Ok(memory)
}
