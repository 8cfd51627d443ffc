//! From a program to the steps in which it is run: instructions fused where that saves passes over L1, values placed.

use super::{
    math::Function,
    program::{Instruction, Program, Value},
};

/// A program's steps and what they need.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Places of one chunk each for what is neither input nor output.
    pub(super) slots: usize,
}

/// `places[destination] = operation(places[sources])`
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) operation: Operation,
    /// As many as the operation has operands, then anything.
    pub(super) sources: [Place; 4],
    pub(super) destination: Place,
}

/// What a step computes of its operands a, b, c, d. Fusing changes no bit: the same roundings in the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Copy,
    Constant(f32),
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Scale(f32),
    /// (a + b) · factor
    ScaledSum(f32),
    /// a·b + c
    AddProduct,
    /// a·b + c·d
    SumOfProducts,
    Apply(Form, Function),
}

/// Where a function f stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// f(a)
    Plain,
    /// f(a + b)
    OfSum,
    /// f((a + b) + c)
    OfSums,
    /// f(a) · b
    Times,
    /// f(a + b) · c
    OfSumTimes,
    /// c + f(a) · (b - c)
    Between,
    /// d + f(a + b) · (c - d)
    OfSumBetween,
}

/// Where the elements of a value lie in a chunk: an index into its table of pointers, inputs first, then outputs, then
/// slots.
pub(super) type Place = u16;

/// The steps of a program.
pub(super) fn steps(program: &Program) -> Steps {
    place(program, fuse(program))
}

/// One or several instructions that run as one step.
struct Fused {
    operation: Operation,
    operands: Vec<Value>,
    /// The instruction whose value it computes.
    at: usize,
}

/// Lets each instruction take in those of its operands that nothing else reads, last instructions first.
fn fuse(program: &Program) -> Vec<Fused> {
    let instructions = program.instructions();
    let mut readers = vec![0; instructions.len()];
    let operands = instructions.iter().flat_map(|instruction| instruction.operands());
    for value in operands.chain(program.outputs().iter().copied()) {
        readers[value.index()] += 1;
    }
    let own = |value: Value| (readers[value.index()] == 1).then(|| instructions[value.index()]);
    let mut taken_in = vec![false; instructions.len()];
    let mut fused = vec![];
    for at in (0..instructions.len()).rev() {
        if taken_in[at] || matches!(instructions[at], Instruction::Input(_)) {
            continue;
        }
        let (operation, operands, inner) = fused_step(instructions[at], own);
        for value in inner {
            taken_in[value.index()] = true;
        }
        fused.push(Fused { operation, operands, at });
    }
    fused.reverse();
    fused
}

/// An operation, its operands, and the instructions that it takes in.
type Fusion = (Operation, Vec<Value>, Vec<Value>);

/// The step of an instruction; `own` is the instruction of a value that nothing else reads.
fn fused_step(instruction: Instruction, own: impl Fn(Value) -> Option<Instruction>) -> Fusion {
    use Instruction as I;
    match instruction {
        I::Apply(f, x) => match own(x) {
            Some(I::Add(a, b)) => match own(a) {
                Some(I::Add(p, q)) => {
                    (Operation::Apply(Form::OfSums, f), vec![p, q, b], vec![x, a])
                }
                _ => (Operation::Apply(Form::OfSum, f), vec![a, b], vec![x]),
            },
            _ => (Operation::Apply(Form::Plain, f), vec![x], vec![]),
        },
        I::Multiply(a, b) => match (own(a), own(b)) {
            (_, Some(I::Apply(f, x))) => {
                gate(f, x, [Form::Times, Form::OfSumTimes], &[a], &[b], own)
            }
            (Some(I::Apply(f, x)), _) => {
                gate(f, x, [Form::Times, Form::OfSumTimes], &[b], &[a], own)
            }
            _ => (Operation::Multiply, vec![a, b], vec![]),
        },
        I::Add(a, b) => match (own(a), own(b)) {
            (Some(I::Multiply(p, q)), Some(I::Multiply(r, s))) => {
                (Operation::SumOfProducts, vec![p, q, r, s], vec![a, b])
            }
            (_, Some(I::Multiply(p, q))) => match (own(p), own(q)) {
                (Some(I::Apply(f, x)), Some(I::Subtract(c, d))) if d == a => {
                    let forms = [Form::Between, Form::OfSumBetween];
                    gate(f, x, forms, &[c, d], &[b, p, q], own)
                }
                _ => (Operation::AddProduct, vec![p, q, a], vec![b]),
            },
            (Some(I::Multiply(p, q)), _) => (Operation::AddProduct, vec![p, q, b], vec![a]),
            _ => (Operation::Add, vec![a, b], vec![]),
        },
        I::Subtract(a, b) => (Operation::Subtract, vec![a, b], vec![]),
        I::Divide(a, b) => (Operation::Divide, vec![a, b], vec![]),
        I::Negate(x) => (Operation::Negate, vec![x], vec![]),
        I::Scale(x, factor) => match own(x) {
            Some(I::Add(a, b)) => (Operation::ScaledSum(factor), vec![a, b], vec![x]),
            _ => (Operation::Scale(factor), vec![x], vec![]),
        },
        I::Constant(x) => (Operation::Constant(x), vec![], vec![]),
        I::Input(_) => unreachable!("inputs are read where they lie"),
    }
}

