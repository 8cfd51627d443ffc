//! Element-wise operations: fused into one program per width.

use edbatch_graph::Op;

use super::{Compiler, Var};
use crate::cell_plan::{Base, CellStep, Place};
use crate::elementwise::{Elementwise, Register};

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
        let width = self.width(run[0]);
        let mut inputs: Vec<Place> = Vec::new();
        for &var in run {
            let given = self.operands(var).iter().filter(|&operand| !run.contains(operand));
            for place in given.map(|&operand| self.operand_place(operand, var)) {
                if !inputs.contains(&place) {
                    inputs.push(place);
                }
            }
        }
        let register = |operand: Var, user: Var| {
            let index = match run.iter().position(|&other| other == operand) {
                Some(index) => inputs.len() + index,
                None => {
                    let place = self.operand_place(operand, user);
                    inputs.iter().position(|&p| p == place).expect("collected above")
                }
            };
            Register(index as u16)
        };
        let op = |&var: &Var| {
            let operands = self.operands(var).iter().map(|&operand| register(operand, var));
            (self.op(var), operands.collect())
        };
        let ops: Vec<(Op, Vec<Register>)> = run.iter().map(op).collect();
        let mut outputs: Vec<(Place, Register)> = Vec::new();
        for (index, &var) in run.iter().enumerate() {
            let read_later = self.users[var.index()].iter().any(|user| !run.contains(user));
            if read_later || self.cell.outputs().contains(&var) {
                let register = Register((inputs.len() + index) as u16);
                outputs.push((self.place_result(var), register));
            }
            self.ready[var.index()] = true;
        }
        outputs.sort_unstable();
        let (outputs, registers): (Vec<Place>, Vec<Register>) = outputs.into_iter().unzip();
        let program = Elementwise::new(inputs.len() as u16, &ops, &registers);
        let written: Vec<Base> = outputs.iter().map(|place| place.base).collect();
        for input in &mut inputs {
            *input = self.apart(*input, width, &written);
        }
        self.steps.push(CellStep::Elementwise { width, inputs, outputs, program });
    }

    pub(super) fn operand_place(&self, operand: Var, user: Var) -> Place {
        match self.expanded.get(&(operand, self.shape(user))) {
            Some(&place) if self.width(operand) != self.width(user) => place,
            _ => self.at(operand),
        }
    }
}
