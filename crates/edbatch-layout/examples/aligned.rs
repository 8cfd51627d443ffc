//! Lays out the problems of aligned-layout files. Prints two numbers for each: 1 if a layout
//! without copies exists, else 0; and the number of copies.
//!
//! ```text
//! cargo run --release -p edbatch-layout --example aligned -- [--summary] FILE…
//! ```
//!
//! With `--summary` it prints only the number of plans that agree with the answers in the files,
//! and the time.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use edbatch_layout::aligned::{Search, plan};
use text::{Instance, parse};

#[path = "../tests/it/aligned/text.rs"]
mod text;

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

/// Counts of plans that agree with the answers.
#[derive(Default, Debug)]
#[allow(dead_code)] // `Debug` reads the fields.
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
