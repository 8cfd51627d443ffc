//! Checks that a contestant computes what the interpreter computes, before its speed counts.

use edbatch::Rows;
use edbatch_runtime::Parameters;

use crate::workload::{Failure, MiniBatch, Workload};

/// How many instances of the mini-batch the interpreter computes: it takes its time.
const INTERPRETED: usize = 4;
/// By how much results may differ from the interpreter's, and from another contestant's.
const TOLERANCE: f32 = 1e-4;

/// The expected results of a mini-batch.
pub(crate) struct Agreement {
    /// Of the first instances, or of all once a contestant has been accepted.
    expected: Vec<Vec<f32>>,
}

impl Agreement {
    /// Interprets the first few instances of a mini-batch.
    pub(crate) fn new(
        workload: &dyn Workload,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Self, Failure> {
        let few = MiniBatch { size: mini_batch.size.min(INTERPRETED), ..mini_batch };
        let results = workload.interpret(parameters, few)?;
        Ok(Self { expected: results.iter().map(elements).collect() })
    }

    /// Compares results, and takes those of further instances as expected from now on.
    pub(crate) fn check(&mut self, results: &[Rows]) -> Result<(), Failure> {
        for (instance, rows) in results.iter().enumerate() {
            let got = elements(rows);
            // The interpreter is too slow for all instances: of the rest, contestants must agree
            // with each other.
            let Some(expected) = self.expected.get(instance) else {
                self.expected.push(got);
                continue;
            };
            if got.len() != expected.len() {
                let (got, expected) = (got.len(), expected.len());
                return Err(
                    format!("instance {instance}: {got} elements, expected {expected}").into()
                );
            }
            let wrong =
                |(got, expected): &(f32, &f32)| (got - *expected).abs() > TOLERANCE || got.is_nan();
            if let Some((got, expected)) = got.into_iter().zip(expected).find(wrong) {
                return Err(format!(
                    "instance {instance}: {got}, expected {expected} within {TOLERANCE}"
                )
                .into());
            }
        }
        Ok(())
    }
}

/// Row after row: how a model divides its results into rows is not compared.
fn elements(rows: &Rows) -> Vec<f32> {
    rows.iter().flatten().copied().collect()
}
