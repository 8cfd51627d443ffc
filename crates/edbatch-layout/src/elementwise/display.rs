//! Prints element-wise programs in infix notation.

use std::fmt;

use edbatch_graph::Binary;

use super::{Assignment, Elementwise, Form, Operation, Register};

/// `r3 = tanh(r0 + r1); r2 = r3 * r1`
impl fmt::Display for Elementwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, assignment) in self.assignments.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            write!(f, "{assignment}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.operands;
        write!(f, "{} = ", self.result)?;
        match self.operation {
            Operation::Copy => write!(f, "{a}"),
            Operation::Binary(Binary::Add) => write!(f, "{a} + {b}"),
            Operation::Binary(Binary::Sub) => write!(f, "{a} - {b}"),
            Operation::Binary(Binary::Mul) => write!(f, "{a} * {b}"),
            Operation::Binary(Binary::Div) => write!(f, "{a} / {b}"),
            Operation::Binary(Binary::Maximum) => write!(f, "max({a}, {b})"),
            Operation::Binary(Binary::Minimum) => write!(f, "min({a}, {b})"),
            Operation::Larger => write!(f, "larger({a}, {b})"),
            Operation::Neg => write!(f, "-{a}"),
            Operation::Slope(slope) => write!(f, "{slope} {a} {b}"),
            Operation::SlopeOfProduct(slope) => write!(f, "{slope} ({a} * {b}) {c}"),
            Operation::Scale(factor) => write!(f, "{factor} {a}"),
            Operation::ScaledSum(factor) => write!(f, "{factor} ({a} + {b})"),
            Operation::AddProduct => write!(f, "{a} * {b} + {c}"),
            Operation::SumOfProducts => write!(f, "{a} * {b} + {c} * {d}"),
            Operation::Apply(form, function) => match form {
                Form::Plain => write!(f, "{function} {a}"),
                Form::OfSum => write!(f, "{function}({a} + {b})"),
                Form::OfSums => write!(f, "{function}({a} + {b} + {c})"),
                Form::Times => write!(f, "{function}({a}) * {b}"),
                Form::OfSumTimes => write!(f, "{function}({a} + {b}) * {c}"),
                Form::Between => write!(f, "{c} + {function}({a}) * ({b} - {c})"),
                Form::OfSumBetween => write!(f, "{d} + {function}({a} + {b}) * ({c} - {d})"),
            },
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}
