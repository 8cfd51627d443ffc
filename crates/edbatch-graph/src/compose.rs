//! Functions made of other operations, for equations in Rust and in Python.

use crate::{Binary, CellError, Function, Op, Trace, Var};

impl Trace {
    /// The absolute value, max(x, -x).
    ///
    /// # Errors
    /// Like [`push`](Self::push), as for all functions here.
    pub fn abs(&mut self, x: Var) -> Result<Var, CellError> {
        let negative = self.push(Op::Neg, &[x])?;
        self.push(Binary::Maximum, &[x, negative])
    }

    /// x · sigmoid x, also known as swish.
    ///
    /// # Errors
    /// See [`abs`](Self::abs).
    pub fn silu(&mut self, x: Var) -> Result<Var, CellError> {
        let gate = self.push(Function::Sigmoid, &[x])?;
        self.push(Binary::Mul, &[x, gate])
    }

    /// The Gaussian error linear unit, x/2 + x/2 · erf(x/√2).
    ///
    /// # Errors
    /// See [`abs`](Self::abs).
    pub fn gelu(&mut self, x: Var) -> Result<Var, CellError> {
        let half = self.push(Op::Scale(0.5), &[x])?;
        let scaled = self.push(Op::Scale(std::f32::consts::FRAC_1_SQRT_2), &[x])?;
        let erf = self.push(Function::Erf, &[scaled])?;
        let product = self.push(Binary::Mul, &[half, erf])?;
        self.push(Binary::Add, &[half, product])
    }

    /// max(x, slope · x).
    ///
    /// # Errors
    /// If the slope is not from 0 to 1.
    pub fn leaky_relu(&mut self, x: Var, slope: f32) -> Result<Var, CellError> {
        if !(0.0..=1.0).contains(&slope) {
            let expected = format!("a slope from 0 to 1, got {slope}");
            return Err(self.error("leaky_relu", &[self.shape(x)], &expected));
        }
        let scaled = self.push(Op::Scale(slope), &[x])?;
        self.push(Binary::Maximum, &[x, scaled])
    }
}
