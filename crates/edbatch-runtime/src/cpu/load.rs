//! Cells in the form in which the CPU runs them, with packed weights.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use edbatch_graph::{Kind, Network, Parameter, ParameterId};
use edbatch_layout::{
    Base, CellPart, CellPlan, CellStep, Mode, Place, Program, Scores, Step, Weight,
};

use super::TILE;
use crate::kernels::{Aligned, Level, OutOfMemory, PackedWeights, trial};
use crate::{Parameters, Precision};

/// A program with its packed weights, shared by all backends that run it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) program: Arc<Program>,
    pub(super) level: Level,
    /// For each cell, the [parts](CellPart) that plans may run, indexed by `CellPart`.
    cells: Vec<[Option<LoadedPart>; 3]>,
    /// By number of a [stack](Run::Product): its weights.
    pub(super) stacks: Vec<Vec<Weight>>,
    /// Names and dimensions of all parameters.
    pub(super) declared: Arc<[Parameter]>,
    /// The weights that a run reads. A run locks them once for reading, an update for writing.
    pub(super) weights: RwLock<Weights>,
    /// Size in bytes of all weights and of the folded tables.
    bytes: usize,
}

/// The values of parameters, in the layouts that steps read.
#[derive(Debug)]
pub(super) struct Weights {
    /// The packed weights of products, by the number of their [stack](Run::Product).
    pub(super) packed: Vec<PackedWeights>,
    /// By parameter: its values and its transpose, if a step reads them unpacked (tables, biases,
    /// factors of matrix products). A program for training keeps the values of all parameters.
    pub(super) kept: Vec<[Option<Arc<Vec<f32>>>; 2]>,
    /// By parameter: its [moments](crate::UpdateRule::moments) after an update.
    pub(super) moments: Vec<Vec<Arc<Vec<f32>>>>,
    /// The [folded tables](edbatch_layout::FoldedTable) of the program.
    pub(super) folded: Aligned,
}

