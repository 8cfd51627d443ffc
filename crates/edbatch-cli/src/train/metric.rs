//! Metrics: the quality of a model on examples with targets.

mod chunks;

use std::slice;

use clap::ValueEnum;
use edbatch::models::{Folder, FolderModel, Lexicon, Targets, arg_max};
use edbatch::{Engine, InputError, Rows, RunError, interpret_finite};
use edbatch_datasets::SENTENCE_FORMAT;
use edbatch_runtime::{Parameters, Precision};

use crate::failure::Failure;
use crate::model::examples::Examples;
use chunks::{Chunks, is_in_chunk};

/// A measure of the quality of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Metric {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs.
    Loss,
    /// The fraction of rows with a target whose largest score belongs to the target.
    Accuracy,
    /// The accuracy of the last row of each input: the root of a tree.
    Root,
    /// F1 of the chunks that tags, or classes of lattices, describe, such as B-PER I-PER. Counted
    /// as conlleval does: E- and S- end a chunk, and one begins at B- and S- or where the type
    /// changes. L- counts as E-, U- and W- as S-, M- and any other prefix as I-.
    F1,
}

impl Metric {
    /// Rejects a metric that is not defined for the model.
    pub(crate) fn check(self, folder: &Folder) -> Result<(), Failure> {
        if self != Self::F1 || tags(folder).iter().any(|tag| is_in_chunk(tag)) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--metric f1 needs a tagger, or lattices whose classes are tags: tags.txt or \
             classes.txt in {} has no tags such as B-PER and I-PER; use --metric accuracy",
            folder.path().display()
        )))
    }

    /// Rejects examples in which the metric counts nothing.
    pub(crate) fn check_targets(self, folder: &Folder, examples: &Examples) -> Result<(), Failure> {
        let tags = tags(folder);
        let is_chunk = |&target: &u32| is_in_chunk(&tags[target as usize]);
        let counts = |targets: &Targets| match self {
            Self::Loss | Self::Accuracy => targets.iter().any(Option::is_some),
            Self::Root => targets.last().is_some_and(Option::is_some),
            Self::F1 => targets.iter().flatten().any(is_chunk),
        };
        if examples.targets.iter().any(counts) {
            return Ok(());
        }
        let files = examples.files.iter().map(|file| file.display().to_string());
        let files = files.collect::<Vec<_>>().join(", ");
        let what = match self {
            Self::Loss | Self::Accuracy if !folder.lexicon().tags().is_empty() => {
                return Err(Failure::new(format_args!(
                    "{files}: expected targets, got none: write {SENTENCE_FORMAT}"
                )));
            }
            Self::Loss | Self::Accuracy => "targets",
            Self::Root => "targets of the last row of an input",
            Self::F1 => "tags such as B-PER and I-PER",
        };
        Err(Failure::new(format_args!("{files}: expected {what}, got none")))
    }

    /// Returns a number that falls as the model gets better.
    pub(crate) fn as_loss(self, value: f64) -> f64 {
        if self == Self::Loss { value } else { -value }
    }

    /// Computes the metric on examples that [`check_targets`](Self::check_targets) accepts, in
    /// mini-batches of 64. Fails at an example if a score that it counts is not finite.
    pub(crate) fn evaluate(
        self,
        engine: &mut Engine<FolderModel>,
        parameters: &Parameters,
        folder: &Folder,
        examples: &Examples,
    ) -> Result<f64, Failure> {
        let mut score = Score::new(self, tags(folder));
        for from in (0..examples.len()).step_by(64) {
            let part = from..examples.len().min(from + 64);
            let inputs = &examples.inputs[part.clone()];
            let rows = engine.run(inputs).map_err(|error| examples.failed(&part, error))?;
            let targets = &examples.targets[part.clone()];
            for (instance, (rows, targets)) in rows.iter().zip(targets).enumerate() {
                score.add(rows, targets).map_err(|row| {
                    // The interpreter finds the call that made the value, and the weight.
                    let (model, input) = (engine.model(), slice::from_ref(&inputs[instance]));
                    let error = match interpret_finite(model, parameters, input, Precision::F32) {
                        Err(RunError::Input { error, .. }) => error,
                        _ => InputError::NotFiniteOutput { row },
                    };
                    examples.failed(&part, RunError::Input { instance, error })
                })?;
            }
        }
        Ok(score.value())
    }
}

/// Returns the names of the classes of words or characters, in which chunks are counted.
fn tags(folder: &Folder) -> &[String] {
    match folder.lexicon() {
        Lexicon::Lattices { classes: Some(classes), .. } => classes,
        lexicon => lexicon.tags(),
    }
}

/// The counts of a metric.
struct Score<'a> {
    metric: Metric,
    tags: &'a [String],
    inputs: u64,
    loss: f64,
    /// The number of rows with a target, and of those that have the target's class.
    rows: [u64; 2],
    chunks: Chunks,
}

