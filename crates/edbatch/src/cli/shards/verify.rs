//! Which shards of a folder are there, whole, and made of the same things.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::cli::failure::Failure;
use crate::cli::shard::{Division, number_of_mark};
use crate::cli::shard_mark::{Mark, MarkedFile};
use crate::cli::shard_run::verify_part;

/// The shards that fit, in order, and what is wrong with the others.
pub(super) struct Verified {
    pub(super) marks: Vec<Mark>,
    /// How many shards there ought to be.
    pub(super) of: u32,
    pub(super) shortcomings: Vec<Shortcoming>,
}

/// What is wrong with the shards of these numbers.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Shortcoming {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) what: String,
}

/// Reads all marks and all parts of a folder.
pub(super) fn verify(dir: &Path) -> Result<Verified, Failure> {
    let (mut marks, mut shortcomings) = (Vec::new(), Vec::new());
    for number in numbers(dir)? {
        match Mark::read(dir, number) {
            Ok(mark) => marks.extend(mark),
            Err(what) => shortcomings.push(Shortcoming::of(number, what)),
        }
    }
    let Some(usual) = most_usual(&marks).cloned() else {
        let what = "expected the marks of shards, part-00000.done and so on, got none that is one";
        return Err(Failure::at(dir, what));
    };
    set_apart(&mut marks, &mut shortcomings, |mark| is_like(mark, &usual));
    let misnumbered = misnumbered(&marks);
    set_apart(&mut marks, &mut shortcomings, |mark| match misnumbered.contains(&mark.shard) {
        true => Err("its inputs' numbers do not follow those of the files before".into()),
        false => Ok(()),
    });
    set_apart(&mut marks, &mut shortcomings, |mark| verify_part(dir, mark));
    shortcomings.extend(missing(&marks, &shortcomings, usual.of));
    shortcomings.sort_by_key(|shortcoming| shortcoming.first);
    Ok(Verified { marks, of: usual.of, shortcomings })
}

/// Moves what does not fit from the marks to the shortcomings.
fn set_apart(
    marks: &mut Vec<Mark>,
    shortcomings: &mut Vec<Shortcoming>,
    fits: impl Fn(&Mark) -> Result<(), String>,
) {
    marks.retain(|mark| match fits(mark) {
        Ok(()) => true,
        Err(what) => {
            shortcomings.push(Shortcoming::of(mark.shard, what));
            false
        }
    });
}

/// The numbers of the marks in a folder, in order.
fn numbers(dir: &Path) -> Result<Vec<u32>, Failure> {
    let failed = |error| Failure::reading(dir, &error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        numbers.extend(name.to_str().and_then(number_of_mark));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A mark with which most are made of the same things; of several, the first.
fn most_usual(marks: &[Mark]) -> Option<&Mark> {
    let mut counts: Vec<(&Mark, usize)> = Vec::new();
    for mark in marks {
        match counts.iter_mut().find(|(other, _)| is_like(mark, other).is_ok()) {
            Some((_, count)) => *count += 1,
            None => counts.push((mark, 1)),
        }
    }
    let most = counts.iter().map(|&(_, count)| count).max()?;
    counts.into_iter().find(|&(_, count)| count == most).map(|(mark, _)| mark)
}

/// Whether two shards are made of the same things; else what differs.
fn is_like(mark: &Mark, usual: &Mark) -> Result<(), String> {
    let differs = if mark.of != usual.of {
        format!("is one of {} shards; most are of {}", mark.of, usual.of)
    } else if mark.model != usual.model {
        format!("is of the model {}…; most are of {}…", &mark.model[..12], &usual.model[..12])
    } else if mark.arithmetic != usual.arithmetic {
        format!("has the arithmetic {}; most have {}", mark.arithmetic, usual.arithmetic)
    } else if (mark.division, mark.inputs) != (usual.division, usual.inputs) {
        format!("is of {} input files; most are of {}", mark.inputs, usual.inputs)
    } else if mark.division == Division::Lines && mark.input != usual.input {
        format!("is of the inputs {}…; most are of {}…", &mark.input[..12], &usual.input[..12])
    } else {
        return Ok(());
    };
    Err(differs)
}

/// Shards of whole files whose numbers do not go on where those of the file before end.
fn misnumbered(marks: &[Mark]) -> Vec<u32> {
    let whole = marks.iter().filter(|mark| mark.division == Division::Files);
    let mut files: Vec<(&MarkedFile, u32)> =
        whole.flat_map(|mark| mark.files.iter().map(|file| (file, mark.shard))).collect();
    files.sort_by_key(|(file, _)| file.index);
    let (mut end, mut wrong) = ((0, 0), Vec::new());
    for (file, shard) in files {
        if end.0 == file.index && end.1 != file.first {
            wrong.push(shard);
        }
        end = (file.index + 1, file.first + file.lines);
    }
    wrong
}

/// Those that are neither there nor wrong.
fn missing(marks: &[Mark], wrong: &[Shortcoming], of: u32) -> Vec<Shortcoming> {
    let mut known: Vec<u32> = marks.iter().map(|mark| mark.shard).collect();
    known.extend(wrong.iter().map(|shortcoming| shortcoming.first));
    known.sort_unstable();
    known.retain(|&number| number < of);
    let (mut missing, mut next) = (Vec::new(), 0);
    for number in known.into_iter().chain([of]) {
        if next < number {
            let what = "not done".into();
            missing.push(Shortcoming { first: next, last: number - 1, what });
        }
        next = number.saturating_add(1);
    }
    missing
}

impl Shortcoming {
    fn of(shard: u32, what: String) -> Self {
        Self { first: shard, last: shard, what }
    }
}

impl fmt::Display for Shortcoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, what } = self;
        match first == last {
            true => write!(f, "shard {first}: {what}"),
            false => write!(f, "shards {first} to {last}: {what}"),
        }
    }
}
