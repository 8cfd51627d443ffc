//! Other people's programs, where they are installed: PyTorch, batched by hand, and DyNet, which
//! batches by itself.
//!
//! A peer is a process that is given the weights and the graphs of all mini-batches. Its results
//! are compared before it is timed; then all peers and our own system take turns.

mod graphs;
mod process;
mod program;

use std::fs;
use std::path::Path;

use edbatch_policy::{Encoding, Fsm};

pub(crate) use self::graphs::Graphs;
use self::process::Process;
pub use self::program::Program;
#[cfg(feature = "cuda")]
pub(crate) use self::program::python;
use crate::families::Family;
use crate::files::Scratch;
use crate::record::Peer;
use crate::rounds::{Entrant, LAPS, Lap, Rounds, choose, rate, rounds};
use crate::systems::System;
use crate::throughput::weights;
use crate::workload::{Contestant, Failure, MiniBatch, Part};

/// Instances of all mini-batches together: what they are made into takes memory in Python.
const INSTANCES: usize = 512;
/// By how much results may differ.
const TOLERANCE: f64 = 1e-4;

/// What to measure: as a [`Setting`](crate::throughput::Setting) of peers and ours.
#[derive(Clone, Copy, Debug)]
pub struct Peers<'a> {
    /// Those that are installed.
    pub programs: &'a [Program],
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// About how many seconds each is timed in a lap.
    pub seconds: f64,
    /// Those of all laps, as a [`Setting`](crate::throughput::Setting) has them.
    pub nominal: Option<f64>,
}

/// What the laps have shown so far, but for the last.
#[derive(Default)]
pub struct Laps {
    chosen: Vec<usize>,
    rounds: Vec<Rounds>,
    /// By program, the seconds of all turns, and those in which Python prepared what they ran.
    seconds: Vec<[f64; 2]>,
}

/// Measures the programs that know a model, and our own system, on one workload, a thread each, in
/// a further lap, with processes of their own; in the last lap, these are the figures of all.
///
/// # Errors
/// If a program does not run, or its results are wrong.
pub fn peers(
    family: &Family,
    peers: Peers<'_>,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Option<Vec<Peer>>, Failure> {
    let Peers { programs, hidden, batch, .. } = peers;
    let workload = family.at(hidden)?;
    let parameters = weights(&*workload);
    let instances = workload.instances(Part::Test);
    let all = (instances.min(INSTANCES) / batch).max(1);
    let mini_batches = MiniBatch::spread(instances, batch, all);
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let mut ours =
        workload.contestant(System::Edbatch, &parameters, &unlearned, &mini_batches, 1)?;
    progress("preparing");
    let folder = Scratch::new("peers")?;
    let folder = folder.path();
    let network = workload.network();
    fs::write(folder.join("weights.safetensors"), parameters.to_safetensors(network)?)?;
    let graphs = Graphs::new(family.model, &*workload, &mini_batches);
    fs::write(folder.join("graphs.json"), serde_json::to_string(&graphs)?)?;
    let expected: Vec<f32> =
        ours.run(0)?.iter().flat_map(|rows| rows.iter().flatten()).copied().collect();
    let known: Vec<Program> =
        programs.iter().copied().filter(|program| program.knows(family.model)).collect();
    let (mut processes, mut differences) = (Vec::new(), Vec::new());
    for &program in &known {
        progress(&format!("checking {}", program.name()));
        processes.push(Process::start(program, folder)?);
        let difference = difference(&folder.join("results.f32"), &expected);
        let failure = |what| format!("{}, {}: {what}", program.name(), family.model);
        let difference = difference.map_err(|error| failure(error.to_string()))?;
        if difference > TOLERANCE {
            return Err(failure(format!("results differ by {difference}")).into());
        }
        differences.push(difference);
    }

    progress("taking turns");
    if laps.rounds.is_empty() {
        laps.chosen = choose(all, 1, ours.counts(0).flops as f64, peers.nominal);
    }
    let mut ours = Ours(ours);
    let seconds = peers.seconds * (known.len() + 1) as f64;
    let mut entrants: Vec<&mut dyn Entrant> =
        processes.iter_mut().map(|process| process as &mut dyn Entrant).collect();
    entrants.push(&mut ours);
    let lap = Lap::new(&laps.chosen, laps.rounds.len(), seconds, peers.nominal);
    laps.rounds.push(rounds(&mut entrants, lap)?);
    laps.seconds.resize(known.len(), [0.0; 2]);
    for (sum, process) in laps.seconds.iter_mut().zip(&processes) {
        sum[0] += process.computing;
        sum[1] += process.preparing;
    }
    if laps.rounds.len() < LAPS {
        return Ok(None);
    }
    let Laps { chosen, rounds, seconds } = laps;
    let work = (chosen.len() * batch) as f64;
    let own = rate(rounds, known.len(), work);
    let repetitions = rounds.iter().map(|lap| lap.times[0].turns.len()).sum();
    let records = known.iter().zip(&processes).zip(differences).enumerate();
    let records = records.map(|(index, ((program, process), difference))| {
        let rate = rate(rounds, index, work);
        let [computing, preparing] = seconds[index];
        let whole = 1.0 + preparing / computing;
        Peer {
            system: program.system(family.model).into(),
            version: process.version.clone(),
            model: family.model.into(),
            input: family.input.into(),
            hidden,
            batch,
            threads: 1,
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

/// The largest difference between the floats of a file and others.
fn difference(path: &Path, expected: &[f32]) -> Result<f64, Failure> {
    let bytes = fs::read(path)?;
    let (floats, rest) = bytes.as_chunks::<4>();
    if floats.len() != expected.len() || !rest.is_empty() {
        let (got, expected) = (floats.len(), expected.len());
        return Err(format!("{got} results, expected {expected}").into());
    }
    let differences = floats.iter().zip(expected).map(|(&got, &expected)| {
        let difference = (f64::from(f32::from_le_bytes(got)) - f64::from(expected)).abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    });
    Ok(differences.fold(0.0, f64::max))
}

struct Ours(Box<dyn Contestant>);

impl Entrant for Ours {
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure> {
        Ok(self.0.run_all(mini_batches, each)?)
    }
}
