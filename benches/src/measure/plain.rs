//! The backend of the other systems: whole batches, a kernel for each operation, gather steps.
//!
//! It runs the same plans as our backend, but without cutting batches into tiles and without
//! packing weights. Each product uses the fastest third-party library for its shape ([`gemm`]). If
//! the rows of a product are not evenly spaced, they are gathered first, once for all products of
//! a batch that read them. Element-wise kernels are ours and read rows in place. Arenas, scratch
//! memory and weights ask the system for huge pages, as ours do. Each thread has a
//! [fork](Backend::fork).

mod cell;
pub mod gemm;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::ParameterId;
use edbatch_layout as layout;
use edbatch_layout::{Base, CellPart, CellPlan, CellStep, Plan, Program, ValueRow, Want};
use edbatch_runtime::kernels::rows::split_around;
use edbatch_runtime::kernels::{Aligned, ArgMax, Level, arg_max};
use edbatch_runtime::{
    Backend, BackendError, Bytes, Given, GivenPlace, Outputs, Parameters, Part, Profile, StoredRow,
    fields,
};

use cell::{Batch, LoadedStep, Workspace};
use gemm::Weight;

/// Runs plans like other systems do.
pub struct Plain {
    loaded: Arc<Loaded>,
    slots: Vec<Slot>,
    workspace: Workspace,
    profile: Arc<Profile>,
}

/// The memory of a part of a mini-batch.
#[derive(Default)]
struct Slot {
    arena: Aligned,
    /// Rows that outlive a plan.
    store: Aligned,
    /// By wanted value: the index of its largest element.
    arg_max: Vec<ArgMax>,
}

/// Data shared by all forks.
struct Loaded {
    program: Arc<Program>,
    level: Level,
    parameters: Vec<Arc<Vec<f32>>>,
    /// The transposes that steps read.
    transposed: HashMap<ParameterId, Vec<f32>>,
    /// Steps by kind and [`CellPart`].
    steps: Vec<[Vec<LoadedStep>; 3]>,
    bytes: usize,
}

impl Loaded {
    fn parameter(&self, weight: layout::Weight) -> &[f32] {
        match weight {
            layout::Weight::AsIs(id) => &self.parameters[id.0 as usize],
            layout::Weight::Transposed(id) => &self.transposed[&id],
        }
    }
}

const PARTS: [CellPart; 3] = [CellPart::Whole, CellPart::Prologue, CellPart::Body];

impl Plain {
    /// Loads a program and its parameters.
    pub fn new(program: Arc<Program>, given: &Parameters) -> Self {
        let ids = 0..program.network().parameters().len() as u32;
        let parameters: Vec<_> = ids.map(|id| given.get(ParameterId(id)).clone()).collect();
        let mut known: HashMap<Vec<layout::Weight>, Arc<Weight>> = HashMap::new();
        let mut weight = |step: &CellStep| match step {
            CellStep::Product { weights, width, .. } => {
                let stack = || {
                    let values: Vec<_> = weights
                        .iter()
                        .map(|&weight| given.weight(program.network(), weight))
                        .collect();
                    let stack: Vec<&[f32]> = values.iter().map(|values| &**values).collect();
                    Arc::new(Weight::new(&stack, *width as usize))
                };
                Some(known.entry(weights.clone()).or_insert_with(stack).clone())
            }
            _ => None,
        };
        let mut transposed = HashMap::new();
        let mut load = |step: &CellStep| {
            for (place, _) in step.reads() {
                if let Base::Parameter(weight @ layout::Weight::Transposed(id)) = place.base {
                    let values = given.weight(program.network(), weight);
                    transposed.entry(id).or_insert_with(|| values.into_owned());
                }
            }
            let mut written: Vec<Base> =
                step.writes().iter().map(|(place, _)| place.base).collect();
            written.dedup();
            LoadedStep { weight: weight(step), written }
        };
        let mut of_part = |plan: Option<&CellPlan>| match plan {
            Some(plan) => plan.steps.iter().map(&mut load).collect(),
            None => Vec::new(),
        };
        let kinds = (0..program.cells().len()).map(edbatch_graph::Kind::new);
        let steps = kinds.map(|kind| PARTS.map(|part| of_part(program.part(kind, part)))).collect();
        let copies = parameters.iter().map(|values| &***values);
        let copies = copies.chain(transposed.values().map(Vec::as_slice));
        let of_parameters: usize = copies.map(size_of_val).sum();
        let bytes = |weight: &Arc<Weight>| {
            weight.copies().map(|copy| size_of_val(&**copy)).iter().sum::<usize>()
        };
        let bytes = of_parameters + known.values().map(bytes).sum::<usize>();
        let level = Level::detect();
        let loaded = Loaded { program, level, parameters, transposed, steps, bytes };
        Self::on(Arc::new(loaded), Arc::default())
    }

    fn on(loaded: Arc<Loaded>, profile: Arc<Profile>) -> Self {
        Self { loaded, slots: Vec::new(), workspace: Workspace::default(), profile }
    }

    /// Returns the profile that times steps.
    pub fn profile(&self) -> Arc<Profile> {
        self.profile.clone()
    }
}

impl Slot {
    /// Writes the given values into the arena.
    fn place(&mut self, program: &Program, plan: &Plan, given: &Given<'_>) {
        let (initial, others) = plan.given.split_at(given.initial.len());
        for (&row, elements) in initial.iter().zip(given.initial.iter()) {
            self.place_row(program, row, elements);
        }
        let mut host = given.host;
        for (&row, place) in others.iter().zip(given.places_of(plan)) {
            match place {
                GivenPlace::Stored(line) => {
                    let (arena, store) = places(program, row, line);
                    self.arena[arena].copy_from_slice(&self.store[store]);
                }
                _ => host = self.place_row(program, row, host),
            }
        }
    }

