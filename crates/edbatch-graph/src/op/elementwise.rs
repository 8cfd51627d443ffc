//! Functions of one element and operations on two, with their definitions.

use super::named::named;

named! {
    /// A function of each element. NaN gives NaN.
    pub enum Function {
        /// The logistic function `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// `max(x, 0)`.
        Relu = "relu",
        /// The exponential.
        Exp = "exp",
        /// The natural logarithm.
        Log = "log",
        /// The square root.
        Sqrt = "sqrt",
        /// The error function, `2/√π ∫ exp(-t²) dt` from 0 to x.
        Erf = "erf",
    }
}

named! {
    /// An operation on two tensors, element by element. A vector of one element, or a vector with
    /// an element for each row of a matrix, is broadcast.
    pub enum Binary {
        /// `a + b`
        Add = "add",
        /// `a - b`
        Sub = "sub",
        /// `a · b`
        Mul = "mul",
        /// `a / b`
        Div = "div",
        /// The larger of `a` and `b`: NaN if one is NaN, `a` if they are equal.
        Maximum = "maximum",
        /// The smaller of `a` and `b`: NaN if one is NaN, `a` if they are equal.
        Minimum = "minimum",
    }
}

impl Function {
    /// Returns the function's value in double precision: its definition, for tests and references.
    #[must_use]
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Relu if x.is_nan() => x,
            Self::Relu => x.max(0.0),
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::Sqrt => x.sqrt(),
            Self::Erf => libm::erf(x),
        }
    }

    /// Returns true if gradients read the function's result, so that a call of training saves it.
    /// The gradient of the others is computed from the operand.
    #[must_use]
    pub fn is_saved(self) -> bool {
        self != Self::Erf
    }
}

impl Binary {
    /// Returns the result for two elements in double precision: the operation's definition, for
    /// tests and references.
    #[must_use]
    pub fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Maximum if b.is_nan() || a < b => b,
            Self::Minimum if b.is_nan() || b < a => b,
            Self::Maximum | Self::Minimum => a,
        }
    }

    /// Returns true if exchanged operands give the same bits.
    #[must_use]
    pub fn commutes(self) -> bool {
        matches!(self, Self::Add | Self::Mul)
    }
}
