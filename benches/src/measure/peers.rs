//! Other people's programs, if they are installed: PyTorch, batched by hand, and DyNet, which
//! batches automatically.
//!
//! A peer is a process that receives the weights and the graphs of all mini-batches. The size of
//! its mini-batches is doubled until its speed falls; the size of ours is, too. On a device, both
//! try 64, 256, 1,024 and the whole set. A peer's results are compared with ours before it is
//! timed. Then all peers and our system take turns on the same instances, each at its best size,
//! and on a device also at the smallest one.

mod graphs;
mod process;
pub mod program;
mod sizes;
pub mod training;

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::Parameters;
use tempfile::TempDir;

use crate::Failure;
use crate::measure::contestant::Contestant;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::peers::graphs::Graphs;
use crate::measure::peers::process::Process;
use crate::measure::peers::program::Program;
use crate::measure::peers::sizes::Sizes;
use crate::measure::rounds::{Entrant, Rounds, rate, rounds};
use crate::measure::systems::{Setup, System, weights};
use crate::measure::throughput::device_threads;
use crate::measure::workload::{MiniBatch, Part, Workload};
use crate::record::finding::{Finding, Outcome};
use crate::record::{Case, Figures, Peer};

/// Accepted difference from our results on the processor.
const TOLERANCE: f64 = 1e-4;
/// Accepted difference from our results on a device.
const DEVICE_TOLERANCE: f64 = 1e-3;

/// The settings of a measurement, as in a [`Setting`](crate::measure::throughput::Setting).
#[derive(Clone, Copy)]
pub struct Peers<'a> {
    /// The programs. All are compared with the same system of ours, their [rival](Program::rival).
    pub programs: &'a [Program],
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch of the smallest size.
    pub batch: usize,
    /// Approximate seconds for each program in a lap (a series of rounds).
    pub seconds: f64,
    /// True if a lap may consist of a single round.
    pub whole: bool,
    /// The device, if it was opened.
    pub device: Option<&'a Device>,
}

/// The laps of a measurement so far.
#[derive(Default)]
pub struct Laps {
    /// For each program, then for our system: the sizes of mini-batches that are compared, as
    /// multiples of the smallest. The best is the last one.
    sizes: Vec<Vec<usize>>,
    rounds: Vec<Rounds>,
    /// For each entrant: seconds of all turns, and seconds in which Python prepared their inputs.
    seconds: Vec<[f64; 2]>,
    /// Programs that cannot run on the device, and why.
    skipped: Vec<(Program, String)>,
}

/// Runs a further lap of programs and of our system on a workload, with new processes. The first
/// lap finds the best sizes of mini-batches. Returns the figures of all laps so far, and on a
/// device a finding for each program that cannot run.
pub fn peers(
    family: &Family,
    peers: Peers<'_>,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Figures>, Failure> {
    let Peers { programs, hidden, batch, whole, device, .. } = peers;
    let workload = family.at(hidden)?;
    let parameters = weights(workload.network());
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let system = programs.first().map_or(System::Edbatch, |program| program.rival());
    let instances = workload.instances(Part::Test);
    let (threads, tolerance, sizes) = match system.on_cuda() {
        None => (1, TOLERANCE, Sizes::new(instances, batch)),
        Some(_) => {
            let threads = device_threads(device, &*workload, system)?;
            (threads, DEVICE_TOLERANCE, Sizes::of_device(instances, batch))
        }
    };
    let setup = Setup::new(system, &unlearned, threads).on(device);
    let ours = |merged| workload.contestant(&setup, &parameters, &sizes.of(merged));
    progress("preparing");
    let folder = filled(family.model, &*workload, &parameters, &sizes.of(1))?;
    let mut processes = Vec::new();
    let runs = |laps: &Laps, program| laps.skipped.iter().all(|(skipped, _)| *skipped != program);
    for &program in programs.iter().filter(|&&program| runs(laps, program)) {
        progress(&format!("starting {}", program.name()));
        processes.extend(Process::start(program, program.command(folder.path()))?);
    }
    if laps.sizes.is_empty() {
        laps.find_sizes(&mut processes, &sizes, &ours, &mut progress)?;
        processes.retain(|process| runs(laps, process.program));
    }
    let mut kept = Vec::new();
    for (process, compared) in processes.iter_mut().zip(&laps.sizes) {
        let name = process.program.name();
        progress(&format!("checking {name}"));
        for &merged in compared {
            let numbers = [0, sizes.of(merged).len() - 1];
            let failure = |what| format!("{name}, {}: {what}", family.model);
            let expected = results(&mut *ours(merged)?, &numbers)?;
            let way = process.keep(merged, &numbers)?;
            let difference = difference(&folder.path().join("results.f32"), &expected);
            let difference = difference.map_err(|error| failure(error.to_string()))?;
            if difference > tolerance {
                return Err(failure(format!("results differ by {difference}")).into());
            }
            kept.push((difference, way));
        }
    }

    progress("taking turns");
    let seconds = peers.seconds * laps.entrants().len() as f64;
    if !processes.is_empty() {
        laps.run(&mut processes, &sizes, &ours, seconds, whole)?;
    }
    let case = Case {
        model: family.model.into(),
        input: family.input.into(),
        hidden,
        batch,
        threads: 1,
        backend: system.backend().into(),
    };
    let records = laps.records(&processes, &kept, &sizes, &case).into_iter().map(Figures::Peer);
    let skipped = laps.skipped.iter().map(|(program, why)| {
        let what = format!("{} on {}", program.name(), family.model);
        Figures::Device(Finding::new("peers", &what, Outcome::Skipped, why))
    });
    Ok(records.chain(skipped).collect())
}

