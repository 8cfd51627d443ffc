//! The benchmark's command, `cargo xtask bench`: measures, then prints a summary and writes a page.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use edbatch_benches::against::changes;
use edbatch_benches::docs::write_docs;
use edbatch_benches::files::write_file;
use edbatch_benches::journal::{Journal, read};
use edbatch_benches::machine::Machine;
use edbatch_benches::options::Options;
use edbatch_benches::page::page;
use edbatch_benches::plain::gemm::choices;
use edbatch_benches::record::Record;
use edbatch_benches::report::tables;
use edbatch_benches::rounds::LAPS;
use edbatch_benches::run::{Context, Step, families, steps};
use edbatch_benches::sorted::Sorted;
use edbatch_benches::summary::{outcome, summary};
use edbatch_benches::visits::{Budget, visits};
use edbatch_benches::workload::Failure;
use indicatif::{ProgressBar, ProgressStyle};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    // What is compared with is read first: an hour's figures are not lost for a wrong name.
    let read = |path: &PathBuf| read(path).map_err(|error| format!("{}: {error}", path.display()));
    let old = options.against.as_ref().map(read).transpose()?;
    let families = families(options)?;
    let steps = steps(options, &families)?;
    let machine = Machine::here();
    let path = options.json.clone().unwrap_or_else(|| beside_target("records.jsonl"));
    let mut journal = match options.resume {
        true => Journal::resume(&path, &machine)?,
        false => Journal::new(&path),
    };
    let context = Context::new(options, &families)?;
    measure(options, &steps, context, &machine, &mut journal)?;

    let records = journal.records();
    let mut out = std::io::stdout().lock();
    if options.tables {
        for table in tables(records) {
            writeln!(out, "\n{table}")?;
        }
        writeln!(out, "\nThe fastest libraries for the products of all but ours:")?;
        for choice in choices() {
            writeln!(out, "  {choice}")?;
        }
    }
    writeln!(out, "\n{}", summary(records))?;
    if let Some(old) = old {
        write!(out, "\n{}", changes(&old, records))?;
    }
    let html = options.html.clone().unwrap_or_else(|| beside_target("index.html"));
    write_file(&html, &page(records)?)?;
    if options.docs {
        write_docs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), records)?;
    }
    writeln!(out, "Records: {}", journal.path().display())?;
    writeln!(out, "Page: {}", html.display())?;
    // Measured and written, and still not what must be.
    let failure = Sorted::new(records).soaks.iter().find_map(|soak| soak.failure());
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Runs the steps that the journal lacks, and says of each what came out.
fn measure(
    options: &Options,
    steps: &[Step<'_>],
    mut context: Context<'_>,
    machine: &Machine,
    journal: &mut Journal,
) -> Result<(), Failure> {
    let left: Vec<&Step<'_>> =
        steps.iter().filter(|step| !journal.has(&step.name(options))).collect();
    let visits = visits(&left);
    let bar = bar(visits.len());
    let started = Instant::now();
    let mut budget = Budget::new(options.limit(), visits.iter().map(|&(_, step)| step));
    let mut number = steps.len() - left.len();
    let mut before = None;
    for (lap, step) in visits {
        let name = step.name(options);
        // In a pipe there is no bar, and most figures come in the last lap.
        if bar.is_hidden() && before.replace(lap) != Some(lap) {
            let (time, of) = (clock(started.elapsed()), steps.len());
            writeln!(
                std::io::stdout(),
                "  lap {} of {LAPS} {time}, {number} of {of} done",
                lap + 1
            )?;
        }
        let seconds = budget.next(step);
        let figures = step.run(&mut context, seconds, |what| {
            if step.is_long() {
                bar.suspend(|| println!("{what}"));
            } else {
                bar.set_message(format!("lap {} of {LAPS}: {name}: {what}", lap + 1));
            }
        })?;
        bar.inc(1);
        let Some(figures) = figures else { continue };
        number += 1;
        let left = match budget.left() {
            ..60.0 => String::new(),
            seconds => format!(" ({} left)", clock(Duration::from_secs_f64(seconds))),
        };
        let (of, time) = (steps.len(), clock(started.elapsed()));
        let line = format!("{number:>3}/{of} {time}{left} {name}: {}", outcome(&figures));
        bar.suspend(|| writeln!(std::io::stdout(), "{line}"))?;
        let record = |figures| Record { figures, step: name.clone(), machine: machine.clone() };
        journal.add(figures.into_iter().map(record).collect())?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Hours, if there are some, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// On a terminal: how many measurements are done, and what is being measured.
fn bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed}] {wide_msg}")
        .expect("the template is correct");
    ProgressBar::new(steps as u64).with_style(style)
}

/// Beside what cargo builds.
fn beside_target(name: &str) -> PathBuf {
    let target = std::env::current_exe().ok();
    let target = target.as_deref().and_then(|exe| exe.ancestors().nth(2));
    target.unwrap_or(Path::new("target")).join("bench").join(name)
}
