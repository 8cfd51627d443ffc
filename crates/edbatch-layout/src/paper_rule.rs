//! What a cell's batches copy by the paper's rule: its table of memory costs.
//!
//! A *memory kernel* is a pass that does nothing but move data. The paper's rule, as far as it can
//! be inferred from the figures: all operations of a batch read their operands, and write their
//! results, contiguous and in one order of positions; each operand that does not lie so is a kernel
//! that copies it, and so is each operand that repeats a variable, and each concatenation.
//! Parameters count as any other operand, once for each call. As declared, parameters and inputs
//! lie in the order of their declaration, and the results of a batch one after the other, batch by
//! batch, as a system that batches without a planner writes them; as planned, all lie in the order
//! of [`aligned::plan`].
//!
//! What plans really copy is counted on the plans: [`CellPlan::moved`](crate::CellPlan::moved).
//!
//! *Source*: section 3 of the paper and its table of memory costs.

use edbatch_graph::{Cell, Op, Var};

use crate::aligned::{self, Fate, Layout, Search};
use crate::cell_plan::Moved;
use crate::inner_problem::InnerProblem;

/// Without and with a planner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compared {
    /// With variables in the order of their declaration.
    pub declared: Moved,
    /// With variables in the planned order.
    pub planned: Moved,
}

/// What a cell copies by the paper's rule for so many calls, if its operations run in these
/// batches: those of [`inner_batches`](crate::inner_batches), or a policy's.
///
/// # Panics
/// If the batches are not those of a schedule of the cell.
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
