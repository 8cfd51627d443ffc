//! A run: part after part, each bounded in time, and what it found written at once.

use std::fs;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use edbatch::Rows;
use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::Parameters;

use super::device::Target;
use super::options::Options;
use super::record::{Figure, MeasuredOn, Outcome, Part, Record};
use super::{
    baseline, latencies, pack, page, probe, sanitize, stress, sweep, tables, throughput, verify,
};
use crate::families::{FAMILIES, Family};
use crate::files::write_file;
use crate::systems::System;
use crate::throughput::weights;
use crate::workload::{Failure, MiniBatch, Part as PartOfSet, Workload};

/// Does what the options say; false if something was found that should not be.
///
/// # Errors
/// If there is no device, or a file cannot be written.
pub fn run(options: &Options) -> Result<bool, Failure> {
    let files = Files::find()?;
    if options.compile {
        return pack::compile(options, &files).map(|()| true);
    }
    if let Some(folder) = &options.pack {
        return pack::pack(options, &files, folder).map(|()| true);
    }
    // Sanitizers choose by it; other records would have the wrong name.
    if let Some(driver) = std::env::var_os("EDBATCH_CUDA")
        && PARTS.iter().any(|&(part, ..)| part != Part::Verify && options.takes(part))
    {
        let driver = driver.display();
        return Err(format!(
            "EDBATCH_CUDA={driver} would be measured under every name: unset it, or choose \
             --only verify"
        )
        .into());
    }
    let target = Target::open(options.device)?;
    let json = options.json.clone().unwrap_or_else(|| files.outputs.join("gpu.json"));
    let html = options.html.clone().unwrap_or_else(|| json.with_extension("html"));
    let on = target.measured_on();
    let minutes = |minutes: f64| Duration::from_secs_f64(60.0 * minutes);
    let end = options.minutes.map(|all| Instant::now() + minutes(all));
    let mut context = Context { options, target, files, records: Vec::new() };
    println!("{}", tables::heading(&on));
    for (part, bound, carry_out) in PARTS {
        if !options.takes(part) {
            continue;
        }
        println!("\n{part}");
        let bound = Instant::now() + minutes(bound);
        let until = end.map_or(bound, |end| bound.min(end));
        let mut found = Findings { part, on: &on, until, records: Vec::new() };
        if found.is_over() {
            found.skipped(&part.to_string(), "the minutes were over before it began");
        } else if let Err(failure) = carry_out(&context, &mut found) {
            found.failed(&part.to_string(), &failure.to_string());
        }
        let Findings { records, .. } = found;
        context.records.extend(records);
        write_file(&json, &lines(&context.records)?)?;
    }
    write_file(&html, &page::page(&context.records)?)?;
    println!("\n{}", tables::summary(&context.records));
    println!("Records: {}\nPage: {}", json.display(), html.display());
    Ok(context.records.iter().all(|record| record.outcome != Outcome::Failed))
}

/// Carries a part out.
type CarryOut = fn(&Context<'_>, &mut Findings<'_>) -> Result<(), Failure>;

/// All parts, and after how many minutes each is stopped.
const PARTS: [(Part, f64, CarryOut); 8] = [
    (Part::Probe, 1.0, probe::run),
    (Part::Verify, 4.0, verify::run),
    (Part::Latencies, 2.0, latencies::run),
    (Part::Throughput, 7.5, throughput::run),
    (Part::Sanitize, 5.0, sanitize::run),
    (Part::Stress, 3.0, stress::run),
    (Part::Baseline, 5.0, baseline::run),
    (Part::Sweep, 4.0, sweep::run),
];

/// What parts need.
pub struct Context<'a> {
    /// What is wanted.
    pub options: &'a Options,
    /// The device.
    pub target: Target,
    /// What is read.
    pub files: Files,
    /// What parts before have found.
    pub records: Vec<Record>,
}

impl Context<'_> {
    /// A workload on mini-batches of a size, with what the CPU makes of them.
    pub(super) fn subject(
        &self,
        model: &str,
        hidden: usize,
        batch: usize,
    ) -> Result<Subject, Failure> {
        /// So that inputs rotate.
        const MINI_BATCHES: usize = 4;
        let family = family(model, self.options)?;
        let workload = family.at(hidden)?;
        let parameters = weights(&*workload);
        let instances = workload.instances(PartOfSet::Test);
        let mini_batches = MiniBatch::spread(instances, batch, MINI_BATCHES);
        let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
        let mut cpu =
            workload.contestant(System::Edbatch, &parameters, &unlearned, &mini_batches, 1)?;
        let expected = (0..MINI_BATCHES).map(|index| Ok(cpu.run(index)?.to_vec()));
        let expected = expected.collect::<Result<_, Failure>>()?;
        Ok(Subject { family, workload, parameters, mini_batches, expected })
    }
}

/// A model on its inputs. The set of a model that has several is the first.
pub(super) fn family(model: &str, options: &Options) -> Result<Family, Failure> {
    let entry = FAMILIES.iter().find(|(name, _)| *name == model);
    let (_, meet) = entry.expect("all models that are measured are in the table");
    Ok(meet(&options.source())?)
}

/// A model of a size, its mini-batches, and what they come to.
pub(super) struct Subject {
    pub(super) family: Family,
    pub(super) workload: Box<dyn Workload>,
    pub(super) parameters: Parameters,
    pub(super) mini_batches: Vec<MiniBatch>,
    /// By mini-batch, what the CPU computes.
    pub(super) expected: Vec<Vec<Rows>>,
}

/// What a part writes down, and when it must end.
pub struct Findings<'a> {
    part: Part,
    on: &'a MeasuredOn,
    until: Instant,
    records: Vec<Record>,
}

