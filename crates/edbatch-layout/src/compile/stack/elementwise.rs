//! Schedules element-wise operations: as late as other operations allow, grouped by width.

use edbatch_graph::Var;

use super::super::idioms::Idiom;
use super::{Group, Order};

impl Order<'_> {
    /// Broadcasts the ready operands of an element-wise operation that have fewer elements than its
    /// result.
    pub(super) fn expand_operands(&mut self, var: Var) {
        for &operand in self.equations.operands(var) {
            if self.is_ready(operand) && self.must_expand(operand, var) {
                self.run(Group::Expand(operand, self.equations.shape(var)));
            }
        }
    }

    /// Returns true if an operand of an element-wise operation must still be broadcast.
    fn must_expand(&self, operand: Var, reader: Var) -> bool {
        self.equations.width(operand) != self.equations.width(reader)
            && !self.expanded.contains(&(operand, self.equations.shape(reader)))
    }

    /// Runs the element-wise operations that an operation of another sort or a broadcast waits for;
    /// all of them if none waits.
    pub(super) fn run_elementwise(&mut self) {
        let (awaited, is_waiting) = self.awaited();
        let mut run: Vec<Var> = Vec::new();
        for var in self.equations.vars() {
            let wanted = awaited[var.index()] || !is_waiting;
            if !self.is_ready(var) && wanted && self.can_fuse(var, &run) {
                run.push(var);
            }
        }
        while let Some(&first) = run.first() {
            let width = self.equations.width(first);
            let (same, rest) = run.into_iter().partition(|&var| self.equations.width(var) == width);
            run = rest;
            self.run(Group::Elementwise(same));
        }
    }

    /// Returns, for each variable, true if a barrier waits for it; and true if there is a barrier.
    /// A barrier is an operation that is not element-wise or must still broadcast an operand.
    fn awaited(&self) -> (Vec<bool>, bool) {
        let mut awaited = vec![false; self.equations.len()];
        let mut is_waiting = false;
        for var in self.equations.vars().rev().filter(|&var| !self.is_ready(var)) {
            let barrier = !self.equations.op(var).is_elementwise() || self.expands(var);
            is_waiting |= barrier;
            if barrier || awaited[var.index()] {
                for operand in self.equations.operands(var) {
                    awaited[operand.index()] = true;
                }
            }
        }
        (awaited, is_waiting)
    }

    /// Returns true if the operation has an operand that must still be broadcast.
    fn expands(&self, var: Var) -> bool {
        self.equations.op(var).is_elementwise()
            && self.equations.operands(var).iter().any(|&operand| self.must_expand(operand, var))
    }

    fn can_fuse(&self, var: Var, run: &[Var]) -> bool {
        let is_sum = matches!(self.idioms.of(var), Idiom::Sum { .. } | Idiom::PartialSum { .. });
        let readable = |operand: &Var| self.is_ready(*operand) || run.contains(operand);
        self.equations.op(var).is_elementwise()
            && !is_sum
            && !self.expands(var)
            && self.equations.operands(var).iter().all(readable)
    }
}
