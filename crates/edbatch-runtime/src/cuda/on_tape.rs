//! What backends that run plans on tapes share, whoever reads the tapes.

use edbatch_layout::{ArenaTooLarge, Plan, Program, Step, Want};

use crate::BackendError;

/// By wanted value: where its elements begin among the outputs of a tape, and the index of its
/// greatest element, of those that the tape has found.
pub(super) fn find_wanted(
    program: &Program,
    plan: &Plan,
    indices: &[u32],
    starts: &mut Vec<usize>,
    greatest: &mut Vec<u32>,
) {
    let (mut indices, mut at) = (indices.iter(), 0);
    starts.clear();
    greatest.clear();
    for &(row, want) in &plan.wanted {
        starts.push(at);
        greatest.push(match want {
            Want::ArgMax => *indices.next().expect("an index for each"),
            Want::Elements | Want::Stay => 0,
        });
        if want == Want::Elements {
            at += program.record(row.record).widths.iter().sum::<u32>() as usize;
        }
    }
}

/// A plan whose values and scratch cannot be addressed.
pub(super) fn too_large(error: &ArenaTooLarge) -> BackendError {
    let what = "the arena of a mini-batch's values";
    BackendError::Memory { what, bytes: 4 * error.elements }
}

/// A step of a plan by itself: its operands lie where they lay.
pub(super) fn alone(plan: &Plan, step: usize) -> Plan {
    Plan {
        steps: vec![Step { operands: 0, ..plan.steps[step] }],
        operands: plan.operands_of(step).to_vec(),
        lists: plan.lists.clone(),
        rows: plan.rows.clone(),
        arena: plan.arena,
        waves: vec![0],
        given: Vec::new(),
        wanted: Vec::new(),
    }
}
