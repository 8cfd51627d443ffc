//! `checkpoint.safetensors`: a run of training, to go on with it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use edbatch::Trainer;
use edbatch::models::{Folder, FolderModel};
use edbatch_datasets::write_atomic;

use crate::failure::Failure;
use crate::if_exists;

/// The position of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Position {
    /// The number of epochs that have ended.
    pub(super) epoch: u64,
    /// The number of mini-batches of this epoch that have been trained on.
    pub(super) mini_batch: u64,
    /// The sums over these mini-batches: of the loss of all inputs, and of gradient norms.
    pub(super) loss: f64,
    pub(super) norm: f64,
    /// The best value of the metric, and the number of epochs up to it.
    pub(super) best: Option<(f64, u64)>,
}

/// Everything that the bits of a run depend on, by name: options, and hashes of files.
pub(super) type Identity = BTreeMap<String, String>;

/// The checkpoint file of a run.
pub(super) struct Checkpoint {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    /// The options with a file, such as `--input train.txt`, by the names of their hashes.
    pub(super) files: HashMap<String, String>,
}

impl Checkpoint {
    /// Writes the file, complete or not at all.
    pub(super) fn write(
        &self,
        trainer: &mut Trainer<FolderModel>,
        position: &Position,
    ) -> Result<(), Failure> {
        let state = trainer.state_with_note(&self.note(position)).map_err(Failure::new)?;
        write_atomic(&self.path, &state).map_err(|error| Failure::writing(&self.path, &error))
    }

    /// Restores the trainer from the file. Returns `None` if there is no file.
    pub(super) fn read(
        &self,
        trainer: &mut Trainer<FolderModel>,
    ) -> Result<Option<Position>, Failure> {
        let state = if_exists(fs::read(&self.path));
        let state = state.map_err(|error| Failure::reading(&self.path, &error))?;
        let Some(state) = state else { return Ok(None) };
        let failed = |error| Failure::at(&self.path, error);
        let note = Trainer::<FolderModel>::note_of(&state).map_err(failed)?;
        let position = self.position(&note).map_err(|why| Failure::at(&self.path, why))?;
        trainer.set_state(&state).map_err(failed)?;
        Ok(Some(position))
    }

    fn note(&self, position: &Position) -> String {
        let Position { epoch, mini_batch, loss, norm, best } = position;
        let (value, at) = best.unwrap_or((f64::NAN, 0));
        let position = format!("{epoch} {mini_batch} {loss:?} {norm:?} {value:?} {at}\n");
        let identity = self.identity.iter().map(|(name, value)| format!("{name}={value}\n"));
        position + &identity.collect::<String>()
    }

    /// Parses a note. Fails if it is of another run.
    fn position(&self, note: &str) -> Result<Position, String> {
        let broken = || "not a checkpoint of edbatch train".to_string();
        let (position, identity) = note.split_once('\n').ok_or_else(broken)?;
        let mut found = Identity::new();
        for line in identity.lines() {
            let (name, value) = line.split_once('=').ok_or_else(broken)?;
            found.insert(name.into(), value.into());
        }
        for (name, expected) in &self.identity {
            let got = found.remove(name).unwrap_or_else(|| "none".into());
            if got != *expected {
                let file = self.files.get(name).unwrap_or(name);
                let differ = match is_hash(expected) {
                    true => format!("the contents of {file} have changed since the run began"),
                    false => format!("it has {name} {got}, now {name} is {expected}"),
                };
                return Err(format!(
                    "this checkpoint is of another run: {differ}; start without --resume, or with \
                     what it was started with"
                ));
            }
        }
        if let Some((name, value)) = found.first_key_value() {
            let value = if is_hash(value) { "" } else { value };
            return Err(format!("this checkpoint is of another run: it has {name} {value}"));
        }
        parse(position).ok_or_else(broken)
    }
}

/// Returns true for the SHA-256 of a file.
fn is_hash(value: &str) -> bool {
    value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn parse(position: &str) -> Option<Position> {
    let words: Vec<&str> = position.split(' ').collect();
    let [epoch, mini_batch, loss, norm, best, at] = words.as_slice() else { return None };
    let (best, at): (f64, u64) = (best.parse().ok()?, at.parse().ok()?);
    let (epoch, mini_batch) = (epoch.parse().ok()?, mini_batch.parse().ok()?);
    let (loss, norm) = (loss.parse().ok()?, norm.parse().ok()?);
    let best = (at > 0).then_some((best, at));
    Some(Position { epoch, mini_batch, loss, norm, best })
}

/// The checkpoint of an earlier run, set aside so that a run that is killed before its first
/// checkpoint cannot go on from it. Dropping it puts it back if the new run has written none.
pub(super) struct Earlier {
    path: PathBuf,
    aside: PathBuf,
}

impl Earlier {
    /// Sets the checkpoint of a folder aside, if it has one.
    pub(super) fn set_aside(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join(Folder::CHECKPOINT);
        // A temporary name of the checkpoint: the first one that is written removes it.
        let aside = format!(".{}.{:016x}.partial", Folder::CHECKPOINT, std::process::id());
        let aside = folder.join(aside);
        let moved = if_exists(fs::rename(&path, &aside));
        let moved = moved.map_err(|error| Failure::writing(&path, &error))?;
        Ok(moved.map(|()| Self { path, aside }))
    }
}

impl Drop for Earlier {
    fn drop(&mut self) {
        if !self.path.exists() {
            let _ = fs::rename(&self.aside, &self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(identity: &[(&str, &str)]) -> Checkpoint {
        let identity = identity.iter().map(|&(name, value)| (name.into(), value.into()));
        let (path, files) = ("checkpoint".into(), HashMap::new());
        Checkpoint { path, identity: identity.collect(), files }
    }

    #[test]
    fn notes_round_trip() {
        let run = checkpoint(&[("--batch", "25"), ("config.json", "sha256 of it")]);
        let begin = Position::default();
        let (loss, norm) = (0.1 + 0.2, f64::MIN_POSITIVE);
        let middle = Position { epoch: 3, mini_batch: 7, loss, norm, best: Some((1.0 / 3.0, 2)) };
        for position in [begin, middle] {
            assert_eq!(run.position(&run.note(&position)), Ok(position));
        }
    }

    #[test]
    fn other_runs_are_named() {
        let note = checkpoint(&[("--batch", "25"), ("--seed", "1")]).note(&Position::default());
        for (identity, expected) in [
            (&[("--batch", "32"), ("--seed", "1")][..], "it has --batch 25, now --batch is 32"),
            (&[("--batch", "25")], "it has --seed 1"),
            (
                &[("--batch", "25"), ("--decay", "0"), ("--seed", "1")],
                "it has --decay none, now --decay is 0",
            ),
        ] {
            let error = checkpoint(identity).position(&note).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let run = checkpoint(&[]);
        for note in ["", "\n", "1 2 3\n", "1 2 3 4 5\n", "1 -2 3 4 5 6\n", "0 0 0 0 0 0\nline"] {
            assert_eq!(run.position(note), Err("not a checkpoint of edbatch train".into()));
        }
    }
}
