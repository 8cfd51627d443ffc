//! Checks that all shards of a folder exist, are intact, and have the same model and inputs.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::corpora::shard::{Division, number_of_mark};
use crate::corpora::shard_mark::{Mark, MarkedFile};
use crate::corpora::shard_run::verify_part;
use crate::failure::Failure;

/// The marks of the valid shards, in order, and the problems of the others.
pub(super) struct Verified {
    pub(super) marks: Vec<Mark>,
    /// The expected number of shards.
    pub(super) of: u32,
    pub(super) problems: Vec<Problem>,
}

/// A problem of the shards `first..=last`.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Problem {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) what: String,
}

/// Reads all marks in a folder, and the files of results that they describe.
pub(super) fn verify(dir: &Path) -> Result<Verified, Failure> {
    let (mut marks, mut problems) = (Vec::new(), Vec::new());
    for number in numbers(dir)? {
        match Mark::read(dir, number) {
            Ok(mark) => marks.extend(mark),
            Err(what) => problems.push(Problem::of(number, what)),
        }
    }
    let Some(majority) = majority(&marks).cloned() else {
        let what = "expected the marks of shards, such as part-00000.done, got no valid mark";
        return Err(Failure::at(dir, what));
    };
    retain_valid(&mut marks, &mut problems, |mark| compare(mark, &majority));
    let misnumbered = misnumbered(&marks);
    retain_valid(&mut marks, &mut problems, |mark| match misnumbered.contains(&mark.shard) {
        true => Err("its input numbers do not continue from the previous file".into()),
        false => Ok(()),
    });
    retain_valid(&mut marks, &mut problems, |mark| verify_part(dir, mark));
    problems.extend(missing(&marks, &problems, majority.of));
    problems.sort_by_key(|problem| problem.first);
    Ok(Verified { marks, of: majority.of, problems })
}

/// Removes the marks that fail `check`, and adds a problem for each.
fn retain_valid(
    marks: &mut Vec<Mark>,
    problems: &mut Vec<Problem>,
    check: impl Fn(&Mark) -> Result<(), String>,
) {
    marks.retain(|mark| match check(mark) {
        Ok(()) => true,
        Err(what) => {
            problems.push(Problem::of(mark.shard, what));
            false
        }
    });
}

/// Returns the shard numbers in the names of a folder's mark files (`part-00000.done`), in order.
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

/// Returns a mark that agrees with the largest number of marks. Ties go to the first.
fn majority(marks: &[Mark]) -> Option<&Mark> {
    let mut counts: Vec<(&Mark, usize)> = Vec::new();
    for mark in marks {
        match counts.iter_mut().find(|(other, _)| compare(mark, other).is_ok()) {
            Some((_, count)) => *count += 1,
            None => counts.push((mark, 1)),
        }
    }
    let max = counts.iter().map(|&(_, count)| count).max()?;
    counts.into_iter().find(|&(_, count)| count == max).map(|(mark, _)| mark)
}

/// Fails if two marks differ in the number of shards, the model, the arithmetic or the inputs.
fn compare(mark: &Mark, majority: &Mark) -> Result<(), String> {
    let differs = if mark.of != majority.of {
        format!("is one of {} shards; most are of {}", mark.of, majority.of)
    } else if mark.model != majority.model {
        format!("has the model {}…; most have {}…", &mark.model[..12], &majority.model[..12])
    } else if mark.arithmetic != majority.arithmetic {
        format!("has the arithmetic {}; most have {}", mark.arithmetic, majority.arithmetic)
    } else if (mark.division, mark.inputs) != (majority.division, majority.inputs) {
        format!("has {} input files; most have {}", mark.inputs, majority.inputs)
    } else if mark.division == Division::Lines && mark.input != majority.input {
        format!("has the inputs {}…; most have {}…", &mark.input[..12], &majority.input[..12])
    } else {
        return Ok(());
    };
    Err(differs)
}

/// Returns the shards with a file whose input numbers do not continue those in the previous file.
/// Checks only shards of whole files.
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

/// Returns a problem for every range of shards without a mark.
fn missing(marks: &[Mark], problems: &[Problem], of: u32) -> Vec<Problem> {
    let mut known: Vec<u32> = marks.iter().map(|mark| mark.shard).collect();
    known.extend(problems.iter().map(|problem| problem.first));
    known.sort_unstable();
    known.retain(|&number| number < of);
    let (mut missing, mut next) = (Vec::new(), 0);
    for number in known.into_iter().chain([of]) {
        if next < number {
            let what = "not done".into();
            missing.push(Problem { first: next, last: number - 1, what });
        }
        next = number.saturating_add(1);
    }
    missing
}

impl Problem {
    fn of(shard: u32, what: String) -> Self {
        Self { first: shard, last: shard, what }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, what } = self;
        match first == last {
            true => write!(f, "shard {first}: {what}"),
            false => write!(f, "shards {first} to {last}: {what}"),
        }
    }
}
