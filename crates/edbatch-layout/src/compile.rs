//! Compiling a cell: from its equations to steps over scratch, pass by pass.
//!
//! | pass | from | to |
//! |---|---|---|
//! | [`idioms`] | equations | operations that another's step does on the way |
//! | [`stack`](mod@stack) | equations | groups of operations that run together, in order |
//! | [`place`](mod@place) | groups | a place for each variable, so that stacks write side by side |
//! | [`emit`](mod@emit) | groups, places | steps; [`fuse`](crate::elementwise) makes programs |
//! | [`hoist`](mod@hoist) | steps | two parts, of which the first depends on one argument |
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

use edbatch_graph::{Cell, Var};

use crate::record_layout::RecordLayout;
pub(crate) use emit::Compiled;
use emit::emit;
use equations::Equations;
use hoist::hoist;
use idioms::Idioms;
use place::{Regions, place};
use stack::{one_by_one, stack};

/// How a cell's memory is laid out and its operations are combined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CellStyle {
    /// Each operation is a step; variables lie in the order of their declaration. What a system
    /// without a planner does, kept for comparison.
    Declaration,
    /// Operations run in batches, a kernel each. Results lie batch by batch, parameters as they are
    /// declared; what a kernel wants side by side and does not find so is gathered.
    Batched,
    /// The same batches in the paper's layout: Alg. 2 orders all operands of all batches. A cell
    /// for which that copies more than either of the above stays as it is there.
    Paper,
    /// Products stacked and accumulated, element-wise runs fused, concatenations in place; never
    /// copies more than as declared.
    Planned,
    /// As planned, and what depends on a single argument is taken out of the cell: a mini-batch
    /// computes it once per distinct row of a table, or for many calls at once that must run one by
    /// one.
    #[default]
    Hoisted,
}

/// Compiles a cell of a network, whose operations run in these batches where the style has any.
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
        CellStyle::Planned => planned(&equations),
        CellStyle::Hoisted => {
            let mut compiled = planned(&equations);
            compiled.plan.hoisted = hoist(&compiled.plan).map(Box::new);
            compiled
        }
    }
}

fn declared(equations: &Equations<'_>) -> Compiled {
    let (idioms, groups) = (Idioms::none(equations), one_by_one(equations));
    let places = place(equations, &idioms, &groups, Regions::Declared);
    emit(equations, &idioms, &groups, places)
}

fn planned(equations: &Equations<'_>) -> Compiled {
    let idioms = Idioms::find(equations);
    let groups = stack(equations, &idioms);
    // A shared region may also cost: what is read from it while it is written is copied first.
    let [by_vector, shared, apart] =
        [Regions::ByVector, Regions::Shared, Regions::Apart].map(|regions| {
            let places = place(equations, &idioms, &groups, regions);
            emit(equations, &idioms, &groups, places)
        });
    cheapest([by_vector, shared, apart, declared(equations)])
}

/// The one that moves the fewest bytes; of equal ones that with the fewest steps, then the first.
fn cheapest<const N: usize>(candidates: [Compiled; N]) -> Compiled {
    let cost = |compiled: &Compiled| (compiled.plan.moved(1), compiled.plan.steps.len());
    candidates.into_iter().min_by_key(cost).expect("there is a candidate")
}
