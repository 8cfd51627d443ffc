//! A cell's steps in the form in which the CPU runs them: weights packed, programs compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use edbatch_graph::{Kind, ParameterId};
use edbatch_layout::{Base, CellPlan, CellStep, Mode, Place, Program, Scalar, next_line};

use super::Products;
use crate::Parameters;
use crate::kernels::{self, Function, Level, PackedWeights};

/// All that is decided and packed once, shared by backends on the same weights.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) program: Arc<Program>,
    pub(super) level: Level,
    cells: Vec<LoadedCell>,
    /// The parameters that are read as they are: tables, biases, factors of other products.
    kept: Vec<Option<Arc<[f32]>>>,
    /// Bytes of all weights.
    pub(super) bytes: usize,
}

impl Loaded {
    pub(super) fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        products: Products,
        level: Level,
    ) -> Self {
        let cells = program.cells().iter();
        let cells = cells.map(|plan| LoadedCell::new(plan, parameters, products, level));
        let cells: Vec<LoadedCell> = cells.collect();
        let mut kept: Vec<Option<Arc<[f32]>>> = vec![None; program.network().parameters().len()];
        for (cell, plan) in program.network().cells().iter().zip(program.cells()) {
            let tables = |table: u16| cell.tables()[usize::from(table)].parameter;
            let read = plan.steps.iter().flat_map(CellStep::reads);
            let read = read.filter_map(|(place, _)| match place.base {
                Base::Parameter(id) => Some(id),
                Base::Table(table) => Some(tables(table)),
                _ => None,
            });
            for id in read.chain(plan.hoisted.iter().map(|hoisted| tables(hoisted.table))) {
                kept[id.0 as usize] = Some(parameters.get(id).clone());
            }
        }
        let of_kept = kept.iter().flatten().map(|values| size_of_val::<[f32]>(values));
        let bytes = cells.iter().map(LoadedCell::bytes).chain(of_kept).sum();
        Self { program, level, cells, kept, bytes }
    }

    pub(super) fn cell(&self, kind: Kind) -> &LoadedCell {
        &self.cells[kind.index()]
    }

    /// A parameter that is read as it is.
    pub(super) fn parameter(&self, id: ParameterId) -> &[f32] {
        self.kept[id.0 as usize].as_ref().expect("kept for the steps that read it")
    }
}

/// A cell, ready to run.
#[derive(Debug)]
pub(super) struct LoadedCell {
    /// The table and the weights of the hoisted product.
    pub(super) hoisted: Option<(u16, Weights)>,
    pub(super) regions: Vec<u32>,
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
    Product { weights: Weights, x: Place, out: Place, mode: Mode },
    /// A run of element-wise operations; outputs in the order of their places.
    Elementwise {
        program: kernels::Elementwise,
        width: usize,
        inputs: Vec<Place>,
        outputs: Vec<Place>,
    },
    /// Anything else, as it was planned.
    Planned(CellStep),
}

/// A stack of weights (N, K).
#[derive(Debug)]
pub(super) enum Weights {
    /// In panels, for our kernel.
    Packed(PackedWeights),
    /// Row-major, for matrixmultiply.
    Dense { values: Vec<f32>, outputs: usize, depth: usize },
}