/// Makes our system for mini-batches of a size, a multiple of the smallest.
type Ours<'a> = dyn Fn(usize) -> Result<Box<dyn Contestant>, Failure> + 'a;

impl Laps {
    /// Finds the best size of mini-batches for each process, then for our system. On a device a
    /// process that fails is skipped.
    fn find_sizes(
        &mut self,
        processes: &mut [Process],
        sizes: &Sizes,
        ours: &Ours<'_>,
        progress: &mut impl FnMut(&str),
    ) -> Result<(), Failure> {
        // Without duplicates.
        let compared = |best| if sizes.all && best > 1 { vec![1, best] } else { vec![best] };
        for process in processes {
            let name = process.program.name();
            let best = sizes.climb(|merged| {
                progress(&format!("trying mini-batches of {} on {name}", merged * sizes.batch));
                process.turn(merged, &[0], &mut |_, _| {})?;
                Ok(process.turn(merged, &sizes.numbers(merged), &mut |_, _| {})?[0])
            });
            match best {
                Err(failure) if sizes.all => {
                    self.skipped.push((process.program, failure.to_string()));
                }
                best => self.sizes.push(compared(best?)),
            }
        }
        let best = sizes.climb(|merged| {
            progress(&format!("trying mini-batches of {} on edbatch", merged * sizes.batch));
            let (mut ours, mut all) = (ours(merged)?, 0.0);
            ours.run(0)?;
            ours.run_all(&sizes.numbers(merged), &mut |_, seconds| all += seconds)?;
            Ok(all)
        })?;
        self.sizes.push(compared(best));
        Ok(())
    }

    /// Returns the contestant and the size of each entrant. Our system is the last contestant.
    fn entrants(&self) -> Vec<(usize, usize)> {
        let contestants = self.sizes.iter().enumerate();
        contestants
            .flat_map(|(index, sizes)| sizes.iter().map(move |&size| (index, size)))
            .collect()
    }

    /// Runs a lap, in which the processes and our system take turns.
    fn run(
        &mut self,
        processes: &mut [Process],
        sizes: &Sizes,
        ours: &Ours<'_>,
        seconds: f64,
        whole: bool,
    ) -> Result<(), Failure> {
        let order = self.entrants();
        self.seconds.resize(order.len(), [0.0; 2]);
        let processes: Vec<_> = processes.iter_mut().map(RefCell::new).collect();
        let mut entrants: Vec<Entrant<'_>> = Vec::new();
        for (sums, &(contestant, merged)) in self.seconds.iter_mut().zip(&order) {
            let all = sizes.numbers(merged);
            if let Some(process) = processes.get(contestant) {
                entrants.push(Box::new(move |_, each| {
                    let seconds = process.borrow_mut().turn(merged, &all, each)?;
                    sums.iter_mut().zip(seconds).for_each(|(sum, seconds)| *sum += seconds);
                    Ok(())
                }));
            } else {
                let mut ours = ours(merged)?;
                ours.run(0)?;
                entrants.push(Box::new(move |_, each| Ok(ours.run_all(&all, each)?)));
            }
        }
        let lap = self.rounds.len();
        self.rounds.push(rounds(&mut entrants, &[], lap, seconds, whole)?);
        Ok(())
    }