impl Loaded {
    /// Loads the parts of cells that mini-batches run.
    pub(super) fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        arithmetic: (Level, Precision),
        folded: Aligned,
    ) -> Result<Self, OutOfMemory> {
        let runs = |program: &Program, kind, part| {
            // A cell whose prologue reads a table never runs whole, and folded prologues are
            // computed already.
            let hoisted = program.cell(kind).hoisted.as_ref();
            match part {
                CellPart::Whole => hoisted.is_none_or(|hoisted| hoisted.table().is_none()),
                CellPart::Prologue => program.folded(kind).is_none(),
                CellPart::Body => true,
            }
        };
        let mut loaded = Self::parts(program, parameters, arithmetic, runs)?;
        loaded.bytes += size_of_val(&*folded);
        loaded.weights.get_mut().unwrap_or_else(PoisonError::into_inner).folded = folded;
        Ok(loaded)
    }

    /// Loads the prologues that compute the folded tables.
    pub(super) fn to_fold(
        program: Arc<Program>,
        parameters: &Parameters,
        arithmetic: (Level, Precision),
    ) -> Result<Self, OutOfMemory> {
        let folds = |program: &Program, kind, part| {
            part == CellPart::Prologue && program.folded(kind).is_some()
        };
        Self::parts(program, parameters, arithmetic, folds)
    }

    /// Loads the parts of cells that `is_needed` selects, and the parameters that they read.
    fn parts(
        program: Arc<Program>,
        parameters: &Parameters,
        (level, precision): (Level, Precision),
        is_needed: impl Fn(&Program, Kind, CellPart) -> bool,
    ) -> Result<Self, OutOfMemory> {
        let network = &**program.network();
        let (packed, numbers) = (Vec::new(), HashMap::new());
        let mut stacks = Stacks { network, parameters, level, precision, packed, numbers };
        let mut kept = vec![[None, None]; network.parameters().len()];
        if program.training().is_some() {
            for (id, kept) in (0..).map(ParameterId).zip(&mut kept) {
                kept[0] = Some(parameters.get(id).clone());
            }
        }
        let mut cells = Vec::new();
        for kind in (0..program.cells().len()).map(Kind::new) {
            let mut parts = [None, None, None];
            for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
                let needed = is_needed(&program, kind, part);
                let Some(plan) = program.part(kind, part).filter(|_| needed) else { continue };
                parts[part as usize] = Some(LoadedPart::new(plan, &mut stacks)?);
                for (place, _) in plan.steps.iter().flat_map(CellStep::reads) {
                    let tables = network[kind].tables();
                    let weight = match place.base {
                        Base::Parameter(weight) => weight,
                        Base::Table(table) => match tables[usize::from(table)].parameter {
                            Some(parameter) => Weight::AsIs(parameter),
                            None => continue,
                        },
                        _ => continue,
                    };
                    let [as_is, transposed] = &mut kept[weight.parameter().0 as usize];
                    match weight {
                        Weight::AsIs(id) => *as_is = Some(parameters.get(id).clone()),
                        Weight::Transposed(_) if transposed.is_none() => {
                            let values = stacks.values(weight)?;
                            *transposed = Some(Arc::new(values.into_owned()));
                        }
                        Weight::Transposed(_) => {}
                    }
                }
            }
            cells.push(parts);
        }
        let of_kept = kept.iter().flatten().flatten().map(|values| size_of_val(values.as_slice()));
        let bytes = stacks.packed.iter().map(PackedWeights::bytes).chain(of_kept).sum();
        let moments = vec![Vec::new(); kept.len()];
        let (packed, folded) = (stacks.packed, Aligned::default());
        let weights = RwLock::new(Weights { packed, kept, moments, folded });
        let mut stacks: Vec<_> = stacks.numbers.into_iter().collect();
        stacks.sort_unstable_by_key(|&(_, number)| number);
        let stacks = stacks.into_iter().map(|(weights, _)| weights).collect();
        let declared = parameters.declared().clone();
        Ok(Self { program, level, cells, stacks, declared, weights, bytes })
    }

    /// Locks the weights for a run.
    pub(super) fn weights(&self) -> RwLockReadGuard<'_, Weights> {
        self.weights.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size in bytes of all weights, folded tables and moments.
    pub(super) fn bytes(&self) -> usize {
        let weights = self.weights();
        let moments = weights.moments.iter().flatten().map(|values| size_of_val(values.as_slice()));
        self.bytes + moments.sum::<usize>()
    }

    /// Returns the size in bytes of the packed weights that a cell multiplies by, of the cell for
    /// which it is largest. Prologue and body count together.
    pub(super) fn largest_cell(&self) -> usize {
        let weights = self.weights();
        let of_cell = |parts: &[Option<LoadedPart>; 3]| {
            let mut stacks = BTreeSet::new();
            for step in parts.iter().flatten().flat_map(|part| &part.steps) {
                if let Run::Product { stack, .. } = step.run {
                    stacks.insert(stack);
                }
            }
            stacks.into_iter().map(|stack| weights.packed(stack).bytes()).sum()
        };
        self.cells.iter().map(of_cell).max().unwrap_or(0)
    }

    /// Returns the part of a cell that a step of a plan runs.
    pub(super) fn carried_out(&self, step: &Step) -> &LoadedPart {
        let part = &self.cells[step.cell.index()][step.action.part() as usize];
        part.as_ref().expect("planned for this program")
    }
}

impl Weights {
    /// Returns the packed weights of a product.
    pub(super) fn packed(&self, stack: usize) -> &PackedWeights {
        &self.packed[stack]
    }

    /// Returns a weight that is read unpacked.
    pub(super) fn parameter(&self, weight: Weight) -> &[f32] {
        let [as_is, transposed] = &self.kept[weight.parameter().0 as usize];
        let kept = if matches!(weight, Weight::AsIs(_)) { as_is } else { transposed };
        kept.as_ref().expect("kept for the steps that read it")
    }
}

