//! The CUDA backend: one launch for all parts of a round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch_layout::{LINE, Lifetimes, Plan, Program, Step, ValueRow};
use edbatch_runtime::{
    Backend, BackendError, Bytes, Outputs, Parameters, Part, PartLimits, StoredRow, Training,
    fields,
};

use super::command_list::Givens;
use super::device::{Device, MemorySide, TeamPart};
use super::loaded::Loaded;
use super::memory::{Buffer, PlanMemory, SharedArena};
use super::pass::Placed;
use super::phase_table::Way;
use super::slot::{Lent, Slot, StepParts};
use super::trained::Trained;
use super::{CudaError, CudaOptions};

/// Minimum inputs of a part of a mini-batch, and minimum nodes of a round that has several parts. A
/// round of fewer nodes takes a thread less time than it takes several of them to meet.
const MIN_INPUTS: usize = 4;
const MIN_NODES: usize = 512;

/// The steps of a decoder in a launch. More would save little: the wait for the host is an eighth
/// of that for each step, and more steps would be computed after the ends of sentences.
pub const CHAIN: usize = 8;

/// Runs plans on a CUDA device or on an emulated one.
///
/// With exact precision, results have the same bits as on CPU levels with fused multiply-adds.
pub(super) struct Cuda<D: Device> {
    pub(super) loaded: Arc<Loaded<D>>,
    /// All devices; the backend runs on one of them, and its forks use them in turn.
    devices: Arc<Devices<D>>,
    /// The trained parameters, if the program is for training.
    pub(super) trained: Option<Arc<Trained<D>>>,
    pub(super) slots: Vec<Slot<D>>,
    /// The plans of the last launch, one for each team; the next launch reuses the vector.
    pub(super) parts: Vec<TeamPart>,
    /// The arena of a program for training.
    pub(super) arena: SharedArena<D>,
    pub(super) step: StepParts,
    /// The mini-batch in borrowed memory, and its given rows if they are of several memories.
    pub(super) lent: Lent<D>,
    pub(super) given: Buffer<D>,
    /// The sums that the blocks of a launch keep here while their tiles go on.
    parked: Buffer<D>,
}

/// A program loaded on several devices. Successive forks use the devices in turn.
struct Devices<D: Device> {
    loaded: Vec<Arc<Loaded<D>>>,
    next: AtomicUsize,
}

impl<D: Device> Cuda<D> {
    /// Loads a program on each of `devices`: compiles its kernels and copies its parameters. The
    /// backend runs on the first device.
    pub(super) fn new(
        devices: &[Arc<D>],
        program: &Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let parameters = &parameters.for_network(program.network())?;
        if program.training().is_some() && devices.len() > 1 {
            let why = "a trainer uses one device: name only one";
            return Err(CudaError::failed("the list of devices", why).into());
        }
        let load = |device: &Arc<D>| {
            let of = (program.clone(), Way::Forward);
            let (loaded, layout) = Loaded::of(device.clone(), of, parameters, options)?;
            Ok((Arc::new(loaded), layout))
        };
        let loaded = devices.iter().map(load).collect::<Result<Vec<_>, BackendError>>()?;
        let none = || CudaError::failed("the list of devices", "expected at least one device");
        let (first, layout) = loaded.first().ok_or_else(none)?;
        let trained = match program.training() {
            Some(_) => Some(Arc::new(Trained::new(first, layout, parameters, options)?)),
            None => None,
        };
        let (first, loaded) =
            (first.clone(), loaded.into_iter().map(|(loaded, _)| loaded).collect());
        Ok(Self::on(first, Arc::new(Devices { loaded, next: AtomicUsize::new(1) }), trained))
    }

    /// Loads the kernel of a pass of a program on a device.
    #[cfg(test)]
    pub(super) fn of_way(
        device: Arc<D>,
        of: (Arc<Program>, Way),
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let parameters = parameters.for_network(of.0.network())?;
        let (loaded, _) = Loaded::of(device, of, &parameters, options)?;
        let loaded = Arc::new(loaded);
        Ok(Self::alone(loaded))
    }

    /// A backend on one device, without trained parameters.
    pub(super) fn alone(loaded: Arc<Loaded<D>>) -> Self {
        let devices = Devices { loaded: vec![loaded.clone()], next: AtomicUsize::new(1) };
        Self::on(loaded, Arc::new(devices), None)
    }

    fn on(
        loaded: Arc<Loaded<D>>,
        devices: Arc<Devices<D>>,
        trained: Option<Arc<Trained<D>>>,
    ) -> Self {
        let (slots, parts, arena) = (Vec::new(), Vec::new(), SharedArena::new());
        let (step, given) = (StepParts::default(), Buffer::new(MemorySide::Device, "given rows"));
        let (lent, parked) = (Lent::Ended, Buffer::new(MemorySide::Device, "sums of tiles"));
        Self { loaded, devices, trained, slots, parts, arena, step, lent, given, parked }
    }

