//! Emits the steps of a cell from groups and places.
//!
//! A step must not both read and write a region or the output. If it would, the operand is copied
//! first.

mod batch;
#[cfg(test)]
mod tests;

use edbatch_graph::{AdjointOp, Op, Shape, Var};

use super::Compiled;
use super::equations::Equations;
use super::idioms::{Idiom, Idioms};
use super::place::{Places, is_read_later, target};
use super::stack::Group;
use super::unread::drop_unread;
use crate::cell_plan::{AttentionFields, Base, CellPlan, CellStep, Mode, Place, RowKernel, Scores};
use crate::copied::{Move, Why};
use crate::elementwise::{Elementwise, Register};

/// Emits the steps of a cell whose variables have been placed. Drops steps with unread results.
pub(super) fn emit(
    equations: &Equations<'_>,
    idioms: &Idioms,
    groups: &[Group],
    places: Places,
) -> Compiled {
    let terms_run = vec![0; equations.len()];
    let (steps, moves) = (Vec::new(), Vec::new());
    let mut emitter = Emitter { equations, idioms, places, terms_run, steps, moves };
    for group in groups {
        match group {
            Group::Stacks(stacks) => {
                stacks.iter().for_each(|stack| emitter.products(&stack.products));
            }
            Group::Elementwise(run) => emitter.elementwise(run),
            Group::Batch(batch) => emitter.batch(batch),
            &Group::Expand(var, shape) => emitter.expand(var, shape),
            &Group::Other(var) => emitter.other(var),
        }
    }
    emitter.return_elsewhere();
    let output = equations.output();
    let last = output.offsets.len() - 1;
    let plan = CellPlan {
        name: equations.cell.name().into(),
        hoisted: None,
        regions: emitter.places.regions,
        output_stride: output.stride,
        output_width: output.offsets[last] + output.widths[last],
        steps: emitter.steps,
    };
    drop_unread(Compiled { plan, moves: emitter.moves })
}

struct Emitter<'a> {
    equations: &'a Equations<'a>,
    idioms: &'a Idioms,
    places: Places,
    /// For each sum of products, the number of its terms that have been emitted.
    terms_run: Vec<usize>,
    steps: Vec<CellStep>,
    /// The steps that only move data.
    moves: Vec<Move>,
}