impl Findings<'_> {
    /// Whether the part's time is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// When it is.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    fn add(&mut self, what: &str, outcome: Outcome, note: &str) -> &mut Record {
        let record = Record {
            part: self.part,
            what: what.into(),
            outcome,
            figure: None,
            same_bits: None,
            predicted: None,
            ratio: None,
            note: note.into(),
            on: self.on.clone(),
        };
        if outcome != Outcome::Measured {
            println!("{}", tables::line(&record));
        }
        self.records.push(record);
        self.records.last_mut().expect("pushed above")
    }

    /// A figure, whether it is of results with the CPU's bits, and the design's estimate of it.
    pub(super) fn measured(
        &mut self,
        what: &str,
        figure: Figure,
        same_bits: Option<bool>,
        predicted: Option<f64>,
    ) {
        let rehearsal = self.on.rehearsal;
        let record = self.add(what, Outcome::Measured, if rehearsal { REHEARSAL } else { "" });
        record.predicted = predicted.filter(|_| !rehearsal);
        record.ratio = record.predicted.map(|predicted| figure.median / predicted);
        record.same_bits = same_bits;
        record.figure = Some(figure);
        println!("{}", tables::line(record));
    }

    /// Something is as it should be.
    pub(super) fn passed(&mut self, what: &str, note: &str) {
        self.add(what, Outcome::Passed, note);
    }

    /// Something is not as it should be.
    pub(super) fn failed(&mut self, what: &str, note: &str) {
        self.add(what, Outcome::Failed, note);
    }

    /// Something cannot be done here.
    pub(super) fn skipped(&mut self, what: &str, note: &str) {
        self.add(what, Outcome::Skipped, note);
    }

    /// The time was over.
    pub(super) fn stopped(&mut self, note: &str) {
        let what = self.part.to_string();
        self.add(&what, Outcome::Stopped, note);
    }
}

/// What stands beside figures of a device that is the host.
const REHEARSAL: &str = "a rehearsal: the time says nothing";

/// Where things lie: in the repository, or beside the program in a pack.
pub struct Files {
    /// A folder with a folder of goldens for each model.
    pub(super) goldens: PathBuf,
    /// The scripts in Python.
    pub(super) scripts: PathBuf,
    /// Where outputs are written unless options say otherwise.
    pub(super) outputs: PathBuf,
    /// The program itself.
    pub(super) program: PathBuf,
}

impl Files {
    /// Finds them.
    pub(super) fn find() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let beside = program.parent().unwrap_or(Path::new("."));
        if beside.join("goldens").is_dir() {
            let [goldens, scripts] = ["goldens", "peers"].map(|name| beside.join(name));
            return Ok(Self { goldens, scripts, outputs: beside.into(), program });
        }
        let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
        Ok(Self {
            goldens: benches.join("../crates/edbatch/tests/goldens-small"),
            scripts: benches.join("peers"),
            outputs: target.join("gpu"),
            program,
        })
    }
}

/// How a program ended that was given some time.
pub(super) struct Ended {
    /// `None` if the time was over.
    pub(super) status: Option<ExitStatus>,
    /// What it wrote to either output.
    pub(super) said: String,
}

/// Runs a program until it ends, or the time is over.
///
/// # Errors
/// If it does not start.
pub(super) fn run_until(mut command: Command, until: Instant) -> Result<Ended, Failure> {
    let name = format!("edbatch-gpu-{}-{:?}", std::process::id(), thread::current().id());
    let path = std::env::temp_dir().join(name);
    let file = fs::File::create(&path)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    // A group of its own: it may start others, which are to end with it.
    #[cfg(unix)]
    command.process_group(0);
    let ended = command.spawn().and_then(|mut child| {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                #[cfg(unix)]
                let _ = Command::new("kill")
                    .args(["-KILL", "--", &format!("-{}", child.id())])
                    .status();
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let said = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let _ = fs::remove_file(&path);
    let program = command.get_program().display().to_string();
    let status = ended.map_err(|error| format!("{program} does not start: {error}"))?;
    Ok(Ended { status, said: said? })
}

/// Records as lines of JSON.
fn lines(records: &[Record]) -> Result<String, Failure> {
    let lines = records.iter().map(|record| Ok(serde_json::to_string(record)? + "\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::super::setting::MODELS;
    use super::*;
    use crate::files::Scratch;

    #[test]
    fn all_models_that_are_measured_are_in_the_table() {
        for model in MODELS {
            assert!(FAMILIES.iter().any(|(name, _)| *name == model), "{model}");
        }
    }

    #[test]
    fn parts_are_bounded_and_come_in_their_order() {
        assert!(PARTS.iter().all(|(_, minutes, _)| *minutes < 8.0));
        assert!(PARTS.is_sorted_by_key(|(part, ..)| *part));
        assert!(PARTS.iter().map(|(_, minutes, _)| minutes).sum::<f64>() <= 32.0);
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let sleep = |seconds: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo said; sleep {seconds}")]);
            command
        };
        let ended = run_until(sleep("0"), Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(ended.status.is_some_and(|status| status.success()) && ended.said == "said\n");
        let ended = run_until(sleep("600"), Instant::now()).unwrap();
        assert!(ended.status.is_none());
        // So is what it has started.
        let folder = Scratch::new("late").unwrap();
        let late = folder.path().join("late");
        let mut command = Command::new("sh");
        command.args(["-c", "(sleep 1; touch \"$0\") & wait"]).arg(&late);
        let ended = run_until(command, Instant::now() + Duration::from_millis(300)).unwrap();
        assert!(ended.status.is_none());
        thread::sleep(Duration::from_secs(2));
        assert!(!late.exists());
        let missing = run_until(Command::new("/nowhere/program"), Instant::now());
        assert!(missing.err().unwrap().to_string().contains("/nowhere/program"));
    }
}