    /// Runs again one step of the plan that ran last in slot 0. The step's operands may have been
    /// overwritten, so its results are meaningless.
    pub(super) fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        let alone = Plan {
            steps: vec![Step { operands: 0, ..plan.steps[step] }],
            operands: plan.operands_of(step).to_vec(),
            lists: plan.lists.clone(),
            rows: plan.rows.clone(),
            arena: plan.arena,
            ..Plan::default()
        };
        let loaded = self.loaded.clone();
        let (slot, placed) = (self.slot(0), loaded.placed());
        slot.commands.write_in_waves(
            &loaded.program,
            &placed.table,
            &alone,
            &[0],
            Givens::Host(0, &[]),
        )?;
        slot.reserve(&loaded, &placed, true)?;
        self.launch(&placed, [0].into_iter())
    }

    /// Runs a plan in slot 0, with the given waves of its steps.
    #[cfg(test)]
    pub(super) fn run_in_waves(
        &mut self,
        plan: &Plan,
        given: &edbatch_runtime::Given<'_>,
        waves: &[u32],
    ) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        let (slot, placed) = (self.slot(0), loaded.placed());
        let rows = Givens::Host(given.initial.len(), given.places);
        slot.commands.write_in_waves(&loaded.program, &placed.table, plan, waves, rows)?;
        slot.give(&*loaded.device, given)?;
        slot.reserve(&loaded, &placed, false)?;
        self.launch(&placed, [0].into_iter())?;
        self.slot(0).find_wanted(&loaded, plan);
        Ok(())
    }

    pub(super) fn slot(&mut self, slot: usize) -> &mut Slot<D> {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::new);
        }
        &mut self.slots[slot]
    }

    /// Launches the command lists of slots and waits until all of them have run.
    fn launch(
        &mut self,
        placed: &Placed<D>,
        slots: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), BackendError> {
        let Self { loaded, slots: all, parts, parked, .. } = self;
        let device = &*loaded.device;
        let mut kernel = loaded.team_kernel(placed);
        if kernel.parked.1 > 0 {
            let words = kernel.parked.1 / size_of::<f32>() * device.properties().sms as usize;
            kernel.parked.0 = device.address(parked.reserve(device, words)?);
        }
        parts.clear();
        parts.extend(slots.clone().map(|slot| {
            let Slot { commands, memory, .. } = &mut all[slot];
            let cleared = memory.arenas.begin(device, commands.waves());
            let device_commands = memory.device_commands.address(device);
            TeamPart::new(commands, memory.arguments(loaded), device_commands, cleared)
        }));
        device.team_pool().run(&kernel, parts)?;
        slots.for_each(|slot| all[slot].memory.arenas.ended());
        Ok(())
    }
}

impl<D: Device> Drop for Cuda<D> {
    fn drop(&mut self) {
        // Enqueued steps use the memory of the slots.
        if let Some(trained) = &self.trained {
            drop(trained.state());
        }
    }
}

