//! A run of `edbatch train`: epochs of mini-batches, with checkpoints.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use edbatch::models::{Folder, FolderModel, Model, Targets, ZooInput};
use edbatch::{EngineOptions, Times, Trainer, shuffled};
use edbatch_datasets::write_atomic;
use edbatch_runtime::Parameters;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Train;
use super::checkpoint::{Checkpoint, Position};
use super::metric::Metric;
use super::word_dropout::drop_words;
use crate::failure::Failure;
use crate::model::examples::Examples;
use crate::output::print;
use crate::{if_exists, name_of, out_of_memory, progress};

/// The time after which a checkpoint is written in the middle of an epoch.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(600);

/// A run of training.
pub(super) struct Run<'a> {
    pub(super) options: &'a Train,
    /// The folder that gets the best weights.
    pub(super) folder: Folder,
    pub(super) train: Examples,
    pub(super) valid: Examples,
    pub(super) trainer: Trainer<FolderModel>,
    pub(super) checkpoint: Checkpoint,
    pub(super) threads: usize,
    /// The lines of `--log` so far.
    pub(super) log: String,
}

impl Run<'_> {
    /// Trains to the last epoch, or until `--patience` ends it.
    pub(super) fn train(&mut self) -> Result<(), Failure> {
        let mut position = Position::default();
        let resume = self.options.resume;
        let read = if resume { self.checkpoint.read(&mut self.trainer)? } else { None };
        if let Some(read) = read {
            position = read;
            self.log = self
                .options
                .log
                .as_deref()
                .map_or(Ok(String::new()), |file| lines_before(file, position.epoch))?;
            let (epoch, mini_batch) = (position.epoch, position.mini_batch);
            if epoch >= self.options.epochs || self.is_out_of_patience(&position) {
                eprintln!(
                    "edbatch: the run has ended after {epoch} epochs; a larger --epochs or \
                     --patience extends it"
                );
            } else {
                let epoch = epoch + 1;
                eprintln!("edbatch: goes on in epoch {epoch}, after {mini_batch} mini-batches");
            }
        } else {
            if resume {
                let folder = self.folder.path().display();
                eprintln!("edbatch: no checkpoint in {folder}: starts from the first epoch");
            }
            // Save the first weights, which best weights may replace before the next checkpoint.
            self.checkpoint.write(&mut self.trainer, &position)?;
        }
        self.write_log()?;
        while position.epoch < self.options.epochs && !self.is_out_of_patience(&position) {
            self.epoch(&mut position)?;
        }
        let name = name_of(&self.options.metric);
        if position.epoch < self.options.epochs {
            let epochs = epochs_since_best(&position);
            print(&format!("stopped: no better {name} in {epochs} epochs\n"))?;
        }
        match position.best {
            Some((best, epoch)) => {
                let weights = self.folder.weights();
                let weights = weights.display();
                print(&format!("best {name} {best:.4} in epoch {epoch}: {weights}\n"))
            }
            None => Ok(()),
        }
    }

    fn is_out_of_patience(&self, position: &Position) -> bool {
        let patience = self.options.patience;
        patience.is_some_and(|patience| epochs_since_best(position) >= patience as u64)
    }

    /// Trains an epoch from a position to its end.
    fn epoch(&mut self, position: &mut Position) -> Result<(), Failure> {
        let Train { batch, seed, checkpoint_every, .. } = *self.options;
        let (started, before) = (Instant::now(), self.trainer.times());
        let done = usize::try_from(position.mini_batch).unwrap_or(usize::MAX);
        let bar = progress::over(self.train.len() as u64);
        bar.set_position(done.saturating_mul(batch).min(self.train.len()) as u64);
        bar.set_message(format!("epoch {}", position.epoch + 1));
        let rate = self.rate_at_start(position);
        let all = self.train.len().div_ceil(batch) as u64;
        let mut trained = 0;
        while position.mini_batch < all {
            let mini_batches = shuffled(self.train.len(), batch, seed, position.epoch);
            let rest =
                mini_batches.skip(usize::try_from(position.mini_batch).unwrap_or(usize::MAX));
            let every = checkpoint_every.unwrap_or(usize::MAX);
            let until_due = every - (self.trainer.updates() % every as u64) as usize;
            trained += self.steps(rest.take(until_due), position, &bar)?;
            let is_due = self.trainer.updates().is_multiple_of(every as u64);
            if is_due || position.mini_batch < all {
                self.checkpoint.write(&mut self.trainer, position)?;
            }
        }
        bar.finish_and_clear();
        let elapsed = started.elapsed();
        let parameters = self.trainer.parameters().map_err(Failure::new)?;
        let (metric, evaluating) = (self.options.metric, Instant::now());
        let precision = self.options.precision;
        let options = EngineOptions::new().threads(self.threads);
        let options = self.options.device.engine_options(options, precision)?;
        let mut engine = self.trainer.engine(options).map_err(Failure::new)?;
        let value = metric.evaluate(&mut engine, &parameters, &self.folder, &self.valid)?;
        let evaluated = evaluating.elapsed();
        self.trainer.end_epoch(metric.as_loss(value));
        let is_better =
            position.best.is_none_or(|(best, _)| metric.as_loss(value) < metric.as_loss(best));
        let steps = self.train.len().div_ceil(batch) as f64;
        let (loss, norm) = (position.loss / self.train.len() as f64, position.norm / steps);
        let epoch = position.epoch + 1;
        let best = if is_better { Some((value, epoch)) } else { position.best };
        *position = Position { epoch, best, ..Position::default() };
        if is_better {
            self.write_weights(&parameters)?;
        }
        drop(parameters);
        let per_second = trained as f64 / elapsed.as_secs_f64();
        let line = json!({
            "epoch": epoch,
            "loss": loss,
            "metric": value,
            "rate": rate,
            "gradient_norm": norm,
            "instances_per_second": per_second,
            "seconds": seconds(before, self.trainer.times(), evaluated),
        });
        self.log += &format!("{line}\n");
        self.write_log()?;
        self.checkpoint.write(&mut self.trainer, position)?;
        let better = if is_better { ", best so far" } else { "" };
        let name = if metric == Metric::Loss { "valid loss".into() } else { name_of(&metric) };
        let time = (elapsed + evaluated).as_secs_f64();
        print(&format!(
            "epoch {epoch}: loss {loss:.4}, {name} {value:.4}, rate {rate}, {per_second:.0} \
             inputs/s, {time:.1} s{better}\n"
        ))
    }

    /// Returns the rate of an epoch's first update, also if the run goes on in its middle.
    fn rate_at_start(&mut self, position: &Position) -> f64 {
        let updates = self.trainer.updates();
        self.trainer.set_updates(updates.saturating_sub(position.mini_batch));
        let rate = self.trainer.learning_rate();
        self.trainer.set_updates(updates);
        rate
    }

    /// Trains on mini-batches, until it is time for a checkpoint. Returns the number of examples.
    fn steps(
        &mut self,
        mini_batches: impl Iterator<Item = Vec<usize>>,
        position: &mut Position,
        bar: &ProgressBar,
    ) -> Result<usize, Failure> {
        let Train { word_dropout, seed, .. } = *self.options;
        let Self { trainer, folder, train, .. } = self;
        let (lexicon, epoch) = (folder.lexicon(), position.epoch);
        let input = |&index: &usize| {
            let mut input = train.inputs[index].clone();
            if word_dropout > 0.0 {
                drop_words(&mut input, lexicon, word_dropout, (seed, epoch, index));
            }
            input
        };
        // The mini-batches whose reports are still to come.
        let begun = RefCell::new(VecDeque::new());
        let batches = mini_batches.map(|indices| {
            let inputs: Vec<ZooInput> = indices.iter().map(input).collect();
            let targets = indices.iter().map(|&index| train.targets[index].clone());
            let targets: Vec<Targets> = targets.collect();
            begun.borrow_mut().push_back(indices);
            (inputs, targets)
        });
        let (began, mut trained) = (Instant::now(), 0);
        let ended = trainer.train_each(batches, |report| {
            let count = begun.borrow_mut().pop_front().map_or(0, |indices| indices.len());
            position.mini_batch += 1;
            position.loss += report.loss * count as f64;
            position.norm += report.gradient_norm;
            trained += count;
            bar.inc(count as u64);
            if out_of_memory::check().is_err() || began.elapsed() > CHECKPOINT_AFTER {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let failed = begun.into_inner().pop_front().unwrap_or_default();
        ended.map_err(|error| train.failed_training(&failed, error))?;
        out_of_memory::check()?;
        Ok(trained)
    }

    /// Evaluates the best weights on the examples of `--test`.
    pub(super) fn test(&self, examples: &Examples) -> Result<(), Failure> {
        let weights = self.folder.weights();
        let bytes = fs::read(&weights).map_err(|error| Failure::reading(&weights, &error))?;
        let parameters = Parameters::from_safetensors(self.trainer.model().network(), &bytes);
        let parameters = parameters.map_err(|error| Failure::at(&weights, error))?;
        let options = EngineOptions::new().threads(self.threads);
        let (model, precision) = (self.trainer.model().clone(), self.options.precision);
        let mut engine = self.options.device.engine(model, &parameters, options, precision)?;
        let metric = self.options.metric;
        let value = metric.evaluate(&mut engine, &parameters, &self.folder, examples)?;
        print(&format!("test {}: {value:.4}\n", name_of(&self.options.metric)))
    }

    fn write_weights(&self, parameters: &Parameters) -> Result<(), Failure> {
        let path = self.folder.weights();
        let bytes = parameters.to_safetensors(self.trainer.model().network());
        let bytes = bytes.map_err(|error| Failure::at(&path, error))?;
        write_atomic(&path, &bytes).map_err(|error| Failure::writing(&path, &error))
    }

    fn write_log(&self) -> Result<(), Failure> {
        let Some(path) = &self.options.log else { return Ok(()) };
        let written = write_atomic(path, self.log.as_bytes());
        written.map_err(|error| Failure::writing(path, &error))
    }
}

/// Returns the number of epochs since the best one, or since the beginning.
fn epochs_since_best(position: &Position) -> u64 {
    position.epoch.saturating_sub(position.best.map_or(0, |(_, epoch)| epoch))
}

/// Returns the lines of a log of earlier epochs.
fn lines_before(log: &Path, epoch: u64) -> Result<String, Failure> {
    let text = if_exists(fs::read_to_string(log)).map_err(|error| Failure::reading(log, &error))?;
    let text = text.unwrap_or_default();
    let is_earlier = |line: &&str| {
        let line = serde_json::from_str::<Value>(line).unwrap_or_default();
        line["epoch"].as_u64().is_some_and(|of_line| of_line <= epoch)
    };
    Ok(text.lines().filter(is_earlier).map(|line| format!("{line}\n")).collect())
}

/// Returns the seconds of an epoch by part.
fn seconds(before: Times, after: Times, evaluate: Duration) -> Value {
    json!({
        "forward": (after.forward - before.forward).as_secs_f64(),
        "back": (after.back - before.back).as_secs_f64(),
        "sums": (after.sums - before.sums).as_secs_f64(),
        "update": (after.update - before.update).as_secs_f64(),
        "decide": (after.decide - before.decide).as_secs_f64(),
        "evaluate": evaluate.as_secs_f64(),
    })
}