impl LoadedCell {
    fn new(plan: &CellPlan, parameters: &Parameters, products: Products, level: Level) -> Self {
        let stacked = |weights: &[ParameterId], outputs: u32, depth: u32| {
            let stack: Vec<&[f32]> = weights.iter().map(|&id| &**parameters.get(id)).collect();
            let (outputs, depth) = (outputs as usize, depth as usize);
            match products {
                Products::Packed => Weights::Packed(PackedWeights::new(level, &stack, depth)),
                Products::MatrixMultiply => {
                    Weights::Dense { values: stack.concat(), outputs, depth }
                }
            }
        };
        let step = |step: &CellStep| {
            let written: BTreeSet<Option<usize>> =
                step.writes().iter().map(|(place, _)| region(place.base)).collect();
            let run = match step {
                CellStep::Product { weights, rows, width, x, out, mode } => {
                    let weights = stacked(weights, *rows, *width);
                    Run::Product { weights, x: *x, out: *out, mode: *mode }
                }
                CellStep::Elementwise(planned) => elementwise(planned),
                other => Run::Planned(other.clone()),
            };
            let writes_output = written.contains(&None);
            LoadedStep { run, regions: written.into_iter().flatten().collect(), writes_output }
        };
        let hoisted = plan
            .hoisted
            .as_ref()
            .map(|hoisted| (hoisted.table, stacked(&hoisted.weights, hoisted.rows, hoisted.width)));
        Self {
            hoisted,
            regions: plan.regions.clone(),
            stride: plan.output_stride as usize,
            steps: plan.steps.iter().map(step).collect(),
        }
    }

    /// Elements of scratch for a call, at least 1.
    pub(super) fn scratch(&self) -> usize {
        self.regions.iter().map(|&width| width as usize).sum::<usize>().max(1)
    }

    /// Elements from one row of hoisted results to the next.
    pub(super) fn hoisted_stride(&self) -> usize {
        self.hoisted.as_ref().map_or(0, |(_, weights)| next_line(weights.outputs()))
    }

    /// Bytes of its weights.
    fn bytes(&self) -> usize {
        let weights = self.steps.iter().filter_map(|step| match &step.run {
            Run::Product { weights, .. } => Some(weights),
            _ => None,
        });
        let hoisted = self.hoisted.iter().map(|(_, weights)| weights);
        weights.chain(hoisted).map(Weights::bytes).sum()
    }
}

impl Weights {
    /// N, rows of all weights together.
    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.outputs(),
            Self::Dense { outputs, .. } => *outputs,
        }
    }

    /// K, columns of each weight.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.depth(),
            Self::Dense { depth, .. } => *depth,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.bytes(),
            Self::Dense { values, .. } => values.len() * size_of::<f32>(),
        }
    }
}

fn elementwise(planned: &edbatch_layout::Elementwise) -> Run {
    let mut program = kernels::Program::new();
    let mut registers: Vec<_> = planned.inputs.iter().map(|_| program.input()).collect();
    for instruction in &planned.instructions {
        let at = |register: u16| registers[usize::from(register)];
        let value = match *instruction {
            Scalar::Add(a, b) => program.add(at(a), at(b)),
            Scalar::Sub(a, b) => program.subtract(at(a), at(b)),
            Scalar::Mul(a, b) => program.multiply(at(a), at(b)),
            Scalar::Div(a, b) => program.divide(at(a), at(b)),
            Scalar::Neg(a) => program.negate(at(a)),
            Scalar::Scale(a, factor) => program.scale(at(a), factor),
            Scalar::Sigmoid(a) => program.apply(Function::Sigma, at(a)),
            Scalar::Tanh(a) => program.apply(Function::Tanh, at(a)),
            Scalar::Relu(a) => program.apply(Function::Relu, at(a)),
            Scalar::Exp(a) => program.apply(Function::Exp, at(a)),
            Scalar::Log(a) => program.apply(Function::Ln, at(a)),
        };
        registers.push(value);
    }
    let mut outputs = planned.outputs.clone();
    outputs.sort_unstable_by_key(|&(_, place)| place);
    for &(register, _) in &outputs {
        program.output(registers[usize::from(register)]);
    }
    Run::Elementwise {
        program: kernels::Elementwise::new(&program),
        width: planned.width as usize,
        inputs: planned.inputs.clone(),
        outputs: outputs.into_iter().map(|(_, place)| place).collect(),
    }
}

/// The region that a place lies in, if any.
pub(super) fn region(base: Base) -> Option<usize> {
    match base {
        Base::Scratch(region) => Some(usize::from(region)),
        _ => None,
    }
}