/// f(x) inside of something that also reads `others` and takes in `inner`; the second form is that of a sum x.
fn gate(
    f: Function,
    x: Value,
    [of_value, of_sum]: [Form; 2],
    others: &[Value],
    inner: &[Value],
    own: impl Fn(Value) -> Option<Instruction>,
) -> Fusion {
    match own(x) {
        Some(Instruction::Add(a, b)) => {
            (Operation::Apply(of_sum, f), [&[a, b], others].concat(), [inner, &[x]].concat())
        }
        _ => (Operation::Apply(of_value, f), [&[x], others].concat(), inner.to_vec()),
    }
}

/// Gives each value its place: an output, or a slot that is free again after the value's last reader.
fn place(program: &Program, fused: Vec<Fused>) -> Steps {
    let (inputs, outputs) = (program.input_count(), program.outputs().len());
    let mut last_reader = vec![0; program.instructions().len()];
    for (step, fused) in fused.iter().enumerate() {
        for operand in &fused.operands {
            last_reader[operand.index()] = step;
        }
    }
    let mut slots = Slots { first: inputs + outputs, count: 0, free: vec![] };
    let mut places: Vec<Place> = vec![0; program.instructions().len()];
    for (at, instruction) in program.instructions().iter().enumerate() {
        if let Instruction::Input(input) = instruction {
            places[at] = *input;
        }
    }
    let mut steps = vec![];
    for (step, Fused { operation, operands, at }) in fused.into_iter().enumerate() {
        let mut sources = [0; 4];
        for (source, operand) in sources.iter_mut().zip(&operands) {
            *source = places[operand.index()];
        }
        // A step reads a vector before it writes it, so its result may take the slot of an operand that ends here.
        let mut ended: Vec<_> =
            operands.into_iter().filter(|operand| last_reader[operand.index()] == step).collect();
        ended.sort_unstable();
        ended.dedup();
        for operand in ended {
            slots.give_back(places[operand.index()]);
        }
        let destination = match program.outputs().iter().position(|value| value.index() == at) {
            Some(output) => (inputs + output) as Place,
            None => slots.take(),
        };
        places[at] = destination;
        steps.push(Step { operation, sources, destination });
    }
    for (output, value) in program.outputs().iter().enumerate() {
        let (source, destination) = (places[value.index()], (inputs + output) as Place);
        if source != destination {
            steps.push(Step { operation: Operation::Copy, sources: [source; 4], destination });
        }
    }
    Steps { steps, inputs, outputs, slots: slots.count }
}

/// Slots handed out while steps are made.
struct Slots {
    first: usize,
    count: usize,
    free: Vec<Place>,
}

impl Slots {
    fn take(&mut self) -> Place {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            Place::try_from(self.first + self.count - 1)
                .expect("a program has less than 65536 places")
        })
    }

    /// Takes a slot back; inputs and outputs are nobody's.
    fn give_back(&mut self, place: Place) {
        if place as usize >= self.first {
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_and_a_state_are_one_step_each() {
        let mut program = Program::new();
        let [x, bias, f, c, i] = program.inputs();
        let sum = program.add(x, bias);
        let gate = program.apply(Function::Tanh, sum);
        let (kept, added) = (program.multiply(f, c), program.multiply(i, gate));
        let next = program.add(kept, added);
        let tanh = program.apply(Function::Tanh, next);
        let h = program.multiply(f, tanh);
        program.output(h);
        program.output(next);
        let steps = steps(&program);
        let operations: Vec<_> = steps.steps.iter().map(|step| step.operation).collect();
        let tanh = |form| Operation::Apply(form, Function::Tanh);
        assert_eq!(operations, [tanh(Form::OfSum), Operation::SumOfProducts, tanh(Form::Times)]);
        assert_eq!(steps.slots, 1);
    }

    #[test]
    fn a_gate_between_two_states_is_one_step() {
        let mut program = Program::new();
        let [x, bias, h, c] = program.inputs();
        let sum = program.add(x, bias);
        let z = program.apply(Function::Sigma, sum);
        let difference = program.subtract(h, c);
        let moved = program.multiply(z, difference);
        let next = program.add(c, moved);
        program.output(next);
        let steps = steps(&program);
        let operations: Vec<_> = steps.steps.iter().map(|step| step.operation).collect();
        assert_eq!(operations, [Operation::Apply(Form::OfSumBetween, Function::Sigma)]);
        assert_eq!(steps.steps[0].sources, [0, 1, 2, 3]);
    }

    #[test]
    fn what_others_read_is_not_taken_in() {
        let mut program = Program::new();
        let [a, b] = program.inputs();
        let sum = program.add(a, b);
        let y = program.apply(Function::Relu, sum);
        program.output(y);
        program.output(sum);
        assert_eq!(steps(&program).steps.len(), 2);
    }
}
