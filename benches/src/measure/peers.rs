//! Other people's programs, if they are installed: PyTorch, batched by hand, and DyNet, which
//! batches automatically.
//!
//! A peer is a process that is given the weights and the graphs of all mini-batches. Its results
//! are compared with ours before it is timed; then all peers and our own system take turns.

mod graphs;
mod process;
pub mod program;

use std::fs;
use std::path::Path;

use edbatch_policy::{Encoding, Fsm};

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::peers::graphs::Graphs;
use crate::measure::peers::process::Process;
use crate::measure::peers::program::Program;
use crate::measure::rounds::{Entrant, LAPS, Rounds, choose, rate, rounds};
use crate::measure::systems::weights;
use crate::measure::systems::{Setup, System};
use crate::measure::throughput::device_threads;
use crate::measure::workload::{MiniBatch, Part};
use crate::record::{Case, Peer};

/// Total instances of all mini-batches; their tensors take memory in Python.
const INSTANCES: usize = 512;
/// Difference of results that is accepted: on the processor, and on a device.
const TOLERANCE: f64 = 1e-4;
const DEVICE_TOLERANCE: f64 = 1e-3;

/// The settings of a measurement, like those of a [`Setting`](crate::measure::throughput::Setting).
#[derive(Clone, Copy)]
pub struct Peers<'a> {
    /// The programs. All have the same [rival](Program::rival).
    pub programs: &'a [Program],
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// Approximate seconds for each program in a lap.
    pub seconds: f64,
    /// Seconds that determine how many mini-batches are timed.
    pub nominal: Option<f64>,
    /// The device, if it was opened.
    pub device: Option<&'a Device>,
}

/// The laps of a measurement so far.
#[derive(Default)]
pub struct Laps {
    chosen: Vec<usize>,
    rounds: Vec<Rounds>,
    /// By program: seconds of all turns, and seconds in which Python prepared their inputs.
    seconds: Vec<[f64; 2]>,
}

/// Runs a further lap of programs and of our system on a workload, with new processes. Returns
/// figures after the last lap.
pub fn peers(
    family: &Family,
    peers: Peers<'_>,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Option<Vec<Peer>>, Failure> {
    let Peers { programs, hidden, batch, device, .. } = peers;
    let workload = family.at(hidden)?;
    let parameters = weights(workload.network());
    let instances = workload.instances(Part::Test);
    let all = (instances.min(INSTANCES) / batch).max(1);
    let mini_batches = MiniBatch::spread(instances, batch, all);
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let system = programs.first().map_or(System::Edbatch, |program| program.rival());
    let (threads, tolerance) = match system.on_cuda() {
        None => (1, TOLERANCE),
        Some(_) => (device_threads(device, &*workload, system, 0)?, DEVICE_TOLERANCE),
    };
    let setup = Setup::new(system, &unlearned, threads).on(device);
    let mut ours = workload.contestant(&setup, &parameters, &mini_batches)?;
    progress("preparing");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let network = workload.network();
    fs::write(folder.join("weights.safetensors"), parameters.to_safetensors(network)?)?;
    let graphs = Graphs::new(family.model, &*workload, &mini_batches);
    fs::write(folder.join("graphs.json"), serde_json::to_string(&graphs)?)?;
    let expected: Vec<f32> =
        ours.run(0)?.iter().flat_map(|rows| rows.iter().flatten()).copied().collect();
    let (mut processes, mut differences) = (Vec::new(), Vec::new());
    for &program in programs.iter().filter(|program| program.knows(family.model)) {
        progress(&format!("checking {}", program.name()));
        let Some(process) = Process::start(program, folder)? else { continue };
        let difference = difference(&folder.join("results.f32"), &expected);
        let failure = |what| format!("{}, {}: {what}", program.name(), family.model);
        let difference = difference.map_err(|error| failure(error.to_string()))?;
        if difference > tolerance {
            return Err(failure(format!("results differ by {difference}")).into());
        }
        differences.push(difference);
        processes.push((program, process));
    }

    progress("taking turns");
    if laps.rounds.is_empty() {
        laps.chosen = choose(all, 1, ours.work(0).flops as f64, peers.nominal);
    }
    let seconds = peers.seconds * (processes.len() + 1) as f64;
    let mut entrants: Vec<Entrant<'_>> = Vec::new();
    for (_, process) in &mut processes {
        entrants.push(Box::new(|mini_batches, each| process.turn(mini_batches, each)));
    }
    entrants.push(Box::new(|mini_batches, each| Ok(ours.run_all(mini_batches, each)?)));
    let (lap, whole) = (laps.rounds.len(), peers.nominal.is_none());
    laps.rounds.push(rounds(&mut entrants, &laps.chosen, lap, seconds, whole)?);
    drop(entrants);
    laps.seconds.resize(processes.len(), [0.0; 2]);
    for (sum, (_, process)) in laps.seconds.iter_mut().zip(&processes) {
        sum[0] += process.computing;
        sum[1] += process.preparing;
    }
    if laps.rounds.len() < LAPS {
        return Ok(None);
    }
    let Laps { chosen, rounds, seconds } = laps;
    let work = (chosen.len() * batch) as f64;
    let own = rate(rounds, processes.len(), work);
    let repetitions = rounds.iter().map(|lap| lap.times[0].turns.len()).sum();
    let records = processes.iter().zip(differences).enumerate();
    let records = records.map(|(index, ((program, process), difference))| {
        let rate = rate(rounds, index, work);
        let [computing, preparing] = seconds[index];
        let whole = 1.0 + preparing / computing;
        Peer {
            system: program.system(family.model).into(),
            version: process.version.clone(),
            case: Case {
                model: family.model.into(),
                input: family.input.into(),
                hidden,
                batch,
                threads: 1,
                backend: system.backend().into(),
            },
            instances_per_second: rate.median,
            spread: rate.reach(),
            prepared_instances_per_second: rate.median / whole,
            edbatch_instances_per_second: own.median,
            edbatch_spread: own.reach(),
            repetitions,
            mini_batches: chosen.len(),
            difference,
        }
    });
    Ok(Some(records.collect()))
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
