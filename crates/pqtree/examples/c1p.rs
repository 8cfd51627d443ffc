//! Reads consecutive-ones instances, and says for each what a PQ-tree makes of it.
//!
//! ```text
//! cargo run --release -p pqtree --example c1p -- [--answers] FILE…
//! ```
//!
//! A file, plain or `.gz`, holds instances: `p c1p n m total`, then m restrictions `k a1 … ak` of leaves from 0; lines
//! that begin with `c` are comments. Restrictions are reduced in order, and skipped if they cannot be.
//!
//! Printed for each instance, separated by tabs: file, n, restrictions, elements, accepted, decision hash, P-nodes,
//! Q-nodes, log2 of the orders, nanoseconds per element (making the tree and all reductions, without reading), bytes of
//! the tree. With `--answers`: a 1 for each accepted restriction and a 0 for each other, and the number of orders.

use flate2::read::GzDecoder;
use pqtree::PqTree;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut answers = false;
    let mut files = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--answers" => answers = true,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        return Err("usage: c1p [--answers] FILE…".into());
    }
    for file in files {
        let mut lines = open(&file)?.lines();
        while let Some(instance) =
            next_instance(&mut lines).map_err(|error| format!("{file}: {error}"))?
        {
            println!("{}", if answers { answer(&instance) } else { measure(&file, &instance) });
        }
    }
    Ok(())
}

/// The restrictions of an instance, end to end.
struct Instance {
    leaves: u32,
    elements: Vec<u32>,
    /// Where each restriction ends in `elements`.
    ends: Vec<usize>,
}

impl Instance {
    fn restrictions(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| &self.elements[std::mem::replace(&mut begin, end)..end])
    }
}

fn open(file: &str) -> Result<Box<dyn BufRead>, Box<dyn Error>> {
    let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
    let plain: Box<dyn Read> =
        if file.ends_with(".gz") { Box::new(GzDecoder::new(opened)) } else { Box::new(opened) };
    Ok(Box::new(BufReader::with_capacity(1 << 20, plain)))
}

fn next_instance(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Result<Option<Instance>, Box<dyn Error>> {
    let mut lines = lines.filter(|line| {
        !line.as_ref().is_ok_and(|line| line.starts_with('c') || line.trim().is_empty())
    });
    let Some(header) = lines.next().transpose()? else {
        return Ok(None);
    };
    let fields = header
        .strip_prefix("p c1p")
        .ok_or_else(|| format!("expected `p c1p n m total`, got {header:?}"))?;
    let fields = numbers(fields)?;
    let &[leaves, restrictions, total] = fields.as_slice() else {
        return Err(format!("expected `p c1p n m total`, got {header:?}").into());
    };
    let mut instance =
        Instance { leaves, elements: Vec::with_capacity(total as usize), ends: Vec::new() };
    for _ in 0..restrictions {
        let line = lines.next().ok_or("the file ends within an instance")??;
        let mut fields = numbers(&line)?.into_iter();
        let count = fields.next().unwrap_or(0) as usize;
        if fields.len() != count {
            return Err(format!("expected {count} leaves, got {}: {line:?}", fields.len()).into());
        }
        instance.elements.extend(fields);
        instance.ends.push(instance.elements.len());
    }
    Ok(Some(instance))
}

fn numbers(line: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    let number =
        |field: &str| field.parse().map_err(|_| format!("expected a number, got {field:?}").into());
    line.split_ascii_whitespace().map(number).collect()
}

fn measure(file: &str, instance: &Instance) -> String {
    let mut accepted = Vec::with_capacity(instance.ends.len());
    let start = Instant::now();
    let mut tree = PqTree::new(instance.leaves);
    for restriction in instance.restrictions() {
        accepted.push(tree.reduce(restriction).is_ok());
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / instance.elements.len().max(1) as f64;
    let (p_nodes, q_nodes) = tree.count_nodes();
    format!(
        "{file}\t{}\t{}\t{}\t{}\t{:016x}\t{p_nodes}\t{q_nodes}\t{:.3}\t{nanoseconds:.1}\t{}",
        instance.leaves,
        instance.ends.len(),
        instance.elements.len(),
        accepted.iter().filter(|&&accepted| accepted).count(),
        decision_hash(&accepted),
        tree.orders_log2(),
        tree.bytes(),
    )
}

fn decision_hash(accepted: &[bool]) -> u64 {
    accepted.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &accepted| {
        (hash ^ if accepted { 1 } else { 2 }).wrapping_mul(0x0100_0000_01b3)
    })
}

fn answer(instance: &Instance) -> String {
    let mut tree = PqTree::new(instance.leaves);
    let mut line = String::with_capacity(instance.ends.len() + 40);
    for restriction in instance.restrictions() {
        line.push(if tree.reduce(restriction).is_ok() { '1' } else { '0' });
    }
    match tree.orders_count() {
        Some(count) => write!(line, " {count}").expect("a string takes anything"),
        None => line.push_str(" more than 2^128"),
    }
    line
}
