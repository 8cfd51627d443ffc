//! Counts the copies of a cell's batches by the rule of the paper's table of memory costs.
//!
//! A *memory kernel* is a pass that only moves data. The paper does not state its rule; this one is
//! inferred from the figures. The operands and the results of a batch must each be contiguous, with
//! the batch's operations in the same order. Each operand for which that fails needs a kernel that
//! copies it, and so does each operand that repeats a variable, and each concatenation. Parameters
//! count like any other operand, once per call. In the declared layout, parameters and inputs are
//! stored in the order of their declaration, and results batch by batch, as a system without a
//! planner writes them. In the planned layout, all are in the order of [`aligned::plan`].
//!
//! [`CellPlan::moved`](crate::CellPlan::moved) counts the copies of a real plan instead.
//!
//! *Source*: section 3 of the paper and its table of memory costs. *Cost*: one layout search.

use edbatch_graph::{Cell, Op, Var};

use crate::aligned::{self, Fate, Layout, Search};
use crate::cell_plan::Moved;
use crate::inner_problem::InnerProblem;

/// The copies without and with a planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// With variables in the order of their declaration.
    pub declared: Moved,
    /// With variables in the planned order.
    pub planned: Moved,
}

/// Counts the copies of `calls` calls of a cell by the paper's rule. `batches` are the batches of
/// its operations, from [`inner_batches`](crate::inner_batches) or from a policy.
///
/// # Panics
/// If the batches are not a schedule of the cell.
#[must_use]
pub fn paper_rule(cell: &Cell, batches: &[Vec<Var>], calls: u64) -> Compared {
    let bytes = |var: Var| 4 * calls * cell.instruction(var).shape.elements() as u64;
    let weight = |_, vars: &[Var]| vars.iter().map(|&var| bytes(var)).sum();
    let inner = InnerProblem::new(cell, batches, weight);
    let planned = aligned::plan(&inner.problem, Search::default());
    let declared = Layout::of_order(&inner.problem, (0..inner.problem.variables).collect());
    let concatenated = inner.vars.iter().filter(|&&var| cell.instruction(var).op == Op::Concat);
    let concatenations: Moved =
        concatenated.map(|&var| Moved { kernels: 1, bytes: bytes(var) }).sum();
    let of_layout = |layout: &Layout| {
        let operands = inner.problem.operands();
        let copied = operands.filter(|&(id, _)| layout.fate(id) != Fate::InPlace);
        let copies: Moved =
            copied.map(|(_, operand)| Moved { kernels: 1, bytes: operand.weight }).sum();
        copies + concatenations
    };
    Compared { declared: of_layout(&declared), planned: of_layout(&planned) }
}
