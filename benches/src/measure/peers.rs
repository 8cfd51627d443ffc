//! Other people's programs, if they are installed: PyTorch, batched by hand, and DyNet, which
//! batches automatically.
//!
//! A peer is a process that receives the weights and the graphs of all mini-batches. The size of
//! its mini-batches is doubled until its speed falls; the size of ours is, too. A peer's results at
//! its best size are compared with ours before it is timed. Then all peers and our system take
//! turns, each at its best size, on the same instances.

mod graphs;
mod process;
pub mod program;
pub mod training;

use std::fs;
use std::iter::successors;
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
use crate::measure::rounds::{Entrant, LAPS, Rounds, rate, rounds};
use crate::measure::systems::{Setup, System, weights};
use crate::measure::throughput::device_threads;
use crate::measure::workload::{MiniBatch, Part, Workload};
use crate::record::{Case, Peer};

/// Maximum instances of a mini-batch, unless the smallest size has more.
const LARGEST: usize = 1024;
/// Minimum number of mini-batches of every size.
const MINI_BATCHES: usize = 4;
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
    /// For each program, then for our system: its best mini-batch, as a multiple of the smallest.
    merged: Vec<usize>,
    rounds: Vec<Rounds>,
    /// For each program: seconds of all turns, and seconds in which Python prepared their inputs.
    seconds: Vec<[f64; 2]>,
}

/// Mini-batches of several sizes. Whatever the size, together they cover the same instances: twice
/// the size makes half as many mini-batches.
struct Sizes {
    instances: usize,
    /// Instances in a mini-batch of the smallest size.
    batch: usize,
    /// The sizes as multiples of the smallest, in ascending order.
    merged: Vec<usize>,
}

impl Sizes {
    /// The size `batch`, doubled up to [`LARGEST`] or the number of instances of the set. A set
    /// that is too small for [`MINI_BATCHES`] of the largest size is repeated. A mini-batch has an
    /// instance twice only if the smallest size exceeds the set.
    fn new(instances: usize, batch: usize) -> Self {
        let fits = |&merged: &usize| merged == 1 || merged * batch <= LARGEST.min(instances);
        let merged = successors(Some(1), |merged| Some(2 * merged)).take_while(fits);
        Self { instances, batch, merged: merged.collect() }
    }

    /// Returns the mini-batches of a size.
    fn of(&self, merged: usize) -> Vec<MiniBatch> {
        let largest = self.merged.last().expect("there is a smallest size");
        let (count, size) = (MINI_BATCHES * largest / merged, merged * self.batch);
        (0..count).map(|i| MiniBatch { first: i * size % self.instances, size }).collect()
    }

    /// Returns the numbers of all mini-batches of a size.
    fn numbers(&self, merged: usize) -> Vec<usize> {
        (0..self.of(merged).len()).collect()
    }

    /// Tries growing sizes until speed falls. Returns the fastest as a multiple of the smallest.
    fn climb(
        &self,
        mut seconds: impl FnMut(usize) -> Result<f64, Failure>,
    ) -> Result<usize, Failure> {
        let (mut best, mut fastest) = (1, f64::INFINITY);
        for &merged in &self.merged {
            let next = seconds(merged)?;
            if next > fastest {
                break;
            }
            (best, fastest) = (merged, next);
        }
        Ok(best)
    }
}