impl<'a> Score<'a> {
    fn new(metric: Metric, tags: &'a [String]) -> Self {
        Self { metric, tags, inputs: 0, loss: 0.0, rows: [0; 2], chunks: Chunks::default() }
    }

    /// Adds the outputs of an input. Fails with the index of a row whose largest score, or whose
    /// loss if that is counted, is not finite.
    fn add(&mut self, rows: &Rows, targets: &Targets) -> Result<(), usize> {
        self.inputs += 1;
        let mut tags = Vec::new();
        for (index, (row, &target)) in rows.iter().zip(targets).enumerate() {
            let is_counted = self.metric != Metric::Root || index + 1 == targets.len();
            let Some(target) = target.filter(|_| is_counted) else {
                tags.push(None);
                continue;
            };
            let (class, loss) = (arg_max(row), cross_entropy(row, target as usize));
            // A score of −∞ excludes a class; a target with it has an infinite loss.
            if loss.is_nan() || (loss.is_infinite() && self.metric == Metric::Loss) {
                return Err(index);
            }
            self.loss += loss;
            self.rows = [self.rows[0] + 1, self.rows[1] + u64::from(class == target)];
            let name = |tag: u32| self.tags.get(tag as usize).map_or("O", String::as_str);
            tags.push(Some((name(target), name(class))));
        }
        self.chunks.add(&tags);
        Ok(())
    }

    /// Returns the metric; NaN if nothing was counted.
    fn value(&self) -> f64 {
        match self.metric {
            Metric::Loss => self.loss / self.inputs as f64,
            Metric::Accuracy | Metric::Root => self.rows[1] as f64 / self.rows[0] as f64,
            Metric::F1 => self.chunks.f1(),
        }
    }
}

/// Returns −log of the target's probability, the softmax of the scores.
fn cross_entropy(scores: &[f32], target: usize) -> f64 {
    let largest = f64::from(scores[arg_max(scores) as usize]);
    let sum: f64 = scores.iter().map(|&score| (f64::from(score) - largest).exp()).sum();
    largest + sum.ln() - f64::from(scores[target])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[[f32; 2]]) -> Rows {
        let mut all = Rows::new();
        rows.iter().for_each(|row| all.push(row));
        all
    }

    #[test]
    fn metrics_count_rows_with_targets() {
        let tags = ["O".to_string(), "B-X".to_string()];
        let rows = rows(&[[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]]);
        // −log of the targets' probabilities. The two scores of a row differ by 1, −2, 2 and 3.
        let loss: f64 = [1.0, -2.0, 2.0, 3.0].iter().map(|d: &f64| (-d).exp().ln_1p()).sum();
        for (metric, expected) in [
            (Metric::Accuracy, 0.75),
            (Metric::Root, 1.0),
            (Metric::Loss, loss / 2.0),
            // Found: one chunk in the first input, two in the second. Expected: two in the second.
            (Metric::F1, 0.8),
        ] {
            let mut score = Score::new(metric, &tags);
            // The last row has no target, so this input has no root.
            score.add(&rows, &vec![Some(0), Some(0), None]).unwrap();
            score.add(&rows, &vec![None, Some(1), Some(1)]).unwrap();
            assert!((score.value() - expected).abs() < 1e-12, "{metric:?}: {}", score.value());
        }
    }

    #[test]
    fn the_first_of_equal_scores_is_the_output() {
        let mut score = Score::new(Metric::Accuracy, &[]);
        let rows = rows(&[[2.0, 2.0], [2.0, 2.0], [0.0, -0.0]]);
        score.add(&rows, &vec![Some(0), Some(1), Some(0)]).unwrap();
        assert_eq!(score.rows, [3, 2]);
    }

    #[test]
    fn scores_that_are_not_finite_have_no_metric() {
        const INFINITY: f32 = f32::INFINITY;
        let tags = ["O".to_string(), "B-X".to_string()];
        let add = |metric, last: [f32; 2], target| {
            let rows = rows(&[[1.0, 0.0], last]);
            Score::new(metric, &tags).add(&rows, &vec![Some(0), Some(target)])
        };
        for metric in Metric::value_variants() {
            for target in [0, 1] {
                for row in [[f32::NAN, 1.0], [1.0, f32::NAN], [INFINITY, 1.0], [-INFINITY; 2]] {
                    assert_eq!(add(*metric, row, target), Err(1), "{metric:?} {row:?}");
                }
            }
            // A class may be excluded.
            assert_eq!(add(*metric, [1.0, -INFINITY], 0), Ok(()), "{metric:?}");
            let of_target = add(*metric, [1.0, -INFINITY], 1);
            assert_eq!(of_target.is_err(), *metric == Metric::Loss, "{metric:?}");
        }
        // Only the root counts.
        let rows = rows(&[[f32::NAN; 2], [1.0, 0.0]]);
        let targets = vec![Some(0), Some(0)];
        assert_eq!(Score::new(Metric::Root, &[]).add(&rows, &targets), Ok(()));
    }
}
