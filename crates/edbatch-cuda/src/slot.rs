//! The memory of a slot, and the plan that ran last in it.

use std::ops::Range;
use std::sync::Arc;

use edbatch_layout::{Plan, Want};
use edbatch_runtime::kernels::ArgMax;
use edbatch_runtime::{BackendError, Given};

use super::command_list::{CommandList, NOT_FINITE};
use super::device::{Arguments, Device, TeamPart};
use super::loaded::Loaded;
use super::memory::PlanMemory;
use super::pass::Placed;

/// The memory of a slot.
pub(super) struct Slot<D: Device> {
    pub(super) memory: PlanMemory<D>,
    pub(super) commands: CommandList,
    /// For each wanted value of the last plan: the start of its elements in the outputs, and its
    /// argmax index, or 0 if that is not wanted.
    pub(super) starts: Vec<usize>,
    pub(super) arg_max: Vec<ArgMax>,
    /// The floats of the arena of a training program that the slot has.
    pub(super) span: Range<usize>,
    /// The lists of the backward pass.
    pub(super) back: Option<Box<Self>>,
}

/// The plans of a step, forward and back, and for each part the place of the losses of its inputs
/// in the arena and the number of inputs.
#[derive(Default)]
pub(super) struct StepParts {
    pub(super) forward: Vec<TeamPart>,
    pub(super) back: Vec<TeamPart>,
    pub(super) losses: Vec<u32>,
}

/// The mini-batch in borrowed memory.
pub(super) enum Lent<D: Device> {
    /// No mini-batch, or one whose launches have ended.
    Ended,
    /// The parameters have been read.
    Adopted,
    /// It has run forward, and perhaps back, with these placements; with a barrier before each wave
    /// if that is true.
    Ran { placed: [Arc<Placed<D>>; 2], barriers: bool },
}

impl<D: Device> Slot<D> {
    pub(super) fn new() -> Self {
        let (memory, commands) = (PlanMemory::new(), CommandList::default());
        let (starts, arg_max) = (Vec::new(), Vec::new());
        Self { memory, commands, starts, arg_max, span: 0..0, back: None }
    }

    /// Returns the lists of the backward pass.
    pub(super) fn back(&mut self) -> &mut Self {
        self.back.get_or_insert_with(|| Box::new(Self::new()))
    }

    /// Returns the plan of this slot for a team of a program for training: `places` are the
    /// addresses of its arena, of the masters and of the stage. The launch clears some floats of
    /// the arena.
    pub(super) fn part(
        &self,
        loaded: &Loaded<D>,
        [arena, masters, stage]: [u64; 3],
        cleared: u32,
    ) -> TeamPart {
        let Self { commands, memory, .. } = self;
        let arguments = Arguments { arena, masters, stage, ..memory.arguments(loaded) };
        let device_commands = memory.device_commands.address(&loaded.device);
        TeamPart::new(commands, arguments, device_commands, (arena, cleared))
    }

    /// Copies the given values of the caller to host memory that the device can read.
    pub(super) fn give(&mut self, device: &D, given: &Given<'_>) -> Result<(), BackendError> {
        let initial = given.initial.iter().map(<[f32]>::len).sum::<usize>();
        let memory = self.memory.given.reserve(device, initial + given.host.len())?;
        let floats = device.host_floats_mut(memory);
        let mut at = 0;
        for row in given.initial.iter().chain([given.host]) {
            floats[at..at + row.len()].copy_from_slice(row);
            at += row.len();
        }
        Ok(())
    }

    /// Copies the command list to memory that the device can read, and allocates the other memory
    /// of its plan; for a step of the last plan `again`.
    pub(super) fn reserve(
        &mut self,
        loaded: &Loaded<D>,
        placed: &Placed<D>,
        again: bool,
    ) -> Result<(), BackendError> {
        let device = &*loaded.device;
        self.reserve_commands(device)?;
        let Self { memory, commands, .. } = self;
        match again {
            true => memory.arenas.reserve_again(device, commands.arena())?,
            false => {
                let waits = loaded.pass.waits_for_rows(placed);
                memory.arenas.reserve(device, commands.arena(), waits)?;
            }
        }
        self.reserve_outputs(device)
    }

    /// Allocates memory for the wanted values.
    pub(super) fn reserve_outputs(&mut self, device: &D) -> Result<(), BackendError> {
        let Self { memory, commands, .. } = self;
        memory.outputs.reserve(device, commands.outputs())?;
        memory.indices.reserve(device, commands.indices())?;
        Ok(())
    }

    /// Copies the command list to memory that the device can read.
    pub(super) fn reserve_commands(&mut self, device: &D) -> Result<(), BackendError> {
        let Self { memory, commands, .. } = self;
        // Teams copy the list four words at a time.
        let words = commands.words().len().next_multiple_of(4);
        let to = memory.commands.reserve(device, words)?;
        device.host_mut(to)[..commands.words().len()].copy_from_slice(commands.words());
        memory.device_commands.reserve(device, words)?;
        Ok(())
    }

    /// Records, for the plan that has just run, the start of each wanted value in the outputs and
    /// the argmax indices.
    pub(super) fn find_wanted(&mut self, Loaded { device, program, .. }: &Loaded<D>, plan: &Plan) {
        let Self { memory, starts, arg_max, .. } = self;
        let indices = memory.indices.memory.as_ref();
        let mut indices = indices.map_or(&[][..], |memory| device.host(memory)).iter();
        starts.clear();
        arg_max.clear();
        let mut at = 0;
        for &(row, want) in &plan.wanted {
            starts.push(at);
            arg_max.push(match want {
                Want::ArgMax => {
                    let index = *indices.next().expect("an index for each");
                    ArgMax { index: index & !NOT_FINITE, is_finite: index & NOT_FINITE == 0 }
                }
                Want::Elements | Want::Store(_) => ArgMax::default(),
            });
            if want == Want::Elements {
                at += program.record(row.record).widths.iter().sum::<u32>() as usize;
            }
        }
    }
}

impl<D: Device> PlanMemory<D> {
    /// Returns the arguments with which a launch runs the plan of this slot.
    pub(super) fn arguments(&self, loaded: &Loaded<D>) -> Arguments {
        let device = &*loaded.device;
        Arguments {
            commands: self.commands.address(device),
            arena: self.arenas.address(device),
            weights: device.address(&loaded.weights),
            folded: loaded.folded.as_ref().map_or(0, |memory| device.address(memory)),
            given: self.given.address(device),
            store: self.store.address(device),
            outputs: self.outputs.address(device),
            indices: self.indices.address(device),
            ..Arguments::default()
        }
    }
}
