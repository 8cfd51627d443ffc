//! Compares the results of systems with the interpreter's, before the systems are timed.

use edbatch::Rows;
use edbatch::models::arg_max;
use edbatch_runtime::Parameters;

use crate::Failure;
use crate::measure::workload::{MiniBatch, Workload};

/// Number of instances of a mini-batch that the interpreter computes. It is slow.
const INTERPRETED: usize = 4;

/// The expected results of the first and of the last mini-batch.
pub struct Agreement(Vec<Expected>);

/// The expected results of a mini-batch.
struct Expected {
    mini_batch: usize,
    instances: usize,
    /// The results of the first instances, which the interpreter computed. The first system that
    /// agrees with them adds its results of all other instances.
    results: Vec<Rows>,
}

impl Agreement {
    /// Interprets the first few instances of both mini-batches.
    pub fn new(
        workload: &dyn Workload,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
    ) -> Result<Self, Failure> {
        let mut numbers = vec![0, mini_batches.len() - 1];
        numbers.dedup();
        let expected = numbers.into_iter().map(|mini_batch| {
            let instances = mini_batches[mini_batch].size;
            let few = MiniBatch { size: instances.min(INTERPRETED), ..mini_batches[mini_batch] };
            let results = workload.interpret(parameters, few)?;
            Ok(Expected { mini_batch, instances, results })
        });
        expected.collect::<Result<_, Failure>>().map(Self)
    }

    /// Calls `run` with the number of each mini-batch. Compares the results of the first instances
    /// with the interpreter's, and all other results with the first accepted system's.
    pub fn check(
        &mut self,
        tolerance: f32,
        mut run: impl FnMut(usize) -> Result<Vec<Rows>, Failure>,
    ) -> Result<(), Failure> {
        for expected in &mut self.0 {
            let number = expected.mini_batch;
            let checked = expected.check(run(number)?, tolerance);
            checked.map_err(|error| format!("mini-batch {number}: {error}"))?;
        }
        Ok(())
    }
}

impl Expected {
    fn check(&mut self, results: Vec<Rows>, tolerance: f32) -> Result<(), String> {
        if results.len() != self.instances {
            let (got, expected) = (results.len(), self.instances);
            return Err(format!("expected results of {expected} instances, got {got}"));
        }
        for (instance, got) in results.into_iter().enumerate() {
            let Some(expected) = self.results.get(instance) else {
                self.results.push(got);
                continue;
            };
            let widths = |rows: &Rows| rows.iter().map(<[f32]>::len).collect::<Vec<_>>();
            let wrong = |(got, expected): &(&f32, &f32)| {
                (*got - *expected).abs() > tolerance || got.is_nan()
            };
            // Where two scores are close, rounding may let a translator choose another word, which
            // it reads from then on.
            let mut choices = got.iter().zip(expected.iter());
            let other = choices.position(|(a, b)| arg_max(a) != arg_max(b));
            let compared = other.map_or(got.len(), |row| row + 1);
            let rows = got.iter().zip(expected.iter()).take(compared);
            let mut pairs = rows.flat_map(|(got, expected)| got.iter().zip(expected));
            let message = match (widths(&got), widths(expected), pairs.find(wrong)) {
                (got, expected, _) if got != expected => {
                    format!("expected rows of {expected:?} elements, got {got:?}")
                }
                (.., Some((got, expected))) => {
                    format!("expected {expected} within {tolerance}, got {got}")
                }
                _ => continue,
            };
            return Err(format!("instance {instance}: {message}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Agreement, Expected, Rows};

    fn rows(all: &[&[f32]]) -> Rows {
        let mut rows = Rows::new();
        all.iter().for_each(|row| rows.push(row));
        rows
    }

    #[test]
    fn missing_instances_rows_and_elements_are_rejected_in_every_mini_batch() {
        let right = || vec![rows(&[&[1.0, 2.05]]), rows(&[&[3.0]])];
        let wrong = [
            vec![],
            vec![rows(&[&[1.0, 2.0]])],
            vec![rows(&[&[1.0]]), rows(&[&[3.0]])],
            vec![rows(&[]), rows(&[&[3.0]])],
            vec![rows(&[&[1.0], &[2.0]]), rows(&[&[3.0]])],
            vec![rows(&[&[1.0, f32::NAN]]), rows(&[&[3.0]])],
            // Results that were accepted before are now expected.
            vec![rows(&[&[1.0, 2.0]]), rows(&[&[4.0]])],
        ];
        let expected =
            |mini_batch| Expected { mini_batch, instances: 2, results: vec![rows(&[&[1.0, 2.0]])] };
        let mut agreement = Agreement(vec![expected(0), expected(7)]);
        agreement.check(0.1, |_| Ok(right())).unwrap();
        for (wrong, bad) in wrong.iter().flat_map(|wrong| [(wrong, 0), (wrong, 7)]) {
            let run = |number| Ok(if number == bad { wrong.clone() } else { right() });
            let error = agreement.check(0.1, run).unwrap_err().to_string();
            assert!(error.starts_with(&format!("mini-batch {bad}: ")), "{error}");
        }
    }
}
