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

mod emit;
mod equations;
mod hoist;
mod idioms;
#[cfg(test)]
mod notation;
mod place;
mod stack;

use edbatch_graph::Cell;

use crate::cell_plan::CellPlan;
use crate::record_layout::RecordLayout;
use emit::emit;
use equations::Equations;
use hoist::hoist;
use idioms::Idioms;
use place::{Regions, place};
use stack::{one_by_one, stack};

/// How a cell's memory is laid out and its operations are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CellStyle {
    /// Each operation is a step; variables lie in the order of their declaration. What a system
    /// without a planner does, kept for comparison.
    Declaration,
    /// Products stacked and accumulated, element-wise runs fused, concatenations in place.
    Planned,
    /// As planned, and what depends on a single argument is taken out of the cell: a mini-batch
    /// computes it once per distinct row of a table, or for many calls at once that must run one by
    /// one.
    #[default]
    Hoisted,
}

/// Compiles a cell of a network.
#[must_use]
pub(crate) fn compile(records: &[RecordLayout], cell: &Cell, style: CellStyle) -> CellPlan {
    let equations = Equations::new(records, cell);
    match style {
        CellStyle::Declaration => declared(&equations),
        CellStyle::Planned => planned(&equations),
        CellStyle::Hoisted => {
            let mut plan = planned(&equations);
            plan.hoisted = hoist(&plan).map(Box::new);
            plan
        }
    }
}

fn declared(equations: &Equations<'_>) -> CellPlan {
    let (idioms, groups) = (Idioms::none(equations), one_by_one(equations));
    let places = place(equations, &idioms, &groups, Regions::Declared);
    emit(equations, &idioms, &groups, places)
}

fn planned(equations: &Equations<'_>) -> CellPlan {
    let idioms = Idioms::find(equations);
    let groups = stack(equations, &idioms);
    let [by_vector, shared] = [Regions::ByVector, Regions::Shared].map(|regions| {
        let places = place(equations, &idioms, &groups, regions);
        emit(equations, &idioms, &groups, places)
    });
    // A shared region may also cost: what is read from it while it is written is copied first.
    if shared.steps.len() < by_vector.steps.len() { shared } else { by_vector }
}