/// Runs a further lap of programs and of our system on a workload, with new processes. The first
/// lap finds the best sizes of mini-batches. Returns figures after the last lap, else `None`.
pub fn peers(
    family: &Family,
    peers: Peers<'_>,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Option<Vec<Peer>>, Failure> {
    let Peers { programs, hidden, batch, whole, device, .. } = peers;
    let workload = family.at(hidden)?;
    let parameters = weights(workload.network());
    let sizes = Sizes::new(workload.instances(Part::Test), batch);
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let system = programs.first().map_or(System::Edbatch, |program| program.rival());
    let (threads, tolerance) = match system.on_cuda() {
        None => (1, TOLERANCE),
        Some(_) => (device_threads(device, &*workload, system, 0)?, DEVICE_TOLERANCE),
    };
    let setup = Setup::new(system, &unlearned, threads).on(device);
    let ours = |merged| workload.contestant(&setup, &parameters, &sizes.of(merged));
    progress("preparing");
    let folder = filled(family.model, &*workload, &parameters, &sizes.of(1))?;
    let mut processes = Vec::new();
    for &program in programs.iter().filter(|program| program.knows(family.model)) {
        progress(&format!("starting {}", program.name()));
        processes.extend(Process::start(program, program.command(folder.path()))?);
    }
    if laps.merged.is_empty() {
        laps.merged = best_sizes(&mut processes, &sizes, &ours, &mut progress)?;
    }
    let mut kept = Vec::new();
    for (process, &merged) in processes.iter_mut().zip(&laps.merged) {
        let name = process.program.name();
        progress(&format!("checking {name}"));
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

    progress("taking turns");
    let seconds = peers.seconds * (processes.len() + 1) as f64;
    laps.run(&mut processes, &sizes, &ours, seconds, whole)?;
    if laps.rounds.len() < LAPS {
        return Ok(None);
    }
    let case = Case {
        model: family.model.into(),
        input: family.input.into(),
        hidden,
        batch,
        threads: 1,
        backend: system.backend().into(),
    };
    Ok(Some(laps.records(&processes, kept, &sizes, &case)))
}

/// Makes our system for mini-batches of a size, a multiple of the smallest.
type Ours<'a> = dyn Fn(usize) -> Result<Box<dyn Contestant>, Failure> + 'a;

/// Finds the best size of mini-batches for each process, then for our system.
fn best_sizes(
    processes: &mut [Process],
    sizes: &Sizes,
    ours: &Ours<'_>,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<usize>, Failure> {
    let mut best = Vec::new();
    for process in processes {
        best.push(sizes.climb(|merged| {
            let (name, size) = (process.program.name(), merged * sizes.batch);
            progress(&format!("trying mini-batches of {size} on {name}"));
            let mut all = 0.0;
            process.turn(merged, &[0], &mut |_, _| {})?;
            process.turn(merged, &sizes.numbers(merged), &mut |_, seconds| all += seconds)?;
            Ok(all)
        })?);
    }
    best.push(sizes.climb(|merged| {
        progress(&format!("trying mini-batches of {} on edbatch", merged * sizes.batch));
        let (mut ours, mut all) = (ours(merged)?, 0.0);
        ours.run(0)?;
        ours.run_all(&sizes.numbers(merged), &mut |_, seconds| all += seconds)?;
        Ok(all)
    })?);
    Ok(best)
}

impl Laps {
    /// Runs a lap, in which the processes and our system take turns.
    fn run(
        &mut self,
        processes: &mut [Process],
        sizes: &Sizes,
        ours: &Ours<'_>,
        seconds: f64,
        whole: bool,
    ) -> Result<(), Failure> {
        let own_merged = *self.merged.last().expect("ours is the last");
        let mut ours = ours(own_merged)?;
        ours.run(0)?;
        let mut entrants: Vec<Entrant<'_>> = Vec::new();
        for (process, &merged) in processes.iter_mut().zip(&self.merged) {
            let all = sizes.numbers(merged);
            entrants.push(Box::new(move |_, each| process.turn(merged, &all, each)));
        }
        let all = sizes.numbers(own_merged);
        entrants.push(Box::new(move |_, each| Ok(ours.run_all(&all, each)?)));
        let lap = self.rounds.len();
        self.rounds.push(rounds(&mut entrants, &[], lap, seconds, whole)?);
        drop(entrants);
        self.seconds.resize(processes.len(), [0.0; 2]);
        for (sum, process) in self.seconds.iter_mut().zip(&*processes) {
            sum[0] += process.computing;
            sum[1] += process.preparing;
        }
        Ok(())
    }

    /// Returns the figures of all laps. `kept` has the difference of each process's results, and
    /// its way to compute them; `case` has the smallest size of mini-batches.
    fn records(
        &self,
        processes: &[Process],
        kept: Vec<(f64, String)>,
        sizes: &Sizes,
        case: &Case,
    ) -> Vec<Peer> {
        let Self { merged, rounds, seconds } = self;
        let work = (sizes.numbers(1).len() * sizes.batch) as f64;
        let own = rate(rounds, processes.len(), work);
        let own_merged = merged.last().expect("ours is the last");
        let repetitions = rounds.iter().map(|lap| lap.times[0].turns.len()).sum();
        let records = processes.iter().zip(kept).enumerate();
        let records = records.map(|(index, (process, (difference, way)))| {
            let rate = rate(rounds, index, work);
            let [computing, preparing] = seconds[index];
            Peer {
                system: process.program.system(&case.model).into(),
                version: format!("{} {way}", process.version).trim_end().into(),
                case: Case { batch: merged[index] * sizes.batch, ..case.clone() },
                instances_per_second: rate.median,
                spread: rate.reach(),
                prepared_instances_per_second: rate.median / (1.0 + preparing / computing),
                edbatch_instances_per_second: own.median,
                edbatch_spread: own.reach(),
                edbatch_batch: own_merged * sizes.batch,
                repetitions,
                mini_batches: sizes.numbers(merged[index]).len(),
                difference,
            }
        });
        records.collect()
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

#[cfg(test)]
mod tests {
    use super::{MINI_BATCHES, Sizes};

    #[test]
    fn every_size_has_the_same_instances_and_four_mini_batches() {
        for (instances, largest) in [(2210, 1024), (1696, 1024), (316, 256), (270, 256), (50, 64)] {
            let sizes = Sizes::new(instances, 64);
            let of = |&merged: &usize| {
                let mini_batches = sizes.of(merged);
                assert!(mini_batches.len() >= MINI_BATCHES);
                let each = |mini_batch: &super::MiniBatch| {
                    let all = mini_batch.first..mini_batch.first + mini_batch.size;
                    all.map(|instance| instance % instances).collect::<Vec<_>>()
                };
                mini_batches.iter().flat_map(each).collect::<Vec<_>>()
            };
            let all: Vec<Vec<usize>> = sizes.merged.iter().map(of).collect();
            assert!(all.iter().all(|of_size| *of_size == all[0]), "{instances}");
            assert_eq!(sizes.merged.last().map(|merged| merged * 64), Some(largest));
        }
    }

    #[test]
    fn sizes_are_doubled_until_the_speed_falls() {
        let sizes = Sizes::new(1024, 64);
        for (seconds, best, tried) in [
            ([5.0, 4.0, 3.0, 3.5, 1.0], 4, 4),
            ([5.0, 4.0, 3.0, 2.0, 1.0], 16, 5),
            ([1.0, 4.0, 0.5, 0.5, 0.5], 1, 2),
        ] {
            let mut turns = seconds.into_iter();
            assert_eq!(sizes.climb(|_| Ok(turns.next().unwrap())).unwrap(), best);
            assert_eq!(turns.len(), 5 - tried);
        }
    }
}
