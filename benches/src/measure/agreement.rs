//! Compares results of systems with the interpreter's, before they are timed.

use edbatch::Rows;
use edbatch_runtime::Parameters;

use crate::Failure;
use crate::measure::workload::{MiniBatch, Workload};

/// Number of instances that the interpreter computes; it is slow.
const INTERPRETED: usize = 4;

/// The expected results of a mini-batch.
pub struct Agreement {
    instances: usize,
    /// Results of the first instances; of all instances once a system has been accepted.
    expected: Vec<Vec<f32>>,
}

impl Agreement {
    /// Interprets the first few instances of a mini-batch.
    pub fn new(
        workload: &dyn Workload,
        parameters: &Parameters,
        mini_batch: MiniBatch,
    ) -> Result<Self, Failure> {
        let few = MiniBatch { size: mini_batch.size.min(INTERPRETED), ..mini_batch };
        let results = workload.interpret(parameters, few)?;
        Ok(Self { instances: mini_batch.size, expected: results.iter().map(elements).collect() })
    }

    /// Compares results. The first accepted results of instances that were not interpreted are what
    /// later systems must agree with.
    pub fn check(&mut self, results: &[Rows], tolerance: f32) -> Result<(), Failure> {
        if results.len() != self.instances {
            let (got, expected) = (results.len(), self.instances);
            return Err(format!("expected results of {expected} instances, got {got}").into());
        }
        for (instance, rows) in results.iter().enumerate() {
            let got = elements(rows);
            let Some(expected) = self.expected.get(instance) else {
                self.expected.push(got);
                continue;
            };
            let wrong = |(got, expected): &(&f32, &f32)| {
                (*got - *expected).abs() > tolerance || got.is_nan()
            };
            let different = got.iter().zip(expected).find(wrong);
            let message = match different {
                _ if got.len() != expected.len() => {
                    format!("expected {} elements, got {}", expected.len(), got.len())
                }
                Some((got, expected)) => {
                    format!("expected {expected} within {tolerance}, got {got}")
                }
                None => continue,
            };
            return Err(format!("instance {instance}: {message}").into());
        }
        Ok(())
    }
}

/// Concatenates the rows; the division of results into rows is not compared.
fn elements(rows: &Rows) -> Vec<f32> {
    rows.iter().flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::{Agreement, Rows};

    fn rows(elements: &[f32]) -> Rows {
        let mut rows = Rows::new();
        rows.push(elements);
        rows
    }

    #[test]
    fn missing_instances_and_elements_are_rejected() {
        let mut agreement = Agreement { instances: 2, expected: vec![vec![1.0, 2.0]] };
        let mut check = |results: &[Rows]| agreement.check(results, 0.1).is_ok();
        assert!(!check(&[]));
        assert!(!check(&[rows(&[1.0, 2.0])]));
        assert!(!check(&[rows(&[1.0]), rows(&[3.0])]));
        assert!(!check(&[rows(&[1.0, f32::NAN]), rows(&[3.0])]));
        assert!(check(&[rows(&[1.0, 2.05]), rows(&[3.0])]));
        // Accepted results are expected from now on.
        assert!(!check(&[rows(&[1.0, 2.0]), rows(&[4.0])]));
    }
}
