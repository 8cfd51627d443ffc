//! A plain backend, for systems that are compared with ours: whole batches, a kernel an operation,
//! gathers as steps.
//!
//! It carries out the same plans as ours does, without what is ours in doing so: a batch is not cut
//! into tiles, weights are not packed for it, products are the best of others' for each shape
//! ([`gemm`]). A product whose rows do not lie at equal distances has them gathered before, once
//! for all products of a batch that read them; element-wise kernels, which are ours, read rows
//! where they lie. One thread; several divide a mini-batch, each with
//! [another](Backend::another).

mod cell;
pub mod gemm;

use std::collections::HashMap;
use std::sync::Arc;

use edbatch_graph::ParameterId;
use edbatch_layout::{CellPart, CellPlan, CellStep, Plan, Program, ValueRow, Want};
use edbatch_runtime::kernels::rows::split_around;
use edbatch_runtime::kernels::{Level, arg_max};
use edbatch_runtime::{Backend, BackendError, Bytes, Given, Outputs, Parameters, Profile};

use cell::{Batch, Workspace};
use gemm::Weight;

/// Carries plans out as other systems do.
pub struct Plain {
    loaded: Arc<Loaded>,
    arena: Aligned,
    stayed: Vec<f32>,
    greatest: Vec<u32>,
    workspace: Workspace,
    profile: Arc<Profile>,
}

/// What is loaded once.
struct Loaded {
    program: Arc<Program>,
    level: Level,
    parameters: Vec<Arc<Vec<f32>>>,
    /// By cell and part: the weight of each step that multiplies by one.
    weights: Vec<[Vec<Option<Arc<Weight>>>; 3]>,
    bytes: usize,
}

const PARTS: [CellPart; 3] = [CellPart::Whole, CellPart::Prologue, CellPart::Body];

impl Plain {
    /// Loads a program and its parameters.
    #[must_use]
    pub fn new(program: Arc<Program>, parameters: &Parameters) -> Self {
        let ids = 0..program.network().parameters().len() as u32;
        let parameters: Vec<_> = ids.map(|id| parameters.get(ParameterId(id)).clone()).collect();
        let mut known: HashMap<Vec<ParameterId>, Arc<Weight>> = HashMap::new();
        let mut weight = |step: &CellStep| match step {
            CellStep::Product { weights, width, .. } => {
                let stack = || {
                    let stack: Vec<&[f32]> =
                        weights.iter().map(|id| parameters[id.0 as usize].as_slice()).collect();
                    Arc::new(Weight::new(&stack, *width as usize))
                };
                Some(known.entry(weights.clone()).or_insert_with(stack).clone())
            }
            _ => None,
        };
        let mut of_part = |plan: Option<&CellPlan>| match plan {
            Some(plan) => plan.steps.iter().map(&mut weight).collect(),
            None => Vec::new(),
        };
        let kinds = (0..program.cells().len()).map(edbatch_graph::Kind::new);
        let weights =
            kinds.map(|kind| PARTS.map(|part| of_part(program.part(kind, part)))).collect();
        let of_parameters: usize = parameters.iter().map(|values| size_of_val(&***values)).sum();
        let bytes = of_parameters + known.values().map(|weight| weight.bytes()).sum::<usize>();
        let level = Level::detect();
        Self::on(Arc::new(Loaded { program, level, parameters, weights, bytes }), Arc::default())
    }

    fn on(loaded: Arc<Loaded>, profile: Arc<Profile>) -> Self {
        let (stayed, greatest) = (Vec::new(), Vec::new());
        let (arena, workspace) = (Aligned::default(), Workspace::default());
        Self { loaded, arena, stayed, greatest, workspace, profile }
    }

    /// Where the time of its steps goes.
    #[must_use]
    pub fn profile(&self) -> Arc<Profile> {
        self.profile.clone()
    }