impl<D: Device> Backend for Cuda<D> {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        if self.trained.is_some() {
            return self.run_trained(parts);
        }
        let placed = loaded.placed();
        for Part { slot, plan, given } in parts {
            let slot = self.slot(*slot);
            let rows = (given.initial.len(), given.places);
            slot.commands.write(&loaded.program, &placed.table, plan, rows)?;
            // From the next round on.
            loaded.pass.learn(&loaded.device, slot.commands.reads())?;
            slot.give(&*loaded.device, given)?;
            slot.reserve(&loaded, &placed, false)?;
        }
        self.launch(&placed, parts.iter().map(|part| part.slot))?;
        for Part { slot, plan, .. } in parts {
            self.slots[*slot].find_wanted(&loaded, plan);
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        let Loaded { device, program, .. } = &*self.loaded;
        let Slot { memory, starts, arg_max, .. } = &self.slots[slot];
        let elements = memory.outputs.memory.as_ref();
        let elements = elements.map_or(&[][..], |memory| device.host_floats(memory));
        Outputs::packed(program, plan, (elements, starts), arg_max)
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        let loaded = self.loaded.clone();
        self.slot(slot).memory.store.grow(&loaded.device, lines.saturating_mul(LINE))
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        let Loaded { device, program, .. } = &*self.loaded;
        let what = "the elements of stored rows";
        let memory = self.slots[slot].memory.store.memory.as_ref().expect("it has stored rows");
        let lines = |row: &StoredRow| program.record(row.record).stride as usize / LINE;
        let follows = |a: &StoredRow, b: &StoredRow| a.line as usize + lines(a) == b.line as usize;
        let mut words: Vec<u32> = Vec::new();
        // Neighbours are read by one call of the driver.
        for rows in rows.chunk_by(follows) {
            let len = LINE * rows.iter().map(lines).sum::<usize>();
            words.clear();
            let bytes = 4 * len as u64;
            words.try_reserve(len).map_err(|_| BackendError::Memory { what, bytes })?;
            words.resize(len, 0);
            device.read(memory, LINE * rows[0].line as usize, &mut words)?;
            let mut rest = &words[..];
            for row in rows {
                let (elements, after) = rest.split_at(LINE * lines(row));
                rest = after;
                for (start, width) in fields(program, ValueRow { record: row.record, start: 0 }) {
                    let bytes = 4 * width as u64;
                    to.try_reserve(width).map_err(|_| BackendError::Memory { what, bytes })?;
                    to.extend(elements[start..][..width].iter().map(|&word| f32::from_bits(word)));
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        let words = |of: fn(&PlanMemory<D>) -> usize| -> usize {
            self.slots.iter().map(|slot| of(&slot.memory)).sum()
        };
        let arena = 4 * words(|memory| memory.arenas.words());
        let store = 4 * words(|memory| memory.store.words);
        let Bytes { weights, arena: sums, .. } =
            self.trained.as_deref().map_or(Bytes::default(), Trained::bytes);
        let arena = arena + 4 * (self.arena.words() + self.given.words + self.parked.words) + sums;
        Bytes { weights: self.loaded.weight_bytes + weights, arena, store }
    }

    fn bytes_of(&self, plan: &Plan) -> u64 {
        let Loaded { pass, device, .. } = &*self.loaded;
        let placed = pass.placed();
        let arenas = if self.trained.is_none() && pass.waits_for_rows(&placed) { 2 } else { 1 };
        let parked = placed.placement.parked as usize * device.properties().sms as usize;
        (size_of::<f32>() * (arenas * plan.arena + parked)) as u64
    }

    fn program(&self) -> Option<&Arc<Program>> {
        Some(&self.loaded.program)
    }

    fn training(&mut self) -> Option<&mut dyn Training> {
        self.trained.is_some().then_some(self as &mut dyn Training)
    }

    fn fork(&self) -> Box<dyn Backend> {
        let Devices { loaded, next } = &*self.devices;
        let next = next.fetch_add(1, Ordering::Relaxed) % loaded.len();
        Box::new(Self::on(loaded[next].clone(), self.devices.clone(), self.trained.clone()))
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::Distinct
    }

    fn division(&self) -> Option<PartLimits> {
        let groups = self.loaded.device.properties().sms / self.loaded.placed().placement.slices;
        Some(PartLimits { parts: groups as usize, inputs: MIN_INPUTS, nodes: MIN_NODES })
    }

    fn chain(&self) -> usize {
        CHAIN
    }
}

#[cfg(test)]
mod tests {
    use edbatch_graph::{Dag, NodeId};
    use edbatch_layout::{CellStyle, Want};
    use edbatch_runtime::Given;
    use edbatch_testing::Subject;

    use super::super::emulated::Emulated;
    use super::super::waves::waves;
    use super::*;

    /// If all steps are in one wave, some order of the jobs reads a row before it is written.
    #[test]
    fn wrong_waves_change_bits() {
        let subject = Subject::random(5);
        let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
        let program = Arc::new(program);
        let options = CudaOptions::new();
        let device = Arc::new(Emulated::new(7));
        let device = Cuda::new(&[device], &program, &subject.parameters, &options);
        let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
        let Some(device) = edbatch_testing::or_skip(device, lacks) else { return };
        let nodes = (0..subject.graph.nodes()).map(NodeId::new);
        let wanted: Vec<_> = nodes.map(|node| (node.into(), Want::Elements)).collect();
        let plan = subject.plan(&program, &device, &wanted);
        let given = Given { initial: &subject.initial, places: &[], host: &[] };
        let run = |waves: &[u32]| -> Vec<u32> {
            // A new arena, which holds NaN.
            let mut fork = Cuda::on(device.loaded.clone(), device.devices.clone(), None);
            fork.run_in_waves(&plan, &given, waves).unwrap();
            let outputs = fork.outputs(0, &plan);
            let fields = (0..wanted.len()).flat_map(|value| outputs.fields(value));
            fields.flatten().map(|x| x.to_bits()).collect()
        };
        let right = waves(&program, &plan);
        let expected = run(&right);
        assert!(right.iter().any(|&wave| wave > 0), "the plan has several waves");
        assert!((0..3).all(|_| run(&right) == expected));
        let wrong = vec![0; right.len()];
        assert!((0..3).any(|_| run(&wrong) != expected));
    }
}