/// A cell, or a part of it, ready to run.
#[derive(Debug)]
pub(super) struct LoadedPart {
    /// The width of each region of scratch memory, in floats.
    pub(super) regions: Vec<u32>,
    /// The width of each rounded copy, in elements.
    pub(super) rounded: Vec<u32>,
    /// The number of elements per call that several steps use; at least 1.
    reused: usize,
    /// Estimated cost of a call, as a number of multiply-adds of a product.
    pub(super) work: usize,
    /// Distance in floats from an output row to the next.
    pub(super) stride: usize,
    /// True if a step needs memory for the scores of attention.
    pub(super) attends: bool,
    pub(super) steps: Vec<LoadedStep>,
}

/// A step, ready to run.
#[derive(Debug)]
pub(super) struct LoadedStep {
    pub(super) run: Run,
    /// The regions of scratch memory that the step writes, in ascending order.
    pub(super) regions: Vec<usize>,
    pub(super) writes_output: bool,
}

/// The operation of a step.
#[derive(Debug)]
pub(super) enum Run {
    /// Multiplies stacked weights by a vector for each call, or by its rounded copy.
    Product { stack: usize, x: Place, rounded: Option<Rounded>, out: Place, mode: Mode },
    /// Any other step of the plan.
    Planned(CellStep),
}

/// The copy of a vector, rounded to bf16, that a product reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounded {
    /// The number of the copy.
    pub(super) copy: usize,
    /// True if the product makes the copy, false if an earlier product did.
    pub(super) is_new: bool,
}

/// The rounded copies of vectors that products of a part have read so far.
#[derive(Default)]
struct Copies {
    /// The widths of all copies.
    widths: Vec<u32>,
    /// The vectors whose copies are still equal to them: their places and widths.
    valid: Vec<(Place, u32, usize)>,
}

impl Copies {
    /// Returns the copy of a vector.
    fn of(&mut self, x: Place, width: u32) -> Rounded {
        let known = self.valid.iter().find(|&&(place, of, _)| (place, of) == (x, width));
        if let Some(&(.., copy)) = known {
            return Rounded { copy, is_new: false };
        }
        let copy = self.widths.len();
        self.widths.push(width);
        self.valid.push((x, width, copy));
        Rounded { copy, is_new: true }
    }

    /// Forgets the copies of vectors that a step overwrites.
    fn overwrite(&mut self, step: &CellStep) {
        for (to, written) in step.writes() {
            self.valid.retain(|&(place, width, _)| {
                place.base != to.base
                    || place.offset + width <= to.offset
                    || to.offset + written <= place.offset
            });
        }
    }
}

/// Packs weights. Cells that multiply by the same stack of weights share the packed copy.
struct Stacks<'a> {
    network: &'a Network,
    parameters: &'a Parameters,
    level: Level,
    precision: Precision,
    packed: Vec<PackedWeights>,
    /// The numbers of the stacks in `packed`.
    numbers: HashMap<Vec<Weight>, usize>,
}

impl<'a> Stacks<'a> {
    /// Returns the values of a weight. A transposed one is a copy.
    fn values(&self, weight: Weight) -> Result<Cow<'a, [f32]>, OutOfMemory> {
        if let Weight::Transposed(id) = weight {
            trial(size_of_val(self.parameters.get(id).as_slice()))?;
        }
        Ok(self.parameters.weight(self.network, weight))
    }

    /// Packs weights of `depth` columns, stacked vertically. Returns the number of the stack.
    fn stack(&mut self, weights: &[Weight], depth: u32) -> Result<usize, OutOfMemory> {
        if let Some(&number) = self.numbers.get(weights) {
            return Ok(number);
        }
        let values = weights.iter().map(|&weight| self.values(weight));
        let stack = values.collect::<Result<Vec<_>, _>>()?;
        let stack: Vec<&[f32]> = stack.iter().map(|values| &**values).collect();
        let (level, precision) = (self.level, self.precision);
        let packed = PackedWeights::with_precision(level, precision, &stack, depth as usize)?;
        self.packed.push(packed);
        self.numbers.insert(weights.to_vec(), self.packed.len() - 1);
        Ok(self.packed.len() - 1)
    }
}

