//! Element-wise programs: what a cell does to its rows between and after its products.

use super::math::Function;

/// A value inside a program: the result of one of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u16);

impl Value {
    /// The index of the instruction that computes it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation on rows of the program's width, element by element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// The next row of an input.
    Input(u16),
    /// The same number everywhere.
    Constant(f32),
    /// `a + b`
    Add(Value, Value),
    /// `a - b`
    Subtract(Value, Value),
    /// `a · b`
    Multiply(Value, Value),
    /// `a / b`
    Divide(Value, Value),
    /// `-x`
    Negate(Value),
    /// `x · factor`
    Scale(Value, f32),
    /// A function of each element.
    Apply(Function, Value),
}

impl Instruction {
    /// The values that it reads.
    pub fn operands(self) -> impl Iterator<Item = Value> {
        let (a, b) = match self {
            Instruction::Input(_) | Instruction::Constant(_) => (None, None),
            Instruction::Negate(x) | Instruction::Scale(x, _) | Instruction::Apply(_, x) => {
                (Some(x), None)
            }
            Instruction::Add(a, b)
            | Instruction::Subtract(a, b)
            | Instruction::Multiply(a, b)
            | Instruction::Divide(a, b) => (Some(a), Some(b)),
        };
        a.into_iter().chain(b)
    }
}

/// Instructions in an order in which operands precede their users, and the values to write out.
///
/// Built by pushing: each method appends an instruction and returns its value. Nothing is simplified or reordered, and a
/// multiplication is never fused with an addition: a program's result is that of its instructions, one by one.
///
/// ```
/// use edbatch_runtime::kernels::{Function, Program};
/// let mut highway = Program::new();
/// let [gate, new, old] = highway.inputs();
/// let open = highway.apply(Function::Sigma, gate);
/// let one = highway.constant(1.0);
/// let closed = highway.subtract(one, open);
/// let (kept, added) = (highway.multiply(closed, old), highway.multiply(open, new));
/// let sum = highway.add(kept, added);
/// highway.output(sum);
/// assert_eq!((highway.instructions().len(), highway.outputs()), (9, &[sum][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    instructions: Vec<Instruction>,
    outputs: Vec<Value>,
    inputs: u16,
}

impl Program {
    /// An empty program.
    pub fn new() -> Program {
        Program::default()
    }

    /// The instructions, operands before users.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The values that are written out, in the order of the output rows.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The number of inputs.
    pub fn input_count(&self) -> usize {
        self.inputs as usize
    }

    /// Another input.
    pub fn input(&mut self) -> Value {
        self.inputs += 1;
        self.push(Instruction::Input(self.inputs - 1))
    }

    /// N more inputs.
    pub fn inputs<const N: usize>(&mut self) -> [Value; N] {
        [(); N].map(|()| self.input())
    }

    /// The same number everywhere.
    pub fn constant(&mut self, x: f32) -> Value {
        self.push(Instruction::Constant(x))
    }

    /// `a + b`
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.push(Instruction::Add(a, b))
    }

    /// `a - b`
    pub fn subtract(&mut self, a: Value, b: Value) -> Value {
        self.push(Instruction::Subtract(a, b))
    }

    /// `a · b`
    pub fn multiply(&mut self, a: Value, b: Value) -> Value {
        self.push(Instruction::Multiply(a, b))
    }

    /// `a / b`
    pub fn divide(&mut self, a: Value, b: Value) -> Value {
        self.push(Instruction::Divide(a, b))
    }

    /// `-x`
    pub fn negate(&mut self, x: Value) -> Value {
        self.push(Instruction::Negate(x))
    }

    /// `x · factor`
    pub fn scale(&mut self, x: Value, factor: f32) -> Value {
        self.push(Instruction::Scale(x, factor))
    }

    /// A function of each element.
    pub fn apply(&mut self, function: Function, x: Value) -> Value {
        self.push(Instruction::Apply(function, x))
    }

    /// Writes a value to the next output.
    ///
    /// # Panics
    ///
    /// If the value is another program's.
    pub fn output(&mut self, value: Value) {
        assert!(value.index() < self.instructions.len(), "{value:?} is no value of this program");
        self.outputs.push(value);
    }

    /// Appends an instruction.
    ///
    /// # Panics
    ///
    /// If an operand is another program's.
    fn push(&mut self, instruction: Instruction) -> Value {
        for operand in instruction.operands() {
            assert!(
                operand.index() < self.instructions.len(),
                "{operand:?} is no value of this program"
            );
        }
        let value = Value(
            u16::try_from(self.instructions.len())
                .expect("a cell has less than 65536 instructions"),
        );
        self.instructions.push(instruction);
        value
    }
}
