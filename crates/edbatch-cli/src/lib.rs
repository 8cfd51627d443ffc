//! The `edbatch` command, as a library: [`main`] takes the arguments and returns the exit code.
//!
//! The program `edbatch` and the Python package call it. It runs models in folders on files of
//! inputs, trains them, and learns policies for them. To use the engine from Rust, depend on the
//! crate `edbatch` instead.
//!
//! ```
//! assert_eq!(edbatch_cli::main(["edbatch", "--version"].map(Into::into)), 0);
//! ```
#![forbid(unsafe_code)]

mod corpora;
mod device;
mod failure;
mod infer;
mod inspect;
mod memory;
mod model;
mod out_of_memory;
mod output;
mod precision;
mod progress;
mod same_file;
mod sha256;
mod statistics;
mod trace;
mod train;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::str::FromStr;
use std::thread::available_parallelism;

use clap::{Parser, Subcommand, ValueEnum};
use edbatch_runtime::ThreadPool;

use corpora::shards;
use failure::Failure;
use inspect::{cells, compile, gradients, schedule};
use model::{export, init, learn};
pub use out_of_memory::reserve_is_used;
use train::evaluate;

/// Runs dynamic neural networks (over trees, sentences, lattices) with automatic batching.
#[derive(Parser)]
#[command(name = "edbatch", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Cells(cells::Cells),
    Compile(compile::Compile),
    Evaluate(evaluate::Evaluate),
    Export(export::Export),
    Gradients(gradients::Gradients),
    Infer(infer::Infer),
    Init(init::Init),
    Learn(learn::Learn),
    Schedule(schedule::Schedule),
    Shards(shards::Shards),
    Train(Box<train::Train>),
}

/// Runs the command line, which begins with the name of the program. Returns the exit code: 0 on
/// success, 1 on failure and 2 on wrong usage.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(Cli { command }) => command,
        Err(error) => {
            // Help and versions are such errors too. A failure to print cannot be printed.
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    let result = match command {
        Command::Cells(cells) => cells.run(),
        Command::Compile(compile) => compile.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Export(export) => export.run(),
        Command::Gradients(gradients) => gradients.run(),
        Command::Infer(infer) => infer.check().and_then(|()| match infer.shard() {
            Some((shard, dir)) => corpora::shard_run::run(&infer, shard, dir),
            None => infer.run(),
        }),
        Command::Init(init) => init.run(),
        Command::Learn(learn) => learn.run(),
        Command::Schedule(schedule) => schedule.run(),
        Command::Shards(shards) => shards.run(),
        Command::Train(train) => train.run(),
    };
    match result {
        // The program that reads the output has closed it.
        Ok(()) | Err(Failure::BrokenPipe) => 0,
        Err(Failure::Usage(message)) => fail(&message, 2),
        Err(Failure::Message(message)) => fail(&message, 1),
    }
}

fn fail(message: &str, code: u8) -> u8 {
    eprintln!("edbatch: {}", message.replace('\n', " "));
    code
}

/// Parses a positive number.
fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected an integer of at least 1".into())
}

/// Parses a number of threads.
fn number_of_threads(text: &str) -> Result<usize, String> {
    let max = ThreadPool::MAX_THREADS;
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| format!("expected an integer from 1 to {max}"))
}

/// Parses a probability below 1.
fn probability<T: FromStr + PartialOrd + From<f32>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (T::from(0.0)..T::from(1.0)).contains(number));
    number.ok_or_else(|| "expected a number from 0 to below 1".into())
}

/// Returns the value of an option `--threads`, by default the number of cores.
fn threads_or_cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
}

/// Returns the name of a value on the command line.
fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().into()
}

/// Returns `None` if a file does not exist.
fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// The example of the crate's own README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;
