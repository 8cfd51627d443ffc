//! The part `learn`: what learning a policy costs, and what it brings.

use crate::families::Family;
use crate::policies::{Effort, Lesson, learned};
use crate::record::Learn;
use crate::workload::Failure;

/// Learns with every encoding on mini-batches of some size.
///
/// # Errors
/// If the model cannot be declared.
pub fn learning(
    family: &Family,
    batch: usize,
    effort: Effort,
    progress: impl FnMut(&str),
) -> Result<Vec<Learn>, Failure> {
    // What is learned does not depend on how large vectors are.
    let workload = family.at(8)?;
    let record = |lesson: Lesson| Learn {
        model: family.model.into(),
        input: family.input.into(),
        batch,
        encoding: lesson.name,
        episodes: lesson.outcome.episodes,
        seconds: lesson.seconds,
        states: lesson.fsm.states(),
        before: lesson.outcome.before,
        after: lesson.outcome.after,
        bound: lesson.outcome.bound,
    };
    Ok(learned(&*workload, batch, effort, progress).into_iter().map(record).collect())
}
