//! What is neither a product nor element-wise.

use edbatch_graph::Op;

use super::{Compiler, Var};
use crate::cell_plan::{CellStep, Place};

impl Compiler<'_> {
    pub(super) fn run_all_others(&mut self) {
        for var in self.vars() {
            if self.is_ready(var) {
                continue;
            }
            if self.op(var).is_elementwise() {
                if !self.is_biased(var) {
                    self.expand_operands(var);
                }
            } else if self.weight(var).is_none() && self.all_ready(var) && self.bias_is_ready(var) {
                self.run_other(var);
            }
        }
    }

    pub(super) fn run_other(&mut self, var: Var) {
        let operands = self.operands(var);
        if let Op::Slice { start, .. } = self.op(var) {
            let mut place = self.at(operands[0]);
            place.offset += start * self.shape(operands[0]).rows_and_columns().1 as u32;
            self.place[var.index()] = Some(place);
            self.ready[var.index()] = true;
            return;
        }
        if self.op(var) == Op::MatMul {
            return self.run_matrix_product(var);
        }
        self.ready[var.index()] = true;
        if self.in_pieces.contains(&var) {
            return;
        }
        let out = self.place_result(var);
        let width = self.width(var);
        if self.op(var) == Op::Concat {
            return self.copy_parts(operands, out);
        }
        let from: Vec<Place> = operands
            .iter()
            .map(|&operand| self.apart(self.at(operand), self.width(operand), &[out.base]))
            .collect();
        let step = match self.op(var) {
            Op::Reduce { port, field, by } => {
                let from = self.field_offset(port, field);
                CellStep::Reduce { port, from, width, by, out }
            }
            Op::Constant(value) => CellStep::Fill { value, width, out },
            Op::Softmax | Op::LogSoftmax => {
                let logarithm = self.op(var) == Op::LogSoftmax;
                CellStep::Softmax { from: from[0], width, out, logarithm }
            }
            Op::Transpose => {
                let (rows, columns) = self.shape(operands[0]).rows_and_columns();
                let (rows, columns) = (rows as u32, columns as u32);
                CellStep::Transpose { from: from[0], rows, columns, out }
            }
            op => unreachable!("{op} is run elsewhere"),
        };
        self.steps.push(step);
    }

    pub(super) fn copy_parts(&mut self, parts: &[Var], mut out: Place) {
        for &part in parts {
            let (from, width) = (self.at(part), self.width(part));
            if from != out {
                let from = self.apart(from, width, &[out.base]);
                self.steps.push(CellStep::Copy { from, width, out });
            }
            out.offset += width;
        }
    }
}
