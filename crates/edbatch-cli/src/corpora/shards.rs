//! `edbatch shards`: checks the shards of a corpus, and concatenates their results.

mod cat;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use edbatch_datasets::{partial_files, remove_leftovers};

use super::shard::is_shard_file;
use super::shard_mark::Mark;
use crate::failure::Failure;
use crate::output::print;
use verify::{Verified, verify};

/// Checks and concatenates the results of `infer --shard` in a folder.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch shards check out
  edbatch shards cat out > results.jsonl")]
pub(crate) struct Shards {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists the shards that are missing or invalid, and the total counts.
    ///
    /// A shard is valid if its part matches the checksum in its mark, and if all marks agree on
    /// model, inputs, division and arithmetic. The exit code is 1 unless all shards are valid.
    /// Removes the partial files of killed runs.
    #[command(after_help = "Example:\n  edbatch shards check out")]
    Check(Folder),
    /// Writes the lines of all shards in the order of their numbers.
    ///
    /// The output equals the output of one process, byte by byte. All shards are checked first;
    /// nothing is written unless all are valid.
    #[command(after_help = "Example:\n  edbatch shards cat out > results.jsonl")]
    Cat(Folder),
}

#[derive(Args)]
struct Folder {
    /// Folder with the parts and their marks.
    dir: PathBuf,
}

impl Shards {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.verb {
            Verb::Check(folder) => check(folder),
            Verb::Cat(folder) => {
                let verified = verify(&folder.dir)?;
                folder.expect_complete(&verified)?;
                cat::cat(&folder.dir, &verified.marks)
            }
        }
    }
}

fn check(folder: &Folder) -> Result<(), Failure> {
    let verified = verify(&folder.dir)?;
    // Files that cannot be removed are counted below.
    let _ = remove_leftovers(&folder.dir, is_shard_file);
    let partials = partial_files(&folder.dir, is_shard_file);
    let partials = partials.map_err(|error| Failure::reading(&folder.dir, &error))?.len();
    let mut report = String::new();
    for problem in &verified.problems {
        report.push_str(&format!("{problem}\n"));
    }
    let sum = |count: fn(&Mark) -> u64| {
        verified.marks.iter().map(|mark| u128::from(count(mark))).sum::<u128>()
    };
    report.push_str(&format!(
        "{} of {} shards are done: {} lines, {} without results\n",
        verified.marks.len(),
        verified.of,
        sum(|mark| mark.lines),
        sum(|mark| mark.failed),
    ));
    if partials > 0 {
        report.push_str(&format!("partial files of running processes: {partials}\n"));
    }
    print(&report)?;
    folder.expect_complete(&verified)
}

impl Folder {
    fn expect_complete(&self, verified: &Verified) -> Result<(), Failure> {
        if verified.problems.is_empty() {
            return Ok(());
        }
        let (done, of) = (verified.marks.len(), verified.of);
        let what = format_args!("{done} of {of} shards are valid; run the others again");
        Err(Failure::at(&self.dir, what))
    }
}
