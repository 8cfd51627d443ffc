//! Compiles a cell in passes, from its equations to steps over scratch memory.
//!
//! | pass | input | result |
//! |---|---|---|
//! | [`idioms`] | equations | operations that are part of another operation's step |
//! | [`stack`](mod@stack) | equations | groups of operations that run together, in order |
//! | [`place`](mod@place) | groups | places of variables; stacks write contiguously |
//! | [`emit`](mod@emit) | groups, places | steps, with [fused](crate::elementwise) operations |
//! | [`unread`] | steps | the steps whose results are read |
//! | [`hoist`](mod@hoist) | steps | a prologue, which depends on one argument, and a body |
//!
//! *Source*: section 3 of the paper. *Cost*: O(operations²), far below a millisecond.

mod batched;
mod emit;
mod equations;
mod hoist;
mod idioms;
#[cfg(test)]
mod notation;
mod place;
mod stack;
mod unread;

use edbatch_graph::{Cell, Var};

use crate::cell_plan::{CellPlan, CellStep};
use crate::copied::Move;
use crate::record_layout::RecordLayout;
use emit::emit;
use equations::Equations;
use hoist::hoist;
use idioms::Idioms;
use place::{Regions, Returned, place};
use stack::{one_by_one, stack};

/// A compiled cell, and the reasons for its copies.
pub(crate) struct Compiled {
    pub(crate) plan: CellPlan,
    pub(crate) moves: Vec<Move>,
}

/// The way in which a cell's memory is laid out and its operations are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CellStyle {
    /// Each operation is a step, and variables are stored in the order of their declaration.
    /// Systems without a planner do this; kept for comparison.
    Declaration,
    /// Operations run in batches, one kernel each. Results are stored batch by batch, parameters in
    /// the order of their declaration. Operands that a kernel needs contiguous are copied together.
    Batched,
    /// The same batches in the paper's layout: Alg. 2 orders all operands of all batches. A cell
    /// that would copy less in one of the two styles above is compiled in that style.
    Paper,
    /// Products of one vector are stacked, sums of products accumulate in place, element-wise
    /// operations are fused, and concatenations are computed in place. Never copies more than
    /// `Declaration`.
    Planned,
    /// Like `Planned`, and operations that depend on a single argument are taken out of the cell.
    /// A mini-batch computes them once per distinct row of a table, or for many calls at once even
    /// if these calls must run one by one.
    #[default]
    Hoisted,
}

/// Compiles a cell of a network. `batches` are the batches of its operations; only the styles
/// `Batched` and `Paper` use them.
#[must_use]
pub(crate) fn compile(
    records: &[RecordLayout],
    cell: &Cell,
    style: CellStyle,
    batches: &[Vec<Var>],
) -> Compiled {
    let equations = Equations::new(records, cell);
    match style {
        CellStyle::Declaration => declared(&equations),
        CellStyle::Batched => batched::in_order(&equations, batches),
        CellStyle::Paper => cheapest([
            batched::aligned(&equations, batches),
            batched::in_order(&equations, batches),
            declared(&equations),
        ]),
        CellStyle::Planned => planned(&equations, Returned::InPlace),
        CellStyle::Hoisted => {
            let mut compiled = planned(&equations, Returned::InPlace);
            compiled.plan.hoisted = hoist(&compiled.plan).map(Box::new);
            compiled
        }
    }
}

/// Compiles an adjoint cell. It may return both a vector and a product of that vector, but no step
/// reads and writes the output. So either the vector is copied to scratch or the product to the
/// output, whichever writes fewer elements.
#[must_use]
pub(crate) fn compile_adjoint(records: &[RecordLayout], cell: &Cell) -> Compiled {
    let equations = Equations::new(records, cell);
    let written = |compiled: &Compiled| {
        let writes = compiled.plan.steps.iter().flat_map(CellStep::writes);
        writes.map(|(_, width)| u64::from(width)).sum::<u64>()
    };
    let [in_place, copied] = [Returned::InPlace, Returned::Copied].map(|r| planned(&equations, r));
    if written(&copied) < written(&in_place) { copied } else { in_place }
}

fn declared(equations: &Equations<'_>) -> Compiled {
    let (idioms, groups) = (Idioms::none(equations), one_by_one(equations));
    let places = place(equations, &idioms, &groups, Regions::Declared, Returned::InPlace);
    emit(equations, &idioms, &groups, places)
}

fn planned(equations: &Equations<'_>, returned: Returned) -> Compiled {
    let idioms = Idioms::find(equations);
    let groups = stack(equations, &idioms);
    // A shared region can also cost copies: operands in a region that a step writes are copied
    // first.
    let [by_vector, shared, apart] =
        [Regions::ByVector, Regions::Shared, Regions::Apart].map(|regions| {
            let places = place(equations, &idioms, &groups, regions, returned);
            emit(equations, &idioms, &groups, places)
        });
    match returned {
        Returned::InPlace => cheapest([by_vector, shared, apart, declared(equations)]),
        Returned::Copied => cheapest([by_vector, shared, apart]),
    }
}

/// Returns the candidate that moves the fewest bytes; of equal ones the one with the fewest steps,
/// then the first.
fn cheapest<const N: usize>(candidates: [Compiled; N]) -> Compiled {
    let cost = |compiled: &Compiled| (compiled.plan.moved(1), compiled.plan.steps.len());
    candidates.into_iter().min_by_key(cost).expect("there is a candidate")
}
