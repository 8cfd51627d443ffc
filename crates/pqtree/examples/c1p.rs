//! Reads consecutive-ones instances, and prints the results of a PQ-tree for each.

use flate2::read::GzDecoder;
use pqtree::{PqTree, ReduceError};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::ExitCode;
use std::time::Instant;

#[path = "../dev/c1p_text.rs"]
mod c1p_text;

use c1p_text::{Instance, Lines};

const HELP: &str = "\
Reads consecutive-ones instances, and prints the results of a PQ-tree for each.

Usage: c1p [--answers] FILE…

A file, plain or .gz, holds instances: `p c1p n m total`, then m restrictions
`k a1 … ak` of leaves from 0. Lines that begin with c are comments. Restrictions
are reduced in order; those that do not fit are skipped.

Prints for each instance, separated by tabs: file, n, restrictions, elements,
accepted, decision hash, P-nodes, Q-nodes, log2 of the number of orders,
nanoseconds per element (to make and reduce the tree), bytes of the tree.

Options:
  --answers  Print a 1 for each accepted restriction and a 0 for each refused
             one, and the number of orders, or a lower bound if it has more than
             6,000 digits
  --help     Print this help

Exit codes: 0, all instances were read; 1, a file cannot be read, has no
instance or a syntax error, which is printed with its line, or needs too much
memory; 2, wrong usage.
";

/// Returns the output line for an instance of the named file.
type Print = fn(&str, &Instance) -> Result<String, String>;

/// The command and its files.
enum Request {
    Help,
    Measure(Vec<String>),
    Answer(Vec<String>),
}

fn main() -> ExitCode {
    let (print, files): (Print, _) = match request() {
        Ok(Request::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Request::Measure(files)) => (measure, files),
        Ok(Request::Answer(files)) => (|_, instance| answer(instance), files),
        Err(error) => {
            eprintln!("error: {error}\nTry `c1p --help`.");
            return ExitCode::from(2);
        }
    };
    for file in files {
        if let Err(error) = run(&file, print) {
            eprintln!("error: {file}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn request() -> Result<Request, String> {
    let (mut answers, mut files) = (false, Vec::new());
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(Request::Help),
            Some("--answers") => answers = true,
            Some(option) if option.starts_with('-') => {
                return Err(format!("unknown option {option}"));
            }
            Some(file) => files.push(file.to_string()),
            None => return Err(format!("{} is not UTF-8", argument.display())),
        }
    }
    match files.is_empty() {
        true => Err("expected a file".to_string()),
        false if answers => Ok(Request::Answer(files)),
        false => Ok(Request::Measure(files)),
    }
}

fn run(file: &str, print: Print) -> Result<(), String> {
    let mut lines = Lines::new(open(file)?);
    let mut count = 0;
    while let Some(instance) = lines.instance()? {
        // Fails if the reader closes the pipe, such as `head`.
        writeln!(std::io::stdout(), "{}", print(file, &instance)?)
            .map_err(|error| error.to_string())?;
        count += 1;
    }
    if count == 0 {
        return Err("expected at least one instance, `p c1p n m total`".to_string());
    }
    Ok(())
}

fn open(file: &str) -> Result<Box<dyn BufRead>, String> {
    let opened = File::open(file).map_err(|error| error.to_string())?;
    let plain: Box<dyn Read> =
        if file.ends_with(".gz") { Box::new(GzDecoder::new(opened)) } else { Box::new(opened) };
    Ok(Box::new(BufReader::with_capacity(1 << 20, plain)))
}

/// Reduces a restriction. Its leaves were checked when it was read.
fn is_accepted(tree: &mut PqTree, restriction: &[u32]) -> bool {
    match tree.reduce(restriction) {
        Ok(_) => true,
        Err(ReduceError::Conflict) => false,
        Err(error) => unreachable!("the leaves were checked: {error}"),
    }
}

/// Fails if the memory to answer an instance cannot be allocated, because a reduction that runs out
/// of memory aborts the program.
fn check_memory(instance: &Instance) -> Result<(), String> {
    let [leaves, sets, elements] =
        [instance.leaves as usize, instance.ends.len(), instance.elements.len()];
    let largest = instance.restrictions().map(<[u32]>::len).max().unwrap_or(0);
    // A reduction makes fewer nodes than its set has leaves. The tree adds some at once, and clears
    // merged ones late.
    let nodes = leaves.min(2 * elements) + leaves / 8 + 64;
    let tree = 12 * leaves + leaves / 8 + 24 * nodes;
    // Marks of the leaves of a set and of all nodes above them, in vectors that double.
    let marks = 100 * (2 * largest + leaves.min(2 * elements));
    let needed = (tree + marks) / 4 * 5 + 4 * sets + (4 << 20);
    Vec::<u8>::new().try_reserve_exact(needed).map_err(|_| {
        format!("expected {} MB of free memory for {leaves} leaves", needed.div_ceil(1_000_000))
    })
}

fn measure(file: &str, instance: &Instance) -> Result<String, String> {
    check_memory(instance)?;
    let mut accepted = Vec::with_capacity(instance.ends.len());
    let start = Instant::now();
    let mut tree = PqTree::try_new(instance.leaves).map_err(|error| error.to_string())?;
    for restriction in instance.restrictions() {
        accepted.push(is_accepted(&mut tree, restriction));
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / instance.elements.len().max(1) as f64;
    let (p_nodes, q_nodes) = tree.count_nodes();
    Ok(format!(
        "{file}\t{}\t{}\t{}\t{}\t{:016x}\t{p_nodes}\t{q_nodes}\t{:.3}\t{nanoseconds:.1}\t{}",
        instance.leaves,
        instance.ends.len(),
        instance.elements.len(),
        accepted.iter().filter(|&&accepted| accepted).count(),
        decision_hash(&accepted),
        tree.orders_log2(),
        tree.bytes(),
    ))
}

fn decision_hash(accepted: &[bool]) -> u64 {
    accepted.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &accepted| {
        (hash ^ if accepted { 1 } else { 2 }).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The largest number of orders that is printed in full, in bits.
const MAX_COUNT_BITS: f64 = 20_000.0;

fn answer(instance: &Instance) -> Result<String, String> {
    check_memory(instance)?;
    let mut tree = PqTree::try_new(instance.leaves).map_err(|error| error.to_string())?;
    let mut line = String::with_capacity(instance.ends.len() + 40);
    for restriction in instance.restrictions() {
        line.push(if is_accepted(&mut tree, restriction) { '1' } else { '0' });
    }
    let log2 = tree.orders_log2();
    // Exact counting takes quadratic time in the number of bits.
    let written = if log2 < MAX_COUNT_BITS {
        write!(line, " {}", tree.orders_count_exact())
    } else {
        write!(line, " more than 2^{}", log2.floor() - 1.0)
    };
    written.expect("writing to a string cannot fail");
    Ok(line)
}
