//! Element-wise programs: the operations of a cell between and after its products.
//!
//! The compiler writes this form; kernels and source generators read it. Two passes make it from a
//! cell's operations: [`fuse`] and [`registers`].

mod display;
mod fuse;
mod registers;

use edbatch_graph::{Binary, Function, Op, Slope};

/// Element-wise operations over tensors of one width, as a program without branches.
///
/// A register holds a tensor of one call. Inputs have the first registers, then outputs, then
/// temporaries. Output registers may be read after they are written.
///
/// *Invariant*, which unsafe code relies on: an assignment never writes an input, and reads only
/// inputs and registers written before; every output is written.
///
/// ```
/// use edbatch_graph::{Binary, Function};
/// use edbatch_layout::{Elementwise, Register};
///
/// // tanh(x + bias) · gate
/// let [x, bias, gate, sum, tanh, result] = [0, 1, 2, 3, 4, 5].map(Register);
/// let ops = [
///     (Binary::Add.into(), vec![x, bias]),
///     (Function::Tanh.into(), vec![sum]),
///     (Binary::Mul.into(), vec![tanh, gate]),
/// ];
/// let program = Elementwise::new(3, &ops, &[result]);
/// assert_eq!(program.to_string(), "r3 = tanh(r0 + r1) * r2");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Elementwise {
    inputs: u16,
    outputs: u16,
    temporaries: u16,
    assignments: Vec<Assignment>,
}

/// `result = operation(operands)`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assignment {
    /// The operation.
    pub operation: Operation,
    /// Its operands, then entries without meaning.
    pub operands: [Register; 4],
    /// The register of the result.
    pub result: Register,
}

/// A register of an [`Elementwise`] program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(pub u16);

/// An operation on elements of operands a, b, c, d.
///
/// Fusing operations of a cell keeps results bit-identical: each rounds as it would alone, in the
/// same order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operation {
    /// `a`
    Copy,
    /// An operation on a and b.
    Binary(Binary),
    /// 1 if a > b, ½ if they are equal, else 0.
    Larger,
    /// `-a`
    Neg,
    /// `a` times the slope of an activation function whose result is `b`.
    Slope(Slope),
    /// `a · b` times the slope of an activation function whose result is `c`.
    SlopeOfProduct(Slope),
    /// `a · factor`
    Scale(f32),
    /// `(a + b) · factor`
    ScaledSum(f32),
    /// `a · b + c`, with two roundings.
    AddProduct,
    /// `a · b + c · d`, with three roundings.
    SumOfProducts,
    /// A function, with operations on its argument and its result.
    Apply(Form, Function),
}

/// The expression around a function f.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `f(a)`
    Plain,
    /// `f(a + b)`
    OfSum,
    /// `f((a + b) + c)`
    OfSums,
    /// `f(a) · b`
    Times,
    /// `f(a + b) · c`
    OfSumTimes,
    /// `c + f(a) · (b - c)`
    Between,
    /// `d + f(a + b) · (c - d)`
    OfSumBetween,
}

impl Elementwise {
    /// Compiles operations of a cell. In `ops` and `outputs`, registers below `inputs` are the
    /// inputs; the next ones are the results of the operations, in order.
    ///
    /// # Panics
    /// If an operation is not element-wise, if a register is neither an input nor the result of an
    /// earlier operation, or if there are more than 65,535 registers.
    #[must_use]
    pub fn new(inputs: u16, ops: &[(Op, Vec<Register>)], outputs: &[Register]) -> Self {
        let registers = usize::from(inputs) + ops.len() + outputs.len();
        assert!(registers <= usize::from(u16::MAX), "{registers} registers, expected below 65536");
        for (result, (op, operands)) in (usize::from(inputs)..).zip(ops) {
            let earlier = operands.iter().all(|operand| operand.index() < result);
            assert!(earlier, "{op} of {operands:?}, expected registers below {result}");
        }
        let end = usize::from(inputs) + ops.len();
        let computed = outputs.iter().all(|output| output.index() < end);
        assert!(computed, "outputs {outputs:?}, expected registers below {end}");
        registers::assign(inputs, fuse::fuse(inputs, ops, outputs), outputs)
    }

    /// Returns the number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        usize::from(self.inputs)
    }

    /// Returns the number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        usize::from(self.outputs)
    }

    /// Returns the number of temporaries. Each is written before it is read.
    #[must_use]
    pub fn temporaries(&self) -> usize {
        usize::from(self.temporaries)
    }

    /// Returns the assignments, in order.
    #[must_use]
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }

    /// Reorders the outputs: the first one is then the former output `order[0]`.
    pub(crate) fn reorder_outputs(&mut self, order: &[usize]) {
        let outputs = self.inputs()..self.inputs() + self.outputs();
        let moved = |register: &mut Register| {
            if outputs.contains(&register.index()) {
                let old = register.index() - outputs.start;
                let new = order.iter().position(|&from| from == old).expect("a permutation");
                *register = Register((outputs.start + new) as u16);
            }
        };
        for Assignment { operation, operands, result } in &mut self.assignments {
            operands[..operation.operands()].iter_mut().for_each(moved);
            moved(result);
        }
    }
}

impl Assignment {
    /// Returns the registers that are read.
    #[must_use]
    pub fn operands(&self) -> &[Register] {
        &self.operands[..self.operation.operands()]
    }
}

impl Register {
    /// Returns the register as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Operation {
    /// Returns the number of operands.
    #[must_use]
    pub fn operands(self) -> usize {
        match self {
            Self::Copy | Self::Neg | Self::Scale(_) | Self::Apply(Form::Plain, _) => 1,
            Self::Binary(_) | Self::Larger | Self::Slope(_) | Self::ScaledSum(_) => 2,
            Self::AddProduct | Self::SlopeOfProduct(_) => 3,
            Self::SumOfProducts => 4,
            Self::Apply(Form::OfSum | Form::Times, _) => 2,
            Self::Apply(Form::OfSums | Form::OfSumTimes | Form::Between, _) => 3,
            Self::Apply(Form::OfSumBetween, _) => 4,
        }
    }

    /// Returns the number of the cell's operations that are fused into this one.
    #[must_use]
    pub fn ops(self) -> usize {
        match self {
            Self::Copy => 0,
            Self::Binary(_) | Self::Larger | Self::Neg | Self::Slope(_) | Self::Scale(_) => 1,
            Self::ScaledSum(_) | Self::AddProduct | Self::SlopeOfProduct(_) => 2,
            Self::SumOfProducts => 3,
            Self::Apply(form, _) => match form {
                Form::Plain => 1,
                Form::OfSum | Form::Times => 2,
                Form::OfSums | Form::OfSumTimes => 3,
                Form::Between => 4,
                Form::OfSumBetween => 5,
            },
        }
    }
}
