//! A cell's steps in the form in which the CPU runs them: weights packed, programs compiled.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use edbatch_graph::{Kind, ParameterId};
use edbatch_layout::{Base, CellPart, CellPlan, CellStep, Mode, Place, Program, Step};

use super::TILE;
use crate::Parameters;
use crate::kernels::{Aligned, Level, OutOfMemory, PackedWeights};

/// All that is decided and packed once, shared by backends on the same weights.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) program: Arc<Program>,
    pub(super) level: Level,
    /// By cell: the [parts](CellPart) that plans may run.
    cells: Vec<[Option<LoadedPart>; 3]>,
    /// The parameters that are read as they are: tables, biases, factors of other products.
    kept: Vec<Option<Arc<Vec<f32>>>>,
    /// The folded tables of the program.
    pub(super) folded: Aligned,
    /// Bytes of all weights, and of the folded tables.
    pub(super) bytes: usize,
}

impl Loaded {
    /// What mini-batches run.
    pub(super) fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        level: Level,
        folded: Aligned,
    ) -> Result<Self, OutOfMemory> {
        let runs = |program: &Program, kind, part| {
            // What a table divides never runs as a whole, and what is folded has been computed.
            let hoisted = program.cell(kind).hoisted.as_ref();
            match part {
                CellPart::Whole => hoisted.is_none_or(|hoisted| hoisted.table().is_none()),
                CellPart::Prologue => program.folded(kind).is_none(),
                CellPart::Body => true,
            }
        };
        let mut loaded = Self::parts(program, parameters, level, runs)?;
        loaded.bytes += size_of_val(&*folded);
        loaded.folded = folded;
        Ok(loaded)
    }

    /// What computes the folded tables.
    pub(super) fn to_fold(
        program: Arc<Program>,
        parameters: &Parameters,
        level: Level,
    ) -> Result<Self, OutOfMemory> {
        let folds = |program: &Program, kind, part| {
            part == CellPart::Prologue && program.folded(kind).is_some()
        };
        Self::parts(program, parameters, level, folds)
    }

    /// The parts of cells that are needed, and the parameters that they read.
    fn parts(
        program: Arc<Program>,
        parameters: &Parameters,
        level: Level,
        is_needed: impl Fn(&Program, Kind, CellPart) -> bool,
    ) -> Result<Self, OutOfMemory> {
        let mut stacks = Stacks { parameters, level, packed: HashMap::new() };
        let mut kept: Vec<Option<Arc<Vec<f32>>>> = vec![None; program.network().parameters().len()];
        let mut cells = Vec::new();
        for kind in (0..program.cells().len()).map(Kind::new) {
            let mut parts = [None, None, None];
            for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
                let needed = is_needed(&program, kind, part);
                let Some(plan) = program.part(kind, part).filter(|_| needed) else { continue };
                parts[part as usize] = Some(LoadedPart::new(plan, &mut stacks)?);
                for (place, _) in plan.steps.iter().flat_map(CellStep::reads) {
                    let tables = program.network()[kind].tables();
                    let id = match place.base {
                        Base::Parameter(id) => id,
                        Base::Table(table) => tables[usize::from(table)].parameter,
                        _ => continue,
                    };
                    kept[id.0 as usize] = Some(parameters.get(id).clone());
                }
            }
            cells.push(parts);
        }
        let of_kept = kept.iter().flatten().map(|values| size_of_val(values.as_slice()));
        let bytes = stacks.packed.values().map(|weights| weights.bytes()).chain(of_kept).sum();
        Ok(Self { program, level, cells, kept, folded: Aligned::default(), bytes })
    }

    /// What a step of a plan carries out.
    pub(super) fn carried_out(&self, step: &Step) -> &LoadedPart {
        let part = &self.cells[step.cell.index()][step.action.part() as usize];
        part.as_ref().expect("planned for this program")
    }

    /// A parameter that is read as it is.
    pub(super) fn parameter(&self, id: ParameterId) -> &[f32] {
        self.kept[id.0 as usize].as_ref().expect("kept for the steps that read it")
    }
}

/// A cell or a part of it, ready to run.
#[derive(Debug)]
pub(super) struct LoadedPart {
    /// The widths of the regions of scratch.
    pub(super) regions: Vec<u32>,
    /// Elements of a call that a step leaves to later ones, or that several read; at least 1.
    reused: usize,
    /// Multiply-adds of a call, and what takes as long as some.
    pub(super) work: usize,
    pub(super) stride: usize,
    pub(super) steps: Vec<LoadedStep>,
}

