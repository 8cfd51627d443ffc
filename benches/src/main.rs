//! The program that `cargo xtask bench` and `cargo xtask gpu` run: measures and writes reports.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use edbatch_benches::Failure;
use edbatch_benches::measure::assets::output;
use edbatch_benches::measure::device::Device;
use edbatch_benches::measure::gpu::pack::{Contents, compile, pack};
use edbatch_benches::measure::gpu::predict::predicted;
use edbatch_benches::measure::options::{DeviceKind, Options, Part};
use edbatch_benches::measure::plain::gemm::choices;
use edbatch_benches::measure::rounds::LAPS;
use edbatch_benches::measure::run::{Context, Pace, Step, families, steps};
use edbatch_benches::measure::visits::{Budget, WINDOW, visits};
use edbatch_benches::pulse::with_pulse;
use edbatch_benches::record::finding::{Finding, Outcome};
use edbatch_benches::record::journal::{Journal, read};
use edbatch_benches::record::machine::Machine;
use edbatch_benches::record::sorted::Sorted;
use edbatch_benches::record::{Figures, Record};
use edbatch_benches::render::against::changes;
use edbatch_benches::render::docs::write_docs;
use edbatch_benches::render::page::page;
use edbatch_benches::render::summary::{outcome, summary};
use edbatch_benches::render::tables::tables;
use edbatch_datasets::write_atomic;
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
    // Read first, so that a wrong name does not cost an hour's figures.
    let read = |path: &PathBuf| read(path).map_err(|error| format!("{}: {error}", path.display()));
    let old = options.against.as_ref().map(read).transpose()?;
    if let Some(done) = make_pack(options) {
        return done;
    }
    if options.predict {
        println!("{}", predicted(options, &families(options)?)?);
        return Ok(());
    }
    let device = open_device(options)?;
    let families = families(options)?;
    let steps = steps(options, &families)?;
    let mut machine = Machine::here();
    if let Some(device) = &device {
        machine.device = device.to_string();
    }
    let (folder, name, page_name) = match options.gpu {
        true => ("gpu", "gpu.json", "gpu.html"),
        false => ("bench", "records.jsonl", "index.html"),
    };
    let path = options.json.clone().unwrap_or_else(|| output(folder, name));
    let mut journal = match options.resume {
        true => Journal::resume(&path, &machine)?,
        false => Journal::new(&path),
    };
    let context = Context::new(options, device.as_ref());
    let (activity, started) = (Mutex::new("preparing".to_string()), Instant::now());
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed}] {wide_msg}");
    let bar = ProgressBar::new(0).with_style(style.expect("the template is correct"));
    let say = || {
        // On a terminal, the progress bar shows the activity.
        if bar.is_hidden() {
            let activity = activity.lock().unwrap_or_else(PoisonError::into_inner);
            // If the pipe is closed, the run fails when it prints its next figures.
            let _ = writeln!(std::io::stdout(), "  {} {activity}", clock(started.elapsed()));
        }
    };
    with_pulse(Duration::from_secs_f64(options.pulse), say, || {
        measure(options, &steps, context, &machine, &mut journal, (&bar, &activity))
    })?;

    let records = journal.records();
    let mut out = std::io::stdout().lock();
    if options.tables {
        for table in tables(records) {
            writeln!(out, "\n{table}")?;
        }
        writeln!(out, "\nThe fastest libraries for the products of all systems except ours:")?;
        for choice in choices() {
            writeln!(out, "  {choice}")?;
        }
    }
    writeln!(out, "\n{}", summary(records))?;
    if let Some(old) = old {
        write!(out, "\n{}", changes(&old, records))?;
    }
    let html = match (&options.html, &options.json) {
        (Some(html), _) => html.clone(),
        (None, Some(json)) if options.gpu => json.with_extension("html"),
        (None, _) => output(folder, page_name),
    };
    let failure = |error| format!("{}: {error}", html.display());
    std::fs::create_dir_all(html.parent().unwrap_or(Path::new(""))).map_err(failure)?;
    write_atomic(&html, page(records).as_bytes()).map_err(failure)?;
    if options.docs {
        write_docs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), records)?;
    }
    writeln!(out, "Records: {}", journal.path().display())?;
    writeln!(out, "Page: {}", html.display())?;
    // Everything is written, even if a check failed.
    Sorted::new(records).failure().map_or(Ok(()), |failure| Err(failure.into()))
}

/// Opens the device, if the options name one. If the device is missing and is only one of several
/// backends, prints a message.
fn open_device(options: &Options) -> Result<Option<Device>, Failure> {
    if !options.on_cuda() && !options.requires_device() {
        return Ok(None);
    }
    let only_verify = options.only == [Part::Verify];
    if let Some(driver) = std::env::var_os("EDBATCH_CUDA").filter(|_| !only_verify) {
        let driver = driver.display();
        return Err(format!(
            "EDBATCH_CUDA={driver} would replace the kernels of every system: unset it, or use \
             --only verify"
        )
        .into());
    }
    match Device::open(options.device == DeviceKind::Emulated) {
        Ok(device) => Ok(Some(device)),
        Err(error) if options.requires_device() => Err(format!(
            "{error}\na GPU of compute capability 8.0 or later is needed, with NVIDIA's driver 530 \
             or later, and NVRTC unless kernels were compiled ahead (docs/cuda.md); for a \
             rehearsal without one: --device emulated"
        )
        .into()),
        Err(error) => {
            eprintln!("cuda: {error}; skipped");
            Ok(None)
        }
    }
}

