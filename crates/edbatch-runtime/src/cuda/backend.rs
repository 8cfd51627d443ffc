//! The backend: plans on tapes, a launch a mini-batch or a launch a wave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch_layout::{ArenaTooLarge, Plan, Planner, Program, Step, Tape, Want};

use super::device::{Arguments, Device, TeamPart};
use super::loaded::Loaded;
use super::memory::PlanMemory;
use super::slots::Flight;
use super::{CudaError, CudaOptions};
use crate::{Backend, BackendError, Bytes, Given, Outputs, Parameters, Parts, span};

/// Carries plans out on a CUDA device, or on an emulated one.
///
/// A block takes a tile of the calls of a step and a slice of its columns. The bits are those of
/// the CPU's levels that fuse multiplications and additions.
pub(super) struct Cuda<D: Device> {
    loaded: Arc<Loaded<D>>,
    /// Where other engines' backends are.
    devices: Arc<InTurn<D>>,
    memory: PlanMemory<D>,
    tape: Tape,
    /// Whose plans are launched together with this one's.
    parts: Arc<Parts>,
    /// The plan that a team carries out, or has.
    flight: Option<Flight>,
    /// Of the plan that ran last, by wanted value: where its elements begin among the outputs, and
    /// the index of its greatest element.
    starts: Vec<usize>,
    greatest: Vec<u32>,
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
        let (memory, tape, starts) = (PlanMemory::new(), Tape::default(), Vec::new());
        let (parts, flight, greatest) = (Arc::default(), None, Vec::new());
        Self { loaded, devices, memory, tape, parts, flight, starts, greatest }
    }

    /// Copies a tape to where the device reads it, and launches its waves.
    fn launch(&mut self) -> Result<(), BackendError> {
        let Self { loaded, memory, tape, .. } = self;
        let _span = span!(TRACE, "launch", words = tape.words().len() as u64);
        let device = &*loaded.device;
        // Teams copy it by fours.
        let words = tape.words().len().next_multiple_of(4);
        let to = memory.tape.reserve(device, words)?;
        device.host_mut(to)[..tape.words().len()].copy_from_slice(tape.words());
        memory.arena.reserve(device, tape.arena())?;
        memory.outputs.reserve(device, tape.outputs())?;
        memory.indices.reserve(device, tape.indices())?;
        if tape.stay() > 0 {
            memory.stay[0].reserve(device, tape.stay())?;
        }
        let arguments = Arguments {
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
        };
        let Some(team) = loaded.team() else { return Ok(loaded.launch_waves(tape, arguments)?) };
        memory.pulled.reserve(device, words)?;
        let part = TeamPart::new(tape, arguments, memory.pulled.address(device));
        // One launch, of this plan and of those of other parts of the mini-batch.
        let launch = |parts: &[TeamPart], flights: &mut Vec<Flight>| {
            device.slots().launch(&team, parts, flights)
        };
        self.flight = Some(self.parts.launch(part, launch)?);
        Ok(())
    }

    /// Waits until all that was launched has ended.
    fn wait(&mut self) -> Result<(), CudaError> {
        let _span = span!(TRACE, "wait");
        let device = &*self.loaded.device;
        match (&self.loaded.teams, self.flight.take()) {
            (Some(_), Some(flight)) => device.slots().wait(device, flight),
            (Some(_), None) => Ok(()),
            (None, _) => device.wait(),
        }
    }

    /// Writes the host's given rows where the device reads them.
    fn give(&mut self, given: &Given<'_>) -> Result<(), BackendError> {
        let initial = given.initial.iter().map(<[f32]>::len).sum::<usize>();
        let device = &*self.loaded.device;
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

/// Its memory is the launch's until that has ended.
impl<D: Device> Drop for Cuda<D> {
    fn drop(&mut self) {
        // Nobody asks any more whether it was carried out.
        let _ = self.wait();
    }
}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        Self::Cuda(error)
    }
}

impl<D: Device> Backend for Cuda<D> {
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError> {
        // What an earlier plan wrote is read no more.
        self.wait()?;
        let loaded = self.loaded.clone();
        let rows = (given.initial.len(), given.stayed);
        let written = self.tape.write(&loaded.program, &loaded.table, plan, rows);
        written.map_err(|error| too_large(&error))?;
        self.give(given)?;
        // What the plan before let stay is read while this one lets other rows stay.
        self.memory.stay.swap(0, 1);
        self.launch()
    }

    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError> {
        self.wait()?;
        let Self { loaded, memory, starts, greatest, .. } = self;
        let indices = memory.indices.memory.as_ref();
        let indices = indices.map_or(&[][..], |memory| loaded.device.host(memory));
        find_wanted(&loaded.program, plan, indices, starts, greatest);
        let elements = memory.outputs.memory.as_ref();
        let elements = elements.map_or(&[][..], |memory| loaded.device.host_floats(memory));
        Ok(Outputs::packed(&loaded.program, plan, (elements, starts), greatest))
    }

    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        self.wait()?;
        let loaded = self.loaded.clone();
        let written = self.tape.write(&loaded.program, &loaded.table, &alone(plan, step), (0, 0));
        written.map_err(|error| too_large(&error))?;
        self.launch()?;
        Ok(self.wait()?)
    }

    fn bytes(&self) -> Bytes {
        let stay = self.memory.stay.iter().map(|buffer| buffer.words).sum::<usize>();
        Bytes { weights: self.loaded.weight_bytes, arena: 4 * (self.memory.arena.words + stay) }
    }

    fn planner(&self) -> Planner {
        Planner::for_waves()
    }

    fn join(&mut self, parts: &Arc<Parts>) {
        self.parts = parts.clone();
    }

    fn another(&self) -> Box<dyn Backend> {
        Box::new(Self::on(self.loaded.clone(), self.devices.clone()))
    }

    fn of_another_engine(&self) -> Box<dyn Backend> {
        let InTurn { loaded, next } = &*self.devices;
        let next = next.fetch_add(1, Ordering::Relaxed) % loaded.len();
        Box::new(Self::on(loaded[next].clone(), self.devices.clone()))
    }
}

/// By wanted value: where its elements begin among the outputs of a tape, and the index of its
/// greatest element, of those that the tape has found.
fn find_wanted(
    program: &Program,
    plan: &Plan,
    indices: &[u32],
    starts: &mut Vec<usize>,
    greatest: &mut Vec<u32>,
) {
    let (mut indices, mut at) = (indices.iter(), 0);
    starts.clear();
    greatest.clear();
    for &(row, want) in &plan.wanted {
        starts.push(at);
        greatest.push(match want {
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

/// A step of a plan by itself: its operands lie where they lay.
fn alone(plan: &Plan, step: usize) -> Plan {
    Plan {
        steps: vec![Step { operands: 0, ..plan.steps[step] }],
        operands: plan.operands_of(step).to_vec(),
        lists: plan.lists.clone(),
        rows: plan.rows.clone(),
        arena: plan.arena,
        waves: vec![0],
        given: Vec::new(),
        wanted: Vec::new(),
    }
}
