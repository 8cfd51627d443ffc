//! Gradients of operations on whole rows: softmax, norms, inner products.

use super::super::Derivation;
use crate::{AdjointOp, Binary, Function, Normalization, Op, Shape, Var};
use Binary::{Add, Div, Mul, Sub};

impl Derivation<'_> {
    /// Differentiates a softmax or a norm.
    pub(super) fn normalization(&mut self, by: Normalization, a: Var, result: Var, g: Var) {
        let fold = AdjointOp::Fold(per_row(self.cell.instruction(result).shape));
        match by {
            Normalization::Softmax => {
                let y = self.value(result);
                let product = self.push(Mul, &[g, y]);
                let sum = self.push(fold, &[product]);
                let share = self.push(Mul, &[y, sum]);
                self.term_of(a, Sub, &[product, share]);
            }
            Normalization::LogSoftmax => {
                let y = self.value(result);
                let softmax = self.push(Function::Exp, &[y]);
                let sum = self.push(fold, &[g]);
                let share = self.push(Mul, &[softmax, sum]);
                self.term_of(a, Sub, &[g, share]);
            }
            Normalization::LayerNorm(epsilon) => {
                let x = self.value(a);
                let mean = self.row_mean(x);
                let centred = self.push(Sub, &[x, mean]);
                let centre = self.row_mean(g);
                let g = self.push(Sub, &[g, centre]);
                self.norm(a, centred, epsilon, g);
            }
            Normalization::RmsNorm(epsilon) => {
                let x = self.value(a);
                self.norm(a, x, epsilon, g);
            }
        }
    }

    /// Differentiates the inner products of rows.
    pub(super) fn dot(&mut self, a: Var, b: Var, g: Var) {
        for (operand, other) in [(a, b), (b, a)] {
            if self.needs[operand.index()] {
                let other = self.value(other);
                self.term_of(operand, Mul, &[other, g]);
            }
        }
    }

    /// Differentiates y = x / r with r = √(mean x² + ε), by rows: x̄ = (ḡ - y · mean(ḡ ∘ y)) / r.
    fn norm(&mut self, operand: Var, x: Var, epsilon: f32, g: Var) {
        if !self.needs[operand.index()] {
            return;
        }
        let square = self.push(Mul, &[x, x]);
        let variance = self.row_mean(square);
        let epsilon = self.push_source(Op::Constant(epsilon), self.shape(variance));
        let sum = self.push(Add, &[variance, epsilon]);
        let r = self.push(Function::Sqrt, &[sum]);
        let y = self.push(Div, &[x, r]);
        let product = self.push(Mul, &[g, y]);
        let mean = self.row_mean(product);
        let share = self.push(Mul, &[y, mean]);
        let difference = self.push(Sub, &[g, share]);
        self.term_of(operand, Div, &[difference, r]);
    }

    /// Returns the mean of a vector, or of each row of a matrix.
    fn row_mean(&mut self, x: Var) -> Var {
        let shape = self.shape(x);
        let fold = per_row(shape);
        let sum = self.push(AdjointOp::Fold(fold), &[x]);
        self.push(Op::Scale((fold.elements() as f64 / shape.elements() as f64) as f32), &[sum])
    }
}

/// Returns the shape of one number for a vector, or for each row of a matrix.
fn per_row(shape: Shape) -> Shape {
    match shape {
        Shape::Vector(_) => Shape::Vector(1),
        Shape::Matrix(rows, _) => Shape::Vector(rows),
    }
}
