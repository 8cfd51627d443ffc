//! The backend: plans on tapes, a launch a mini-batch or a launch a wave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch_layout::{ArenaTooLarge, Lifetimes, Plan, Program, Tape, Want};

use super::device::{Arguments, Device, TeamPart};
use super::loaded::Loaded;
use super::memory::PlanMemory;
use super::slots::Flight;
use super::{CudaError, CudaOptions};
use crate::{Backend, BackendError, Bytes, Given, Outputs, Parameters, Part, span};

/// Runs plans on a CUDA device, or on an emulated one.
///
/// A block takes a tile of the calls of a step and a slice of its columns. The bits are those of
/// the CPU's levels that fuse multiplications and additions.
pub(super) struct Cuda<D: Device> {
    loaded: Arc<Loaded<D>>,
    /// The devices of its forks.
    devices: Arc<InTurn<D>>,
    slots: Vec<Slot<D>>,
    /// The parts and launches of the current round, kept for their memory.
    parts: Vec<TeamPart>,
    flights: Vec<Flight>,
}

/// The memory of one part.
struct Slot<D: Device> {
    memory: PlanMemory<D>,
    tape: Tape,
    /// By wanted value of the last plan: where its elements begin among the outputs, and the index
    /// of its largest element.
    starts: Vec<usize>,
    arg_max: Vec<u32>,
}

/// A program on all of its devices, which engines take in turn.
struct InTurn<D: Device> {
    loaded: Vec<Arc<Loaded<D>>>,
    /// Counts engines.
    next: AtomicUsize,
}

impl<D: Device> Cuda<D> {
    /// Compiles a program's kernels, and copies its parameters to some devices. It is itself on the
    /// first of them.
    pub(super) fn new(
        devices: &[Arc<D>],
        program: &Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let parameters = &parameters.for_network(program.network())?;
        let load = |device: &Arc<D>| {
            Ok(Arc::new(Loaded::new(device.clone(), program.clone(), parameters, options)?))
        };
        let loaded = devices.iter().map(load).collect::<Result<Vec<_>, BackendError>>()?;
        let none = || CudaError::failed("devices to load a program on", "expected at least one");
        let first = loaded.first().ok_or_else(none)?;
        Ok(Self::on(first.clone(), Arc::new(InTurn { loaded, next: AtomicUsize::new(1) })))
    }

    fn on(loaded: Arc<Loaded<D>>, devices: Arc<InTurn<D>>) -> Self {
        Self { loaded, devices, slots: Vec::new(), parts: Vec::new(), flights: Vec::new() }
    }

    /// Writes the tape of a part and allocates what its plan needs.
    fn prepare(&mut self, part: &Part<'_>) -> Result<(), BackendError> {
        let Self { loaded, slots, parts, .. } = self;
        if slots.len() <= part.slot {
            slots.resize_with(part.slot + 1, Slot::new);
        }
        let (device, slot) = (&*loaded.device, &mut slots[part.slot]);
        let rows = (part.given.initial.len(), part.given.stayed);
        let written = slot.tape.write(&loaded.program, &loaded.table, part.plan, rows);
        written.map_err(|error| too_large(&error))?;
        slot.give(device, &part.given)?;
        // Rows that stayed are read while this plan lets other rows stay.
        slot.memory.stay.swap(0, 1);
        slot.reserve(device)?;
        let (arguments, pulled) = (slot.arguments(loaded), slot.memory.pulled.address(device));
        parts.push(TeamPart::new(&slot.tape, arguments, pulled));
        Ok(())
    }

    /// Launches the prepared parts and waits for all of them, even if one fails.
    fn launch(&mut self, parts: &[Part<'_>]) -> Result<(), CudaError> {
        let Self { loaded, slots, parts: team_parts, flights, .. } = self;
        let device = &*loaded.device;
        let Some(team) = loaded.team() else {
            let launched = parts.iter().try_for_each(|part| {
                let slot = &slots[part.slot];
                loaded.launch_waves(&slot.tape, slot.arguments(loaded))
            });
            let _span = span!(TRACE, "wait");
            return device.wait().and(launched);
        };
        flights.clear();
        let launched = {
            let words = team_parts.iter().map(|part| u64::from(part.words)).sum::<u64>();
            let _span = span!(TRACE, "launch", words = words);
            device.slots().launch(&team, team_parts, flights)
        };
        let _span = span!(TRACE, "wait");
        let ends = flights.drain(..).map(|flight| device.slots().wait(device, flight));
        ends.fold(launched, Result::and)
    }
}

impl<D: Device> Slot<D> {
    fn new() -> Self {
        let (memory, tape, starts, arg_max) =
            (PlanMemory::new(), Tape::default(), Vec::new(), Vec::new());
        Self { memory, tape, starts, arg_max }
    }

