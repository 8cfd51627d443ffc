//! Metrics: the quality of a model on examples with targets.

mod chunks;

use crate::{Engine, Rows};
use clap::ValueEnum;
use edbatch_models::{Folder, Lexicon, Targets, Zoo};

use super::examples::Examples;
use super::failure::Failure;
use chunks::Chunks;

/// A measure of the quality of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Metric {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs.
    Loss,
    /// The fraction of rows with a target whose largest score belongs to the target.
    Accuracy,
    /// The accuracy of the last row of each input: the root of a tree.
    Root,
    /// F1 of the chunks that the tags describe, such as B-PER I-PER, counted as conlleval does.
    F1,
}

impl Metric {
    /// Rejects a metric that is not defined for the model.
    pub(crate) fn check(self, folder: &Folder) -> Result<(), Failure> {
        match self == Self::F1 && tags(folder).is_empty() {
            true => Err(Failure::Usage("--metric f1 needs a tagger: the model has no tags".into())),
            false => Ok(()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Accuracy => "accuracy",
            Self::Root => "root",
            Self::F1 => "f1",
        }
    }

    /// Returns a number that falls as the model gets better.
    pub(crate) fn as_loss(self, value: f64) -> f64 {
        if self == Self::Loss { value } else { -value }
    }

    /// Computes the metric on examples, in mini-batches of 64.
    pub(crate) fn evaluate(
        self,
        engine: &mut Engine<Zoo>,
        folder: &Folder,
        examples: &Examples,
    ) -> Result<f64, Failure> {
        let mut score = Score::new(tags(folder));
        for from in (0..examples.len()).step_by(64) {
            let part = from..examples.len().min(from + 64);
            let rows = engine.run(&examples.inputs[part.clone()]);
            let rows = rows.map_err(|error| examples.failed(&part, error))?;
            let targets = &examples.targets[part];
            rows.iter().zip(targets).for_each(|(rows, targets)| score.add(rows, targets));
        }
        score.value(self).ok_or_else(|| {
            let files = examples.files.iter().map(|file| file.display().to_string());
            let files = files.collect::<Vec<_>>().join(", ");
            let what = if self == Self::F1 { "tags such as B-PER and I-PER" } else { "targets" };
            Failure::new(format_args!("{files}: expected {what}, got none"))
        })
    }
}

/// Returns the names of the tags; none for a model without tags.
fn tags(folder: &Folder) -> &[String] {
    match folder.lexicon() {
        Lexicon::Tagged { tags, .. } | Lexicon::Spelled { tags, .. } => tags,
        _ => &[],
    }
}

/// The counts of all metrics.
struct Score<'a> {
    tags: &'a [String],
    inputs: u64,
    loss: f64,
    /// The number of rows with a target, and of those that have the target's class.
    rows: [u64; 2],
    /// The number of last rows with a target, and of those that have the target's class.
    roots: [u64; 2],
    chunks: Chunks,
}

impl<'a> Score<'a> {
    fn new(tags: &'a [String]) -> Self {
        let chunks = Chunks::default();
        Self { tags, inputs: 0, loss: 0.0, rows: [0; 2], roots: [0; 2], chunks }
    }

    /// Adds the outputs of an input.
    fn add(&mut self, rows: &Rows, targets: &Targets) {
        self.inputs += 1;
        let mut tags = Vec::new();
        for (index, (row, &target)) in rows.iter().zip(targets).enumerate() {
            let Some(target) = target else {
                tags.push(None);
                continue;
            };
            let class = arg_max(row);
            self.loss += cross_entropy(row, target as usize);
            let is_right = u64::from(class == target as usize);
            let last = u64::from(index + 1 == targets.len());
            self.rows = [self.rows[0] + 1, self.rows[1] + is_right];
            self.roots = [self.roots[0] + last, self.roots[1] + last * is_right];
            let name = |tag: usize| self.tags.get(tag).map_or("O", String::as_str);
            tags.push(Some((name(target as usize), name(class))));
        }
        self.chunks.add(&tags);
    }

    /// Returns a metric, or `None` if nothing was counted.
    fn value(&self, metric: Metric) -> Option<f64> {
        let fraction = |[of, right]: [u64; 2]| (of > 0).then(|| right as f64 / of as f64);
        match metric {
            Metric::Loss => (self.rows[0] > 0).then(|| self.loss / self.inputs as f64),
            Metric::Accuracy => fraction(self.rows),
            Metric::Root => fraction(self.roots),
            Metric::F1 => self.chunks.f1(),
        }
    }
}

/// Returns the index of the largest score, of equal ones the first.
fn arg_max(scores: &[f32]) -> usize {
    let mut best = 0;
    for (index, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = index;
        }
    }
    best
}

/// Returns −log of the target's probability, the softmax of the scores.
fn cross_entropy(scores: &[f32], target: usize) -> f64 {
    let largest = f64::from(scores[arg_max(scores)]);
    let sum: f64 = scores.iter().map(|&score| (f64::from(score) - largest).exp()).sum();
    largest + sum.ln() - f64::from(scores[target])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_rows_with_targets() {
        let tags = ["O".to_string(), "B-X".to_string()];
        let mut score = Score::new(&tags);
        let mut rows = Rows::new();
        [[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]].iter().for_each(|row| rows.push(row));
        // The last row has no target, so this input has no root.
        score.add(&rows, &vec![Some(0), Some(0), None]);
        score.add(&rows, &vec![None, Some(1), Some(1)]);
        assert_eq!(score.value(Metric::Accuracy), Some(0.75));
        assert_eq!(score.value(Metric::Root), Some(1.0));
        // −log of the targets' probabilities. The two scores of a row differ by 1, −2, 2 and 3.
        let expected: f64 = [1.0, -2.0, 2.0, 3.0].iter().map(|d: &f64| (-d).exp().ln_1p()).sum();
        let loss = score.value(Metric::Loss).unwrap();
        assert!((loss - expected / 2.0).abs() < 1e-12, "{loss}");
        // Found: one chunk in the first input, two in the second. Expected: two in the second.
        assert_eq!(score.value(Metric::F1), Some(0.8));
        let empty = Score::new(&tags);
        for metric in Metric::value_variants() {
            assert_eq!(empty.value(*metric), None);
        }
    }
}
