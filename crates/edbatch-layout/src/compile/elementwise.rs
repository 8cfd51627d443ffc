//! Element-wise operations: fused into one program per width.

use edbatch_graph::Op;

use super::{Compiler, Var};
use crate::cell_plan::{Base, CellStep, Elementwise, Place, Scalar};

impl Compiler<'_> {
    /// An operand with fewer elements than the result is repeated before an element-wise
    /// operation reads it.
    pub(super) fn expand_operands(&mut self, var: Var) {
        let shape = self.shape(var);
        for &operand in self.operands(var) {
            let narrow = self.width(operand) != self.width(var);
            if !narrow || !self.is_ready(operand) || self.expanded.contains_key(&(operand, shape)) {
                continue;
            }
            let (from, out) = (self.at(operand), self.allot(self.width(var)));
            let rows = self.width(operand);
            let columns = self.width(var) / rows;
            self.steps.push(CellStep::Expand { from, rows, columns, out });
            self.expanded.insert((operand, shape), out);
        }
    }

    /// Runs the element-wise operations that something else waits for; all, if nothing does.
    pub(super) fn run_elementwise_awaited(&mut self) {
        let mut awaited = vec![false; self.ready.len()];
        let mut waiting = false;
        for var in (0..self.ready.len() as u32).rev().map(Var) {
            let pending = !self.is_ready(var);
            let barrier = pending && (!self.op(var).is_elementwise() || self.expands(var));
            waiting |= barrier;
            if barrier || (pending && awaited[var.index()]) {
                for operand in self.operands(var) {
                    awaited[operand.index()] = true;
                }
            }
        }
        let mut run: Vec<Var> = Vec::new();
        for var in self.vars() {
            let wanted = awaited[var.index()] || !waiting;
            if !self.is_ready(var) && wanted && self.can_fuse(var, &run) {
                run.push(var);
            }
        }
        while let Some(&first) = run.first() {
            let width = self.width(first);
            let (same, rest) = run.into_iter().partition(|&var| self.width(var) == width);
            run = rest;
            self.run_elementwise(&same);
        }
    }

    /// Whether the operation has an operand that has yet to be repeated.
    pub(super) fn expands(&self, var: Var) -> bool {
        self.op(var).is_elementwise()
            && self.operands(var).iter().any(|&operand| {
                self.width(operand) != self.width(var)
                    && !self.expanded.contains_key(&(operand, self.shape(var)))
            })
    }

    pub(super) fn can_fuse(&self, var: Var, run: &[Var]) -> bool {
        self.op(var).is_elementwise()
            && !self.terms_run.contains_key(&var)
            && !self.partial_sums.contains_key(&var)
            && !self.expands(var)
            && self
                .operands(var)
                .iter()
                .all(|&operand| self.is_ready(operand) || run.contains(&operand))
    }

    /// One program over operations of one width, each after its operands.
    pub(super) fn run_elementwise(&mut self, run: &[Var]) {
        let mut program = Elementwise {
            width: self.width(run[0]),
            inputs: Vec::new(),
            instructions: Vec::new(),
            outputs: Vec::new(),
        };
        for &var in run {
            for &operand in self.operands(var) {
                if !run.contains(&operand) {
                    let place = self.operand_place(operand, var);
                    if !program.inputs.contains(&place) {
                        program.inputs.push(place);
                    }
                }
            }
        }
        for &var in run {
            let register = |operand: Var| match run.iter().position(|&other| other == operand) {
                Some(index) => program.inputs.len() + index,
                None => {
                    let place = self.operand_place(operand, var);
                    program.inputs.iter().position(|&p| p == place).expect("collected above")
                }
            } as u16;
            let instruction = scalar(self.op(var), self.operands(var), register);
            program.instructions.push(instruction);
        }
        for (index, &var) in run.iter().enumerate() {
            let read_later = self.users[var.index()].iter().any(|user| !run.contains(user));
            if read_later || self.cell.outputs().contains(&var) {
                let place = self.place_result(var);
                program.outputs.push(((program.inputs.len() + index) as u16, place));
            }
            self.ready[var.index()] = true;
        }
        let written: Vec<Base> = program.outputs.iter().map(|(_, place)| place.base).collect();
        for input in &mut program.inputs {
            *input = self.apart(*input, program.width, &written);
        }
        self.steps.push(CellStep::Elementwise(program));
    }

    pub(super) fn operand_place(&self, operand: Var, user: Var) -> Place {
        match self.expanded.get(&(operand, self.shape(user))) {
            Some(&place) if self.width(operand) != self.width(user) => place,
            _ => self.at(operand),
        }
    }
}

fn scalar(op: Op, operands: &[Var], register: impl Fn(Var) -> u16) -> Scalar {
    let a = register(operands[0]);
    let b = || register(operands[1]);
    match op {
        Op::Add => Scalar::Add(a, b()),
        Op::Sub => Scalar::Sub(a, b()),
        Op::Mul => Scalar::Mul(a, b()),
        Op::Div => Scalar::Div(a, b()),
        Op::Neg => Scalar::Neg(a),
        Op::Scale(s) => Scalar::Scale(a, s),
        Op::Sigmoid => Scalar::Sigmoid(a),
        Op::Tanh => Scalar::Tanh(a),
        Op::Relu => Scalar::Relu(a),
        Op::Exp => Scalar::Exp(a),
        Op::Log => Scalar::Log(a),
        op => unreachable!("{op} is not element-wise"),
    }
}