/// A step, ready to run.
#[derive(Debug)]
pub(super) struct LoadedStep {
    pub(super) run: Run,
    /// The regions of scratch that it writes, ascending.
    pub(super) regions: Vec<usize>,
    pub(super) writes_output: bool,
}

/// What a step does.
#[derive(Debug)]
pub(super) enum Run {
    /// A stack of weights times a vector.
    Product { weights: Arc<PackedWeights>, x: Place, out: Place, mode: Mode },
    /// Anything else, as it was planned.
    Planned(CellStep),
}

/// Stacks of weights, each packed once, whichever cells and parts of cells multiply by it.
struct Stacks<'a> {
    parameters: &'a Parameters,
    level: Level,
    packed: HashMap<Vec<ParameterId>, Arc<PackedWeights>>,
}

impl Stacks<'_> {
    /// Weights of `depth` columns, stacked along their rows.
    fn stack(
        &mut self,
        weights: &[ParameterId],
        depth: u32,
    ) -> Result<Arc<PackedWeights>, OutOfMemory> {
        if let Some(packed) = self.packed.get(weights) {
            return Ok(packed.clone());
        }
        let stack: Vec<&[f32]> =
            weights.iter().map(|&id| self.parameters.get(id).as_slice()).collect();
        let packed = Arc::new(PackedWeights::new(self.level, &stack, depth as usize)?);
        self.packed.insert(weights.to_vec(), packed.clone());
        Ok(packed)
    }
}

impl LoadedPart {
    fn new(plan: &CellPlan, stacks: &mut Stacks<'_>) -> Result<Self, OutOfMemory> {
        let step = |step: &CellStep| {
            let written: BTreeSet<Option<usize>> =
                step.writes().iter().map(|(place, _)| region(place.base)).collect();
            let run = match step {
                CellStep::Product { weights, width, x, out, mode, .. } => {
                    let weights = stacks.stack(weights, *width)?;
                    Run::Product { weights, x: *x, out: *out, mode: *mode }
                }
                other => Run::Planned(other.clone()),
            };
            let writes_output = written.contains(&None);
            Ok(LoadedStep { run, regions: written.into_iter().flatten().collect(), writes_output })
        };
        Ok(Self {
            regions: plan.regions.clone(),
            reused: reused(plan),
            work: plan.steps.iter().map(work).sum(),
            stride: plan.output_stride as usize,
            steps: plan.steps.iter().map(step).collect::<Result<_, _>>()?,
        })
    }
}

impl LoadedPart {
    /// The most rows of a tile.
    pub(super) fn most_rows(&self) -> usize {
        /// Elements of a tile that are used several times: half of a common L2 cache.
        const REUSED: usize = 1 << 17;
        (REUSED / self.reused).clamp(*TILE.start(), *TILE.end())
    }
}

/// What a call of a step takes, in multiply-adds of a product.
fn work(step: &CellStep) -> usize {
    /// Of an element-wise operation and element: 0.13 ns, against 64 a nanosecond in products.
    const ELEMENT: usize = 8;
    let of = |factors: &[u32]| factors.iter().map(|&factor| factor as usize).product::<usize>();
    match step {
        CellStep::Product { rows, width, .. } => of(&[*rows, *width]),
        CellStep::MatMul { m, k, n, .. } => of(&[*m, *k, *n]),
        CellStep::Elementwise { width, program, .. } => {
            let ops = program.assignments().iter().map(|assignment| assignment.operation.ops());
            of(&[*width]) * ops.sum::<usize>() * ELEMENT
        }
        CellStep::Reduce { width, .. } | CellStep::Softmax { width, .. } => of(&[*width]) * ELEMENT,
        CellStep::Copy { width, .. } | CellStep::Fill { width, .. } => of(&[*width]),
        CellStep::Expand { rows, columns, .. } | CellStep::Transpose { rows, columns, .. } => {
            of(&[*rows, *columns])
        }
    }
}

/// Scratch, and the arguments that several steps read.
fn reused(plan: &CellPlan) -> usize {
    let is_argument = |base| matches!(base, Base::Table(_) | Base::Port(_) | Base::Hoisted);
    let reads = plan.steps.iter().flat_map(CellStep::reads);
    let mut reads: Vec<(Place, u32)> = reads.filter(|(place, _)| is_argument(place.base)).collect();
    reads.sort_unstable();
    let again = reads.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0].1);
    plan.regions.iter().copied().chain(again).map(|width| width as usize).sum::<usize>().max(1)
}

/// The region that a place lies in, if any.
pub(super) fn region(base: Base) -> Option<usize> {
    match base {
        Base::Scratch(region) => Some(usize::from(region)),
        _ => None,
    }
}