    /// Writes a row of the arena. Returns the elements that remain.
    fn place_row<'a>(
        &mut self,
        program: &Program,
        row: ValueRow,
        mut elements: &'a [f32],
    ) -> &'a [f32] {
        for range in ranges(program, row) {
            let (field, rest) = elements.split_at(range.len());
            self.arena[range].copy_from_slice(field);
            elements = rest;
        }
        elements
    }

    /// Copies rows to the store, and finds the requested largest elements.
    fn collect(&mut self, loaded: &Loaded, plan: &Plan) {
        self.arg_max.clear();
        for &(row, want) in &plan.wanted {
            let fields = ranges(&loaded.program, row);
            let arena = &self.arena;
            let mut largest = ArgMax::default();
            match want {
                Want::Elements => {}
                Want::Store(line) => {
                    let (from, to) = places(&loaded.program, row, line);
                    self.store[to].copy_from_slice(&arena[from]);
                }
                Want::ArgMax => {
                    let fields: Vec<&[f32]> = fields.map(|field| &arena[field]).collect();
                    largest = match fields[..] {
                        [field] => arg_max(loaded.level, field),
                        _ => arg_max(loaded.level, &fields.concat()),
                    };
                }
            }
            self.arg_max.push(largest);
        }
    }

    /// Runs a step of a plan.
    fn step(
        &mut self,
        (loaded, profile): (&Loaded, &Profile),
        plan: &Plan,
        index: usize,
        workspace: &mut Workspace,
    ) {
        let step = plan.steps[index];
        let cell = loaded.program.carried_out(&step);
        let (out, stride) = (step.out as usize, cell.output_stride as usize);
        let written = out..out + step.calls as usize * stride;
        let (around, output) = split_around(&mut self.arena, written);
        let steps = &loaded.steps[step.cell.index()][step.action.part() as usize];
        let batch = Batch { loaded, plan, index, cell, around, profile };
        batch.run(steps, output, workspace);
    }
}

/// Returns the ranges of a value's fields in the arena.
fn ranges(program: &Program, row: ValueRow) -> impl Iterator<Item = Range<usize>> + use<'_> {
    fields(program, row).map(|(start, width)| start..start + width)
}

/// Returns the places of a row in the arena and in the store.
fn places(program: &Program, row: ValueRow, line: u32) -> (Range<usize>, Range<usize>) {
    let (stride, start) = (program.record(row.record).stride as usize, row.start as usize);
    let stored = line as usize * layout::LINE;
    (start..start + stride, stored..stored + stride)
}

impl Backend for Plain {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        for &Part { slot, plan, given } in parts {
            if self.slots.len() <= slot {
                self.slots.resize_with(slot + 1, Slot::default);
            }
            let Self { loaded, slots, workspace, profile } = self;
            let slot = &mut slots[slot];
            reserve(&mut slot.arena, plan.arena);
            slot.place(&loaded.program, plan, &given);
            for step in 0..plan.steps.len() {
                slot.step((loaded, profile), plan, step, workspace);
            }
            slot.collect(loaded, plan);
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        let Slot { arena, arg_max, .. } = &self.slots[slot];
        Outputs::new(&self.loaded.program, plan, arena, arg_max)
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        let grown = self.slots[slot].store.grow(lines * layout::LINE);
        grown.unwrap_or_else(|error| panic!("{error}"));
        Ok(())
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        for &StoredRow { record, line } in rows {
            let row = ValueRow { record, start: line * layout::LINE as u32 };
            let fields = ranges(&self.loaded.program, row);
            fields.for_each(|field| to.extend_from_slice(&self.slots[slot].store[field]));
        }
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        let arena = self.slots.iter().map(|slot| size_of_val(&*slot.arena)).sum();
        let store = self.slots.iter().map(|slot| size_of_val(&*slot.store)).sum();
        Bytes { weights: self.loaded.bytes, arena, store }
    }

    fn fork(&self) -> Box<dyn Backend> {
        Box::new(Self::on(self.loaded.clone(), self.profile.clone()))
    }

    fn prefers_forks(&self) -> bool {
        true
    }
}

/// Makes room for `len` elements. Their values are unspecified.
///
/// # Panics
/// If the system is out of memory.
fn reserve(memory: &mut Aligned, len: usize) {
    memory.reserve(len).unwrap_or_else(|error| panic!("{error}"));
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::gemm::Weight;
    use super::{Aligned, Slot, reserve};

    /// Returns true if huge pages were requested for the middle of `memory`.
    fn asks_for_huge_pages(memory: &[f32]) -> bool {
        let middle = memory[memory.len() / 2..].as_ptr().addr();
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        maps.lines().any(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let address = |hex: &str| usize::from_str_radix(hex, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(a, b)| (address(a), address(b))) {
                inside = (from..to).contains(&middle);
            }
            inside && line.starts_with("VmFlags:") && line.contains(" hg")
        })
    }

    #[test]
    fn arenas_and_weights_ask_for_huge_pages_as_ours_do() {
        const LEN: usize = 1 << 20;
        let ours = Aligned::zeros(LEN).unwrap();
        let mut slot = Slot::default();
        reserve(&mut slot.arena, LEN);
        let weight = Weight::new(&[&vec![0.5; LEN]], 1 << 10);
        let [as_is, turned] = weight.copies();
        let weight = if as_is.is_empty() { turned } else { as_is };
        let expected = asks_for_huge_pages(&ours);
        for memory in [&slot.arena, weight] {
            assert_eq!(asks_for_huge_pages(memory), expected);
        }
    }
}
