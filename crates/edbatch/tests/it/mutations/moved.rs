//! Mutants of plans in which a batch overwrites the rows of another, as if these were free.

use std::ops::Range;

use edbatch_layout::{Action, Operand, Plan, Program};
use rand::RngExt;

use super::networks::Random;
use super::tally::Sort;

/// Moves batches onto the rows of other batches, and adapts the operands that read them. In `plan`,
/// each batch has its own rows.
pub(crate) fn mutants(plan: &Plan, program: &Program, rng: &mut Random) -> Vec<(Sort, Plan)> {
    let mut made = Vec::new();
    for _ in 0..40 {
        let [moved, onto] = [0; 2].map(|_| rng.random_range(0..plan.steps.len()));
        let (from, to) = (rows(plan, program, moved), rows(plan, program, onto));
        if moved != onto
            && from.len() <= to.len()
            && let Some(mutant) = relocate(plan, moved, from, to.start)
        {
            made.push((("batch", "moved onto another"), mutant));
        }
    }
    made
}

/// Returns the part of the arena that a step writes.
fn rows(plan: &Plan, program: &Program, step: usize) -> Range<u32> {
    let step = &plan.steps[step];
    let stride = match step.action {
        Action::Hoist => program.carried_out(step).output_stride,
        Action::Call | Action::Body => program.cell(step.cell).output_stride,
    };
    step.out..step.out + stride * step.calls
}

/// Moves the rows `from` of a step to `to`, with all operands that read them. Returns `None` if a
/// span also contains rows of other steps.
fn relocate(plan: &Plan, step: usize, from: Range<u32>, to: u32) -> Option<Plan> {
    let mut moved = plan.clone();
    let place = |row: &mut u32| {
        if from.contains(row) {
            *row = *row - from.start + to;
        }
    };
    for index in 0..plan.steps.len() {
        let (calls, first) = (plan.steps[index].calls, plan.steps[index].operands as usize);
        for (at, operand) in plan.operands_of(index).iter().enumerate() {
            match *operand {
                Operand::Unread | Operand::Table { .. } | Operand::Folded { .. } => {}
                Operand::Hoisted { start } => {
                    moved.rows[start as usize..][..calls as usize].iter_mut().for_each(place);
                }
                Operand::List { start } => {
                    moved.lists[start as usize..][..calls as usize].iter_mut().for_each(place);
                }
                Operand::Many { ends, rows } => {
                    let all = plan.list(ends, calls).last().copied().unwrap_or(0);
                    moved.lists[rows as usize..][..all as usize].iter_mut().for_each(place);
                }
                Operand::Span { first: mut start, stride } => {
                    let last = start + (calls - 1) * stride;
                    if from.contains(&start) != from.contains(&last) {
                        return None;
                    }
                    place(&mut start);
                    moved.operands[first + at] = Operand::Span { first: start, stride };
                }
            }
        }
    }
    moved.wanted.iter_mut().for_each(|(row, _)| place(&mut row.start));
    moved.steps[step].out = to;
    Some(moved)
}
