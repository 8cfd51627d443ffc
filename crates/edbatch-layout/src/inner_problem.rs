//! Formulates a cell's batches as an aligned-layout problem.

use edbatch_graph::{Cell, Op, Var};

use crate::aligned::{AlignedBatch, AlignedOperand, Problem};

/// The batches with two or more operations, as a layout problem. Their operands, including inputs
/// and parameters, and their results should be contiguous. A concatenation has no such constraint,
/// because it copies anyway.
pub(crate) struct InnerProblem<'a> {
    /// Variables are numbered in the order of an unplanned layout: arguments and parameters in the
    /// order of their declaration, then results batch by batch.
    pub(crate) problem: Problem,
    /// For each variable of the problem, the variable of the cell.
    pub(crate) vars: Vec<Var>,
    /// For each batch of the problem, its operations.
    pub(crate) positions: Vec<&'a [Var]>,
}

impl<'a> InnerProblem<'a> {
    /// Formulates the problem. `weight` returns the cost of copying an operand, given an operation
    /// of the batch and the operand's variables.
    pub(crate) fn new(
        cell: &Cell,
        batches: &'a [Vec<Var>],
        weight: impl Fn(Var, &[Var]) -> u64,
    ) -> Self {
        let all = (0..cell.instructions().len() as u32).map(Var);
        let sources = all.filter(|&var| cell.instruction(var).op.is_source());
        let vars: Vec<Var> = sources.chain(batches.iter().flatten().copied()).collect();
        let mut number = vec![0; vars.len()];
        for (variable, var) in (0..).zip(&vars) {
            number[var.index()] = variable;
        }
        let problem = Problem { variables: vars.len() as u32, batches: Vec::new() };
        let mut inner = Self { problem, vars, positions: Vec::new() };
        for positions in batches {
            let first = cell.instruction(positions[0]);
            if positions.len() < 2 || first.op == Op::Concat {
                continue;
            }
            let operand = |variables: Vec<Var>| AlignedOperand {
                weight: weight(positions[0], &variables),
                positions: variables.iter().map(|var| number[var.index()]).collect(),
            };
            let role = |role: usize| {
                positions.iter().map(move |&var| cell.instruction(var).operands[role])
            };
            let roles = (0..first.operands.len()).map(|index| operand(role(index).collect()));
            let operands = roles.chain([operand(positions.clone())]).collect();
            inner.problem.batches.push(AlignedBatch { operands });
            inner.positions.push(positions);
        }
        inner
    }

    /// Adds the constraint that these variables be contiguous, in any order.
    pub(crate) fn want_neighbours(&mut self, vars: &[Var]) {
        let number = |var: &Var| {
            let found = self.vars.iter().position(|other| other == var);
            found.expect("every variable has a number") as u32
        };
        let set = vars.iter().map(number).collect();
        self.problem.batches.push(AlignedBatch::uniform([set], 1));
    }
}