    /// Where the fields of a value lie in the arena.
    fn fields(&self, row: ValueRow) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let layout = self.loaded.program.record(row.record).clone();
        let ranges = layout.offsets.into_iter().zip(layout.widths);
        ranges.map(move |(offset, width)| {
            let start = (row.start + offset) as usize;
            start..start + width as usize
        })
    }

    /// Writes the given values into the arena.
    fn place(&mut self, plan: &Plan, given: &Given<'_>) {
        let (initial, others) = plan.given.split_at(given.initial.len());
        let (stayed, host) = others.split_at(given.stayed);
        for (&row, elements) in initial.iter().zip(given.initial.iter()) {
            self.place_rows(&[row], elements);
        }
        let elements = std::mem::take(&mut self.stayed);
        self.place_rows(stayed, &elements);
        self.stayed = elements;
        self.place_rows(host, given.host);
    }

    fn place_rows(&mut self, rows: &[ValueRow], mut elements: &[f32]) {
        for &row in rows {
            for range in self.fields(row) {
                let (field, behind) = elements.split_at(range.len());
                self.arena.get_mut()[range].copy_from_slice(field);
                elements = behind;
            }
        }
    }

    /// Copies what stays out of the arena, and finds the greatest elements that are asked for.
    fn collect(&mut self, plan: &Plan) {
        self.stayed.clear();
        self.greatest.clear();
        for &(row, want) in &plan.wanted {
            let fields = self.fields(row);
            let arena = self.arena.get();
            let mut greatest = 0;
            match want {
                Want::Elements => {}
                Want::Stay => fields.for_each(|field| self.stayed.extend_from_slice(&arena[field])),
                Want::ArgMax => {
                    let fields: Vec<&[f32]> = fields.map(|field| &arena[field]).collect();
                    greatest = match fields[..] {
                        [field] => arg_max(self.loaded.level, field),
                        _ => arg_max(self.loaded.level, &fields.concat()),
                    } as u32;
                }
            }
            self.greatest.push(greatest);
        }
    }
}

impl Backend for Plain {
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError> {
        self.arena.reserve(plan.arena);
        self.place(plan, given);
        (0..plan.steps.len()).try_for_each(|step| self.step(plan, step))?;
        self.collect(plan);
        Ok(())
    }

    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError> {
        Ok(Outputs::new(&self.loaded.program, plan, self.arena.get(), &self.greatest))
    }

    fn step(&mut self, plan: &Plan, index: usize) -> Result<(), BackendError> {
        let step = plan.steps[index];
        let loaded = &*self.loaded;
        let cell = loaded.program.carried_out(&step);
        let (out, stride) = (step.out as usize, cell.output_stride as usize);
        let written = out..out + step.calls as usize * stride;
        let (around, output) = split_around(self.arena.get_mut(), written);
        let weights = &loaded.weights[step.cell.index()][step.action.part() as usize];
        let batch = Batch { loaded, plan, index, cell, around, profile: &self.profile };
        batch.run(weights, output, &mut self.workspace);
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        Bytes { weights: self.loaded.bytes, arena: size_of_val(self.arena.get()) }
    }

    fn another(&self) -> Box<dyn Backend> {
        Box::new(Self::on(self.loaded.clone(), self.profile.clone()))
    }
}

/// Elements from the beginning of a cache line on.
#[derive(Default)]
struct Aligned {
    elements: Vec<f32>,
    first: usize,
    len: usize,
}

impl Aligned {
    /// Makes room for so many, which may hold anything.
    fn reserve(&mut self, len: usize) {
        if self.len < len {
            self.elements = vec![0.0; len + edbatch_layout::LINE];
            self.first = self.elements.as_ptr().align_offset(64).min(edbatch_layout::LINE);
            self.len = len;
        }
    }

    fn get(&self) -> &[f32] {
        &self.elements[self.first..][..self.len]
    }

    fn get_mut(&mut self) -> &mut [f32] {
        &mut self.elements[self.first..][..self.len]
    }
}