    /// Copies the tape to where the device reads it, and allocates what its plan needs.
    fn reserve(&mut self, device: &D) -> Result<(), BackendError> {
        let Self { memory, tape, .. } = self;
        // Teams copy it by fours.
        let words = tape.words().len().next_multiple_of(4);
        let to = memory.tape.reserve(device, words)?;
        device.host_mut(to)[..tape.words().len()].copy_from_slice(tape.words());
        memory.pulled.reserve(device, words)?;
        memory.arena.reserve(device, tape.arena())?;
        memory.outputs.reserve(device, tape.outputs())?;
        memory.indices.reserve(device, tape.indices())?;
        if tape.stay() > 0 {
            memory.stay[0].reserve(device, tape.stay())?;
        }
        Ok(())
    }

    /// The addresses that kernels take.
    fn arguments(&self, loaded: &Loaded<D>) -> Arguments {
        let (memory, device) = (&self.memory, &*loaded.device);
        Arguments {
            tape: memory.tape.address(device),
            arena: memory.arena.address(device),
            weights: device.address(&loaded.weights),
            folded: loaded.folded.as_ref().map_or(0, |memory| device.address(memory)),
            given: memory.given.address(device),
            stayed: memory.stay[0].address(device),
            stayed_before: memory.stay[1].address(device),
            outputs: memory.outputs.address(device),
            indices: memory.indices.address(device),
            wave: 0,
        }
    }

    /// Writes the host's given rows where the device reads them.
    fn give(&mut self, device: &D, given: &Given<'_>) -> Result<(), BackendError> {
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
}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        Self::Other(Arc::new(error))
    }
}

impl<D: Device> Backend for Cuda<D> {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        self.parts.clear();
        parts.iter().try_for_each(|part| self.prepare(part))?;
        self.launch(parts)?;
        let loaded = &self.loaded;
        for Part { slot, plan, .. } in parts {
            let Slot { memory, starts, arg_max, .. } = &mut self.slots[*slot];
            let indices = memory.indices.memory.as_ref();
            let indices = indices.map_or(&[][..], |memory| loaded.device.host(memory));
            find_wanted(&loaded.program, plan, indices, starts, arg_max);
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        let Slot { memory, starts, arg_max, .. } = &self.slots[slot];
        let elements = memory.outputs.memory.as_ref();
        let elements = elements.map_or(&[][..], |memory| self.loaded.device.host_floats(memory));
        Outputs::packed(&self.loaded.program, plan, (elements, starts), arg_max)
    }

    fn bytes(&self) -> Bytes {
        let words = |slot: &Slot<D>| {
            let stay = slot.memory.stay.iter().map(|buffer| buffer.words).sum::<usize>();
            slot.memory.arena.words + stay
        };
        let arena = 4 * self.slots.iter().map(words).sum::<usize>();
        Bytes { weights: self.loaded.weight_bytes, arena }
    }

    fn fork(&self) -> Box<dyn Backend> {
        let InTurn { loaded, next } = &*self.devices;
        let next = next.fetch_add(1, Ordering::Relaxed) % loaded.len();
        Box::new(Self::on(loaded[next].clone(), self.devices.clone()))
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::Distinct
    }
}

/// By wanted value: where its elements begin among the outputs of a tape, and the index of its
/// largest element, of those that the tape has found.
fn find_wanted(
    program: &Program,
    plan: &Plan,
    indices: &[u32],
    starts: &mut Vec<usize>,
    arg_max: &mut Vec<u32>,
) {
    let (mut indices, mut at) = (indices.iter(), 0);
    starts.clear();
    arg_max.clear();
    for &(row, want) in &plan.wanted {
        starts.push(at);
        arg_max.push(match want {
            Want::ArgMax => *indices.next().expect("an index for each"),
            Want::Elements | Want::Stay => 0,
        });
        if want == Want::Elements {
            at += program.record(row.record).widths.iter().sum::<u32>() as usize;
        }
    }
}

/// A plan whose values and scratch cannot be addressed.
pub(super) fn too_large(error: &ArenaTooLarge) -> BackendError {
    let what = "the arena of a mini-batch's values";
    BackendError::Memory { what, bytes: 4 * error.elements }
}