    /// Returns the figures of all laps: each program and our system at their best sizes, and also
    /// at the smallest one if it is compared. `kept` has the difference of the results of each
    /// process and size, and its way to compute them; `case` has the smallest size.
    fn records(
        &self,
        processes: &[Process],
        kept: &[(f64, String)],
        sizes: &Sizes,
        case: &Case,
    ) -> Vec<Peer> {
        let Self { rounds, seconds, .. } = self;
        let entrants = self.entrants();
        let speed = |entrant: usize| rate(rounds, entrant, sizes.work(entrants[entrant].1));
        // The entrants of a contestant at the smallest size and at the best one.
        let ends = |contestant: usize| {
            let first = entrants.iter().position(|&(index, _)| index == contestant);
            let first = first.expect("every contestant has a size");
            [first, first + self.sizes[contestant].len() - 1]
        };
        let ours = ends(processes.len());
        let mut records = Vec::new();
        for (contestant, process) in processes.iter().enumerate() {
            let mut pairs = ends(contestant).into_iter().zip(ours).collect::<Vec<_>>();
            pairs.dedup();
            for (theirs, ours) in pairs {
                let (merged, rate, own) = (entrants[theirs].1, speed(theirs), speed(ours));
                let ([computing, preparing], (difference, way)) = (seconds[theirs], &kept[theirs]);
                records.push(Peer {
                    system: process.program.system(&case.model).into(),
                    version: format!("{} {way}", process.version).trim_end().into(),
                    case: Case { batch: merged * sizes.batch, ..case.clone() },
                    instances_per_second: rate.median,
                    spread: rate.reach(),
                    prepared_instances_per_second: rate.median / (1.0 + preparing / computing),
                    edbatch_instances_per_second: own.median,
                    edbatch_spread: own.reach(),
                    edbatch_batch: entrants[ours].1 * sizes.batch,
                    laps: rounds.len(),
                    repetitions: rounds.iter().map(|lap| lap.times[theirs].turns.len()).sum(),
                    mini_batches: sizes.numbers(merged).len(),
                    difference: *difference,
                });
            }
        }
        records
    }
}

/// Makes a temporary folder with the weights and the graphs of mini-batches.
fn filled(
    model: &str,
    workload: &dyn Workload,
    parameters: &Parameters,
    mini_batches: &[MiniBatch],
) -> Result<TempDir, Failure> {
    let folder = tempfile::tempdir()?;
    let weights = parameters.to_safetensors(workload.network())?;
    fs::write(folder.path().join("weights.safetensors"), weights)?;
    let graphs = serde_json::to_string(&Graphs::new(model, workload, mini_batches))?;
    fs::write(folder.path().join("graphs.json"), graphs)?;
    Ok(folder)
}

/// Returns the results of our system for the mini-batches with these numbers.
fn results(ours: &mut dyn Contestant, mini_batches: &[usize]) -> Result<Vec<f32>, Failure> {
    let mut results = Vec::new();
    for &number in mini_batches {
        let rows = ours.run(number)?.iter().flat_map(|rows| rows.iter().flatten());
        results.extend(rows.copied());
    }
    Ok(results)
}

/// Returns the largest difference between the floats of a file and the expected ones.
fn difference(path: &Path, expected: &[f32]) -> Result<f64, Failure> {
    let bytes = fs::read(path)?;
    let (floats, rest) = bytes.as_chunks::<4>();
    if floats.len() != expected.len() || !rest.is_empty() {
        let (got, expected) = (floats.len(), expected.len());
        return Err(format!("expected {expected} results, got {got}").into());
    }
    let differences = floats.iter().zip(expected).map(|(&got, &expected)| {
        let difference = (f64::from(f32::from_le_bytes(got)) - f64::from(expected)).abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    });
    Ok(differences.fold(0.0, f64::max))
}
