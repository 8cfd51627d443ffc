//! Gradients of functions and of operations on two tensors, element by element.

use super::super::Derivation;
use crate::{AdjointOp, Binary, Function, Op, Slope, Var};
use Binary::{Add, Div, Maximum, Minimum, Mul, Sub};

impl Derivation<'_> {
    /// Differentiates y = f(x), from y where [`Function::is_saved`], else from x.
    pub(super) fn function(&mut self, f: Function, operand: Var, result: Var, g: Var) {
        match f {
            Function::Sigmoid => self.slope(operand, Slope::Sigmoid, result, g),
            Function::Tanh => self.slope(operand, Slope::Tanh, result, g),
            Function::Relu => self.slope(operand, Slope::Relu, result, g),
            Function::Exp => {
                let y = self.value(result);
                self.term_of(operand, Mul, &[g, y]);
            }
            Function::Log => {
                let x = self.value(operand);
                self.term_of(operand, Div, &[g, x]);
            }
            Function::Sqrt => {
                let y = self.value(result);
                let twice = self.push(Op::Scale(2.0), &[y]);
                self.term_of(operand, Div, &[g, twice]);
            }
            Function::Erf => {
                let x = self.value(operand);
                let square = self.push(Mul, &[x, x]);
                let negative = self.push(Op::Neg, &[square]);
                let exp = self.push(Function::Exp, &[negative]);
                let slope = self.push(Op::Scale(std::f32::consts::FRAC_2_SQRT_PI), &[exp]);
                self.term_of(operand, Mul, &[g, slope]);
            }
        }
    }

    fn slope(&mut self, operand: Var, slope: Slope, result: Var, g: Var) {
        let y = self.value(result);
        self.term_of(operand, AdjointOp::Slope(slope), &[g, y]);
    }

    /// Differentiates an operation on two tensors.
    pub(super) fn binary(&mut self, binary: Binary, [a, b]: [Var; 2], result: Var, g: Var) {
        match binary {
            Add => [a, b].into_iter().for_each(|operand| self.term(operand, g)),
            Sub => {
                self.term(a, g);
                self.term_of(b, Op::Neg, &[g]);
            }
            Mul => {
                for (operand, other) in [(a, b), (b, a)] {
                    if self.needs[operand.index()] {
                        let other = self.value(other);
                        self.term_of(operand, Mul, &[g, other]);
                    }
                }
            }
            Div => {
                let b_value = self.value(b);
                let quotient = self.push(Div, &[g, b_value]);
                self.term(a, quotient);
                if self.needs[b.index()] {
                    let y = self.value(result);
                    let product = self.push(Mul, &[quotient, y]);
                    self.term_of(b, Op::Neg, &[product]);
                }
            }
            Maximum | Minimum => {
                for (operand, other) in [(a, b), (b, a)] {
                    if self.needs[operand.index()] {
                        let (larger, smaller) = match binary {
                            Maximum => (self.value(operand), self.value(other)),
                            _ => (self.value(other), self.value(operand)),
                        };
                        let share = self.push(AdjointOp::Larger, &[larger, smaller]);
                        self.term_of(operand, Mul, &[g, share]);
                    }
                }
            }
        }
    }
}