/// Makes a pack, or compiles the kernels of one, if the options say so.
fn make_pack(options: &Options) -> Option<Result<(), Failure>> {
    if let Some(folder) = &options.pack {
        // Passes the other options on to the process that compiles the kernels.
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let is_pack = |argument: &String| argument.starts_with("--pack");
        let at = arguments.iter().position(is_pack).expect("the option was parsed");
        let length = if arguments[at].contains('=') { 1 } else { 2 };
        let same = [&arguments[..at], &arguments[at + length..]].concat();
        return Some(pack(folder, &same));
    }
    let compile = || {
        let mut families = families(options)?;
        families.dedup_by_key(|family| family.model);
        let workloads = families.iter().map(|family| (family, options.hidden(family))).collect();
        let (arch, models, networks) = (&*options.arch, &*options.models, options.networks());
        compile(&Contents { arch, models, networks, workloads })
    };
    options.compile.then(compile)
}

/// Runs the steps that the journal lacks. Prints and records the outcome of each after its last
/// lap, or with fewer laps when the time is over. On a device each step is complete before the next
/// one begins, and a step that fails is a finding.
fn measure<'a>(
    options: &Options,
    steps: &[Step<'a>],
    mut context: Context<'a>,
    machine: &Machine,
    journal: &mut Journal,
    (bar, activity): (&ProgressBar, &Mutex<String>),
) -> Result<(), Failure> {
    let left: Vec<&Step<'a>> = steps.iter().filter(|step| !journal.has(&step.name)).collect();
    let visits = visits(&left, if options.gpu { 1 } else { WINDOW });
    bar.set_length(visits.len() as u64);
    let started = Instant::now();
    let end = options.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let mut budget = Budget::new(options.limit(), visits.iter().map(|&(_, step)| step));
    let mut number = steps.len() - left.len();
    let mut complete = |name: &str, figures: Vec<Figures>, left: f64, number: usize| {
        let left = match left {
            ..60.0 => String::new(),
            seconds => format!(" ({} left)", clock(Duration::from_secs_f64(seconds))),
        };
        let (of, time) = (steps.len(), clock(started.elapsed()));
        let line = format!("{number:>3}/{of} {time}{left} {name}: {}", outcome(&figures));
        bar.suspend(|| writeln!(std::io::stdout(), "{line}"))?;
        journal.add(figures.into_iter().map(|of| record(of, name, machine.clone())).collect())
    };
    // The figures of incomplete steps, and the seconds of their last laps.
    let mut pending: BTreeMap<&str, (Vec<Figures>, f64)> = BTreeMap::new();
    let mut failure = None;
    for (lap, step) in visits {
        if end.is_some_and(|end| started.elapsed() >= end) {
            let left = steps.len() - number - pending.len();
            bar.suspend(|| println!("The time is over; {left} steps are left (--resume)."));
            break;
        }
        let name = &step.name;
        bar.inc(1);
        let seconds = budget.next(step);
        let is_last = step.pace != Pace::Laps || lap + 1 == LAPS;
        let took = pending.get(&**name).map_or(0.0, |(_, took)| *took);
        // A lap takes about as long as the last one. If the time is short, the next step has it.
        let fits = options.minutes.is_none() || seconds.is_none_or(|seconds| took <= seconds);
        let now = |what: &str| {
            let now = format!("lap {} of {LAPS}: {name}{what}", lap + 1);
            *activity.lock().unwrap_or_else(PoisonError::into_inner) = now.clone();
            bar.set_message(now);
        };
        if fits {
            now("");
            let began = Instant::now();
            let visited = step.visit(&mut context, seconds, &mut |what| match step.pace {
                Pace::Long => bar.suspend(|| println!("{what}")),
                _ => now(&format!(": {what}")),
            });
            let figures = match visited {
                Ok(figures) if figures.is_empty() => continue,
                Ok(figures) => figures,
                Err(failure) if options.gpu => vec![failed(name, &failure)],
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            pending.insert(name, (figures, began.elapsed().as_secs_f64()));
        }
        if !is_last {
            continue;
        }
        if let Some((name, (figures, _))) = pending.remove_entry(&**name) {
            number += 1;
            complete(name, figures, budget.left(), number)?;
        }
    }
    for (name, (figures, _)) in pending {
        number += 1;
        complete(name, figures, 0.0, number)?;
    }
    bar.finish_and_clear();
    failure.map_or(Ok(()), Err)
}

/// The figure of a step that failed.
fn failed(step: &str, failure: &Failure) -> Figures {
    Figures::Device(Finding::new("run", step, Outcome::Failed, failure.to_string()))
}

fn record(figures: Figures, step: &str, mut machine: Machine) -> Record {
    if !Sorted::of([&figures]).is_of_device() {
        machine.device = "cpu".into();
    }
    Record { figures, step: step.into(), machine }
}

/// Formats a duration in minutes and seconds.
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
