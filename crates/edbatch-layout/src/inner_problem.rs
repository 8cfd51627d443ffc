//! A cell's batches as a layout problem.

use edbatch_graph::{Cell, Op, Var};

use crate::aligned::{AlignedBatch, AlignedOperand, Problem};

/// The batches of several operations, each of which wants its operands side by side: all operands,
/// inputs and parameters among them, and the results. A concatenation wants nothing: it copies.
pub(crate) struct InnerProblem<'a> {
    /// Variables are numbered as they lie without a planner: what the cell is given in the order of
    /// its declaration, then the results batch by batch.
    pub(crate) problem: Problem,
    /// For each variable of the problem, that of the cell.
    pub(crate) vars: Vec<Var>,
    /// For each batch of the problem, the operations.
    pub(crate) positions: Vec<&'a [Var]>,
}

impl<'a> InnerProblem<'a> {
    /// `weight` says what a copy of an operand costs: the variables of a role in the batch of an
    /// operation.
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

    /// Wants these variables to be neighbours, in any order.
    pub(crate) fn want_neighbours(&mut self, vars: &[Var]) {
        let number = |var: &Var| {
            let found = self.vars.iter().position(|other| other == var);
            found.expect("every variable has a number") as u32
        };
        let set = vars.iter().map(number).collect();
        self.problem.batches.push(AlignedBatch::uniform([set], 1));
    }
}