impl Emitter<'_> {
    /// Appends a step that moves a variable.
    fn move_by(&mut self, step: CellStep, var: Var, why: Why) {
        self.moves.push(Move { step: self.steps.len(), var, why });
        self.steps.push(step);
    }

    /// Returns the place of a tensor, or of a new copy if the next step writes the same memory.
    fn apart(&mut self, (from, width): (Place, u32), var: Var, written: &[Base]) -> Place {
        let may_clash = matches!(from.base, Base::Scratch(_) | Base::Output);
        if !may_clash || !written.contains(&from.base) {
            return from;
        }
        let out = self.places.allocate(width);
        self.move_by(CellStep::copy(from, width, out), var, Why::Overwritten);
        out
    }

    fn read(&mut self, var: Var, written: &[Base]) -> Place {
        self.apart((self.places.of(var), self.equations.width(var)), var, written)
    }

    /// Emits products of several weights and one vector, as one step where their results are
    /// contiguous.
    fn products(&mut self, products: &[Var]) {
        let Some(&first) = products.first() else { return };
        let x = self.equations.operands(first)[1];
        let at = |var: &Var| self.places.of(target(self.idioms, *var));
        let written: Vec<Base> = products.iter().map(|var| at(var).base).collect();
        let width = self.equations.width(x);
        let mut results = Vec::with_capacity(products.len());
        for &var in products {
            let target = target(self.idioms, var);
            let terms_run = &mut self.terms_run[target.index()];
            let mode = match self.idioms.of(var) {
                Idiom::Biased { bias, .. } => Mode::From(self.places.of(bias)),
                _ if *terms_run == 0 => Mode::Set,
                _ => Mode::Add,
            };
            *terms_run += 1;
            results.push((self.places.of(target), var, mode));
        }
        results.sort_by_key(|&(place, ..)| place);
        let x = self.read(x, &written);
        let first = self.steps.len();
        for (out, var, mode) in results {
            let rows = self.equations.width(var);
            let weight = self.equations.weight(var).expect("a product of a parameter");
            if let Some(CellStep::Product { weights, rows: n, out: o, mode: m, .. }) =
                self.steps[first..].last_mut()
                && (*m, o.base, o.offset + *n) == (mode, out.base, out.offset)
            {
                weights.push(weight);
                *n += rows;
            } else {
                let weights = vec![weight];
                self.steps.push(CellStep::Product { weights, rows, width, x, out, mode });
            }
        }
    }

    /// Emits one step for operations of equal width. Each operation of `run` follows its operands.
    fn elementwise(&mut self, run: &[Var]) {
        let (equations, width) = (self.equations, self.equations.width(run[0]));
        let mut inputs: Vec<Place> = Vec::new();
        let mut vars: Vec<Var> = Vec::new();
        for &var in run {
            for &operand in equations.operands(var).iter().filter(|operand| !run.contains(operand))
            {
                let place = self.places.of_operand(equations, operand, var);
                if !inputs.contains(&place) {
                    inputs.push(place);
                    vars.push(operand);
                }
            }
        }
        let register = |operand: Var, reader: Var| {
            let index = match run.iter().position(|&other| other == operand) {
                Some(index) => inputs.len() + index,
                None => {
                    let place = self.places.of_operand(equations, operand, reader);
                    inputs.iter().position(|&input| input == place).expect("collected above")
                }
            };
            Register(index as u16)
        };
        let op = |&var: &Var| {
            let operands = equations.operands(var).iter().map(|&operand| register(operand, var));
            (equations.op(var), operands.collect())
        };
        let ops: Vec<(Op, Vec<Register>)> = run.iter().map(op).collect();
        let results = (inputs.len()..).zip(run);
        let results = results.filter(|&(_, &var)| is_read_later(equations, var, run));
        let mut outputs: Vec<(Place, Register)> = results
            .map(|(register, &var)| (self.places.of(var), Register(register as u16)))
            .collect();
        outputs.sort_unstable();
        let (outputs, registers): (Vec<Place>, Vec<Register>) = outputs.into_iter().unzip();
        let program = Elementwise::new(inputs.len() as u16, &ops, &registers);
        let written: Vec<Base> = outputs.iter().map(|place| place.base).collect();
        for (input, var) in inputs.iter_mut().zip(vars) {
            *input = self.apart((*input, width), var, &written);
        }
        self.steps.push(CellStep::Elementwise { width, inputs, outputs, program });
    }

    fn expand(&mut self, var: Var, shape: Shape) {
        let (from, rows) = (self.places.of(var), self.equations.width(var));
        let columns = shape.elements() as u32 / rows;
        let out = self.places.of_expanded(var, shape);
        let step = CellStep::rows(RowKernel::Expand, &[from], [rows, columns], out);
        self.move_by(step, var, Why::Repeated);
    }

    /// Emits an operation that is neither a product of a parameter and a vector nor element-wise.
    fn other(&mut self, var: Var) {
        let operands = self.equations.operands(var);
        let is_swapped = self.idioms.of(var) == Idiom::Swapped;
        match self.equations.op(var) {
            // They are parts of another variable.
            Op::Slice { .. } | Op::Reshape(_) => return,
            Op::Transpose if is_swapped || self.equations.is_given(var) => return,
            Op::MatMul | Op::Adjoint(AdjointOp::Outer) => return self.matrix_product(var),
            Op::Concat => return self.concatenation(var),
            _ => {}
        }
        let (out, width) = (self.places.of(var), self.equations.width(var));
        let from: Vec<Place> =
            operands.iter().map(|&operand| self.read(operand, &[out.base])).collect();
        let row = |kernel| CellStep::rows(kernel, &from, [1, width], out);
        // One result for each row of the first operand.
        let rows = |kernel| {
            let columns = self.equations.width(operands[0]) / width;
            CellStep::rows(kernel, &from, [width, columns], out)
        };
        let step = match self.equations.op(var) {
            Op::Reduce { port, field, by } => {
                let from = self.equations.field_offset(port, field);
                CellStep::Reduce { port, from, width, by, out }
            }
            Op::Constant(value) => {
                let step = CellStep::rows(RowKernel::Fill(value), &from, [1, width], out);
                return self.move_by(step, var, Why::Constant);
            }
            Op::Adjoint(AdjointOp::Fold(_)) => rows(RowKernel::Fold),
            Op::Adjoint(AdjointOp::Share { port }) => row(RowKernel::Share(port)),
            Op::Normalize(by) => {
                let shape = match self.equations.shape(var) {
                    Shape::Vector(width) => [1, width],
                    Shape::Matrix(rows, width) => [rows, width],
                };
                CellStep::rows(RowKernel::Normalize(by), &from, shape, out)
            }
            Op::Dot => rows(RowKernel::Dot),
            Op::Select { table } => {
                let rows = self.equations.width(operands[0]) / width;
                CellStep::rows(RowKernel::Select(table), &from, [rows, width], out)
            }
            Op::Adjoint(AdjointOp::Ties { port, field }) => {
                let field = self.equations.field_offset(port, field);
                row(RowKernel::Ties { port, field })
            }
            Op::Adjoint(AdjointOp::OneHot { table }) => row(RowKernel::OneHot(table)),
            Op::Transpose => {
                let (rows, columns) = self.equations.shape(operands[0]).rows_and_columns();
                let shape = [rows as u32, columns as u32];
                let step = CellStep::rows(RowKernel::Transpose, &from, shape, out);
                return self.move_by(step, operands[0], Why::Transposed);
            }
            _ => self.attention(var, &from, out),
        };
        self.steps.push(step);
    }

    /// Returns the step of attention, or of the gradient of its query.
    fn attention(&self, var: Var, from: &[Place], out: Place) -> CellStep {
        let (operands, width) = (self.equations.operands(var), self.equations.width(var));
        match self.equations.op(var) {
            Op::Attention { port, keys, values, heads } => {
                let scores = Scores::Keys {
                    query: from[0],
                    keys: self.equations.field_offset(port, keys),
                    width: self.equations.width(operands[0]),
                };
                let values = self.equations.field_offset(port, values);
                CellStep::Attention { port, scores, values, heads, width, out }
            }
            Op::SoftmaxSum { port, scores, values } => {
                let heads = self.equations.field_width(port, scores);
                let scores = Scores::Field(self.equations.field_offset(port, scores));
                let values = self.equations.field_offset(port, values);
                CellStep::Attention { port, scores, values, heads, width, out }
            }
            Op::Adjoint(AdjointOp::AttentionBack { port, keys, values, heads }) => {
                let field = |field| {
                    let offset = self.equations.field_offset(port, field);
                    (offset, self.equations.field_width(port, field))
                };
                let of = AttentionFields { port, keys: field(keys), values: field(values), heads };
                CellStep::AttentionBack { of, query: from[0], gradient: from[1], out }
            }
            op => unreachable!("{op} is run elsewhere"),
        }
    }

    /// Emits a product of matrices, with the sum of the product and its bias, if it has one. The
    /// right factor may be in pieces.
    fn matrix_product(&mut self, product: Var) {
        let equations = self.equations;
        let &[left, right] = equations.operands(product) else {
            unreachable!("a product has two operands")
        };
        let shape = |var: Var| {
            let (rows, columns) = equations.shape(var).rows_and_columns();
            (rows as u32, columns as u32)
        };
        let (left, right, m, (k, n)) = match equations.op(product) {
            // A transpose times a vector is the vector times the matrix.
            _ if self.idioms.of(left) == Idiom::Swapped => {
                let matrix = equations.operands(left)[0];
                (right, matrix, 1, shape(matrix))
            }
            // An outer product multiplies a column by a row.
            Op::Adjoint(AdjointOp::Outer) => {
                (left, right, equations.width(left), (1, equations.width(right)))
            }
            _ => (left, right, shape(left).0, shape(right)),
        };
        let out = self.places.of(target(self.idioms, product));
        let left = self.read(left, &[out.base]);
        let bias = match self.idioms.of(product) {
            Idiom::Biased { bias, .. } => Some(self.read(bias, &[out.base])),
            _ => None,
        };
        let is_in_pieces = self.idioms.of(right) == Idiom::Pieces;
        let pieces = if is_in_pieces { equations.operands(right) } else { &[right] };
        let piece = |&piece: &Var| (self.read(piece, &[out.base]), equations.width(piece) / n);
        let right = pieces.iter().map(piece).collect();
        self.steps.push(CellStep::MatMul { left, right, bias, m, k, n, out });
    }

    /// Copies the parts of a concatenation that were not computed in place.
    fn concatenation(&mut self, var: Var) {
        if self.idioms.of(var) == Idiom::Pieces {
            return;
        }
        let mut out = self.places.of(var);
        for &part in self.equations.operands(var) {
            let (from, width) = (self.places.of(part), self.equations.width(part));
            if from != out {
                let from = self.apart((from, width), part, &[out.base]);
                let why = Why::Concatenated(var);
                self.move_by(CellStep::copy(from, width, out), part, why);
            }
            out.offset += width;
        }
    }

    /// Copies returned variables into the output row, unless they are stored there.
    fn return_elsewhere(&mut self) {
        let outputs = self.equations.cell.outputs().iter().zip(&self.equations.output().offsets);
        for (&var, &offset) in outputs {
            let out = Place { base: Base::Output, offset };
            if self.places.of(var) != out {
                let (from, width) = (self.read(var, &[Base::Output]), self.equations.width(var));
                self.move_by(CellStep::copy(from, width, out), var, Why::Returned);
            }
        }
    }
}