impl LoadedPart {
    fn new(plan: &CellPlan, stacks: &mut Stacks<'_>) -> Result<Self, OutOfMemory> {
        let mut copies = Copies::default();
        let mut step = |step: &CellStep| {
            let written: BTreeSet<Option<usize>> =
                step.writes().iter().map(|(place, _)| region(place.base)).collect();
            let run = match step {
                CellStep::Product { weights, width, x, out, mode, .. } => {
                    let stack = stacks.stack(weights, *width)?;
                    let rounded = match stacks.precision {
                        Precision::F32 => None,
                        Precision::Bf16 => Some(copies.of(*x, *width)),
                    };
                    Run::Product { stack, x: *x, rounded, out: *out, mode: *mode }
                }
                other => Run::Planned(other.clone()),
            };
            copies.overwrite(step);
            let writes_output = written.contains(&None);
            Ok(LoadedStep { run, regions: written.into_iter().flatten().collect(), writes_output })
        };
        let steps = plan.steps.iter().map(&mut step).collect::<Result<_, _>>()?;
        Ok(Self {
            steps,
            rounded: copies.widths,
            regions: plan.regions.clone(),
            reused: reused(plan),
            work: plan.steps.iter().map(work).sum(),
            stride: plan.output_stride as usize,
            attends: plan.steps.iter().any(|step| {
                matches!(step, CellStep::Attention { .. } | CellStep::AttentionBack { .. })
            }),
        })
    }
}

impl LoadedPart {
    /// Returns the maximum number of rows of a tile.
    pub(super) fn most_rows(&self) -> usize {
        /// Maximum number of reused elements in a tile, which fill half of a common L2 cache.
        const REUSED: usize = 1 << 17;
        (REUSED / self.reused).clamp(*TILE.start(), *TILE.end())
    }
}

/// Returns the estimated cost of one call of a step, as a number of multiply-adds of a product.
fn work(step: &CellStep) -> usize {
    /// Cost per element of an element-wise operation, in multiply-adds: 0.13 ns, if 64 take 1 ns.
    const ELEMENT: usize = 8;
    /// Guessed number of values of a call at a port with attention.
    const VALUES: usize = 8;
    let of = |factors: &[u32]| factors.iter().map(|&factor| factor as usize).product::<usize>();
    match step {
        CellStep::Product { rows, width, .. } => of(&[*rows, *width]),
        CellStep::MatMul { m, k, n, .. } => of(&[*m, *k, *n]),
        CellStep::Elementwise { width, program, .. } => {
            let ops = program.assignments().iter().map(|assignment| assignment.operation.ops());
            of(&[*width]) * ops.sum::<usize>() * ELEMENT
        }
        CellStep::Reduce { width, .. } => of(&[*width]) * ELEMENT,
        CellStep::Rows(step) => step.work(),
        CellStep::Attention { scores, width, .. } => {
            let scored = match scores {
                Scores::Field(_) => 0,
                Scores::Keys { width, .. } => *width as usize,
            };
            VALUES * (scored + *width as usize)
        }
        CellStep::AttentionBack { of, .. } => VALUES * 2 * (of.keys.1 + of.values.1) as usize,
    }
}

/// Returns the number of elements per call in scratch memory and in arguments that several steps
/// read.
fn reused(plan: &CellPlan) -> usize {
    let is_argument = |base| matches!(base, Base::Table(_) | Base::Port(_) | Base::Hoisted);
    let reads = plan.steps.iter().flat_map(CellStep::reads);
    let mut reads: Vec<(Place, u32)> = reads.filter(|(place, _)| is_argument(place.base)).collect();
    reads.sort_unstable();
    let again = reads.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0].1);
    plan.regions.iter().copied().chain(again).map(|width| width as usize).sum::<usize>().max(1)
}

/// Returns the index of the region, if `base` is scratch memory.
pub(super) fn region(base: Base) -> Option<usize> {
    match base {
        Base::Scratch(region) => Some(usize::from(region)),
        _ => None,
    }
}
