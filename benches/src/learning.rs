//! The part `learn`: training time of the learned policies, and their batches on mini-batches that
//! they have not seen.

use crate::families::Family;
use crate::policies::{Effort, LearnedPolicy, learned};
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
    let record = |mut policy: LearnedPolicy| {
        let compared = policy.compare(&*workload, batch);
        Learn {
            model: family.model.into(),
            input: family.input.into(),
            batch,
            encoding: policy.name,
            episodes: policy.episodes,
            seconds: policy.seconds,
            states: policy.states,
            before: compared.critical,
            after: compared.learned,
            bound: compared.bound,
        }
    };
    Ok(learned(&*workload, batch, effort, progress).into_iter().map(record).collect())
}
