//! `edbatch shards`: whether the shards of a corpus are done, and all of their lines in order.

mod cat;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::output::Output;
use super::shard_file::{partials, remove_leftovers};
use super::shard_mark::Mark;
use verify::{Verified, verify};

/// Checks what `infer --shard` has left in a folder, and puts it together.
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
    /// Says which shards lack or do not fit, and the sum of their counts.
    ///
    /// A shard fits if its part has the bytes that its mark says, and if all marks are of one
    /// model, one division of the same inputs, and one arithmetic. Exits with 1 unless all do.
    /// Removes partial files that killed runs have left.
    #[command(after_help = "Example:\n  edbatch shards check out")]
    Check(Folder),
    /// Writes the lines of all shards in the order of their numbers: the bytes that one process
    /// would have written. Checks all shards first, and writes nothing unless all of them fit.
    #[command(after_help = "Example:\n  edbatch shards cat out > results.jsonl")]
    Cat(Folder),
}

#[derive(Args)]
struct Folder {
    /// The folder with the parts and their marks.
    dir: PathBuf,
}

impl Shards {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.verb {
            Verb::Check(folder) => check(folder),
            Verb::Cat(folder) => {
                let verified = verify(&folder.dir)?;
                folder.complete(&verified)?;
                cat::cat(&folder.dir, &verified.marks)
            }
        }
    }
}

fn check(folder: &Folder) -> Result<(), Failure> {
    let verified = verify(&folder.dir)?;
    // What cannot be removed is counted below.
    let _ = remove_leftovers(&folder.dir);
    let partials = partials(&folder.dir)?.len();
    let mut said = String::new();
    for shortcoming in &verified.shortcomings {
        said.push_str(&format!("{shortcoming}\n"));
    }
    let sum = |count: fn(&Mark) -> u64| {
        verified.marks.iter().map(|mark| u128::from(count(mark))).sum::<u128>()
    };
    said.push_str(&format!(
        "{} of {} shards are done: {} lines, {} of them without results\n",
        verified.marks.len(),
        verified.of,
        sum(|mark| mark.lines),
        sum(|mark| mark.failed),
    ));
    if partials > 0 {
        said.push_str(&format!("partial files of runs that are under way: {partials}\n"));
    }
    let mut output = Output::open(None)?;
    output.write(said.as_bytes())?;
    output.finish()?;
    folder.complete(&verified)
}

impl Folder {
    fn complete(&self, verified: &Verified) -> Result<(), Failure> {
        if verified.shortcomings.is_empty() {
            return Ok(());
        }
        let (done, of) = (verified.marks.len(), verified.of);
        let what = format_args!("{done} of {of} shards are there and fit; run the others again");
        Err(Failure::at(&self.dir, what))
    }
}
