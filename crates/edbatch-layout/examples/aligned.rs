//! Lays out the instances of aligned-layout files: `feasible copies` per instance.
//!
//! ```text
//! cargo run --release -p edbatch-layout --example aligned -- [--summary] FILE…
//! ```
//!
//! An instance is `I variables batches`; per batch `B operands lanes` and a line of variables for each operand; at the end
//! `R feasible copies`, the answer. Lines that begin with `#` are comments. With `--summary` nothing but the agreement with
//! the answers, and the time, is printed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use edbatch_layout::aligned::{Batch, Problem, Search, plan};

const USAGE: &str = "usage: aligned [--summary] FILE…";

fn main() -> ExitCode {
    let (flags, files): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if flags.iter().any(|flag| flag == "--help") {
        println!("{USAGE}\n\nexample: aligned aligned.txt");
        return ExitCode::SUCCESS;
    }
    let summary = flags == ["--summary"];
    if files.is_empty() || !(flags.is_empty() || summary) {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut agreement = Agreement::default();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        let instances = match text.and_then(|text| parse(&text)) {
            Ok(instances) => instances,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        };
        for instance in instances {
            let (feasible, copies) = agreement.run(&instance);
            if !summary {
                println!("{} {copies}", u8::from(feasible));
            }
        }
    }
    if summary {
        println!("{agreement:?}");
    }
    ExitCode::SUCCESS
}

/// How many plans agree with the answers.
#[derive(Default, Debug)]
#[allow(dead_code)] // Read by `Debug`.
struct Agreement {
    instances: usize,
    feasible_flags: usize,
    copies: usize,
    proved: usize,
    planning: Duration,
}

impl Agreement {
    fn run(&mut self, instance: &Instance) -> (bool, usize) {
        let start = Instant::now();
        let layout = plan(&instance.problem, Search::default());
        self.planning += start.elapsed();
        self.instances += 1;
        self.proved += usize::from(layout.proved);
        if let Some((feasible, copies)) = instance.answer {
            self.feasible_flags += usize::from(feasible == layout.feasible);
            self.copies += usize::from(copies == layout.copies);
        }
        (layout.feasible, layout.copies)
    }
}

struct Instance {
    problem: Problem,
    answer: Option<(bool, usize)>,
}

fn parse(text: &str) -> Result<Vec<Instance>, String> {
    let mut instances: Vec<Instance> = Vec::new();
    let (mut operands, mut lanes) = (0, 0);
    for (number, line) in (1..).zip(text.lines()) {
        let error = |what: &str| format!("line {number}: expected {what}, got `{line}`");
        let mut words = line.split_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        let tagged = first.parse::<u32>().is_err();
        let numbers: Result<Vec<u32>, _> =
            line.split_whitespace().skip(usize::from(tagged)).map(str::parse).collect();
        let numbers = numbers.map_err(|_| error("numbers"))?;
        if tagged && operands > 0 {
            return Err(error("an operand"));
        }
        match (first, &numbers[..]) {
            ("I", &[variables, _]) => {
                let problem = Problem { variables, batches: Vec::new() };
                instances.push(Instance { problem, answer: None });
                continue;
            }
            ("I", _) => return Err(error("`I variables batches`")),
            _ => {}
        }
        let instance = instances.last_mut().ok_or_else(|| error("`I variables batches`"))?;
        match (first, &numbers[..]) {
            ("B", &[m, k]) => {
                (operands, lanes) = (m, k as usize);
                instance.problem.batches.push(Batch::default());
            }
            ("R", &[feasible, copies]) => instance.answer = Some((feasible == 1, copies as usize)),
            _ if !tagged && operands > 0 && numbers.len() == lanes => {
                operands -= 1;
                let batch = instance.problem.batches.last_mut().ok_or_else(|| error("`B …`"))?;
                batch.operands.extend(Batch::uniform([numbers], 1).operands);
            }
            _ => return Err(error("`B operands lanes`, an operand, or `R feasible copies`")),
        }
    }
    for (index, instance) in (1..).zip(&instances) {
        instance.problem.check().map_err(|error| format!("instance {index}: {error}"))?;
    }
    Ok(instances)
}
