//! The parts `throughput`, `breakdown` and `latency`: contestants on the same mini-batches.
//!
//! The median over laps of [rounds](mod@crate::rounds) is what a user sees on this machine now, and
//! how far the farthest lap is from it says how much to make of a difference. Beside it
//! stands the best: each mini-batch's fastest run, as a fraction of the highest peak. It is what
//! the machine would give if nothing else ran on it, and the figure to compare between busy
//! machines.

use edbatch::Statistics;
use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::kernels::roofline;
use edbatch_runtime::{Parameters, Work};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::agreement::Agreement;
use crate::backends::BackendName;
use crate::families::Family;
use crate::policies::TrainingGraphs;
use crate::record::{Breakdown, Latency, Throughput};
use crate::rounds::{Entrant, LAPS, Lap, Rounds, Times, choose, rate, rounds};
use crate::spread::OverLaps;
use crate::systems::System;
use crate::workload::{Contestant, Counts, Failure, MiniBatch, Part, Workload};

/// What to measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// The contestants.
    pub systems: Vec<System>,
    /// About how many seconds all of them together are timed in a lap.
    pub seconds: f64,
    /// The seconds of one contestant in all laps that say how many mini-batches are timed: those
    /// that were chosen, whatever time is left, so that all runs time the same ones. None for all.
    pub nominal: Option<f64>,
    /// Threads: every contestant runs once with each number, but those on devices with one.
    pub threads: Vec<usize>,
}

/// The bytes that are copied to measure bandwidth: more than caches hold.
const COPIED: usize = 32 << 20;
/// The most mini-batches whose counts are taken: they are means, and unrolling takes time.
const COUNTED: usize = 40;

/// The policy of [`System::Paper`] for mini-batches of some size, which does not depend on how
/// large vectors are; one that has learned nothing, if that system is none of the contestants.
///
/// # Errors
/// If the model cannot be declared.
pub fn learned_by_paper(family: &Family, systems: &[System], batch: usize) -> Result<Fsm, Failure> {
    let workload = family.at(8)?;
    Ok(if systems.contains(&System::Paper) {
        TrainingGraphs::new(&*workload, batch).learn(Encoding::Sort, |_| {}).policy
    } else {
        Fsm::new(Encoding::Sort, workload.network().cells().len())
    })
}

/// The weights of a workload, the same in every run.
#[must_use]
pub fn weights(workload: &dyn Workload) -> Parameters {
    Parameters::random(workload.network(), &mut Xoshiro256PlusPlus::seed_from_u64(1))
}

/// What the laps of a setting have shown so far.
#[derive(Default)]
pub struct Laps {
    /// The mini-batches that are timed.
    chosen: Vec<usize>,
    rounds: Vec<Rounds>,
    /// By contestant: what all its laps took.
    spent: Vec<Spent>,
}

/// What a contestant's turns took, in seconds.
#[derive(Clone, Copy, Default)]
struct Spent {
    nodes: f64,
    construct: f64,
    schedule: f64,
    plan: f64,
    execute: f64,
}

/// Measures all contestants on one workload in a further lap, with engines of their own; in the
/// last lap, these are the figures of all. `progress` is called with what is measured next.
///
/// # Errors
/// If the model cannot be that large, or a contestant's results are wrong.
pub fn throughput(
    family: &Family,
    setting: &Setting,
    learned: &Fsm,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Option<Vec<(Throughput, Breakdown)>>, Failure> {
    let workload = family.at(setting.hidden)?;
    let parameters = weights(&*workload);
    let instances = workload.instances(Part::Test);
    let all = (instances / setting.batch).max(1);
    let mini_batches = MiniBatch::spread(instances, setting.batch, all);

    let mut agreement = Agreement::new(&*workload, &parameters, mini_batches[0])?;
    let mut running = Vec::new();
    for &system in &setting.systems {
        let on_device = system.backend() != BackendName::Cpu;
        for &threads in if on_device { &[1][..] } else { &setting.threads } {
            progress(&format!("checking {}", system.name()));
            let contestant =
                workload.contestant(system, &parameters, learned, &mini_batches, threads)?;
            let mut entrant = Running { system, threads, contestant };
            let outcome = entrant.contestant.run(0)?;
            agreement.check(outcome).map_err(|error| format!("{}: {error}", system.name()))?;
            running.push(entrant);
        }
    }
    progress("taking turns");
    if laps.rounds.is_empty() {
        let most_threads = setting.threads.iter().copied().max().unwrap_or(1);
        // Threads that run whole mini-batches need some each.
        let fewest = if most_threads > 1 { 2 * most_threads } else { 1 };
        let flops = running[0].contestant.counts(0).flops as f64;
        laps.chosen = choose(all, fewest, flops, setting.nominal);
        laps.spent = vec![Spent::default(); running.len()];
    }
    let before: Vec<_> = running.iter().map(|entrant| entrant.contestant.statistics()).collect();
    let mut entrants: Vec<&mut dyn Entrant> =
        running.iter_mut().map(|entrant| entrant as &mut dyn Entrant).collect();
    let lap = Lap::new(&laps.chosen, laps.rounds.len(), setting.seconds, setting.nominal);
    laps.rounds.push(rounds(&mut entrants, lap)?);
    for ((spent, entrant), before) in laps.spent.iter_mut().zip(&running).zip(&before) {
        spent.add(before, &entrant.contestant.statistics());
    }
    if laps.rounds.len() < LAPS {
        return Ok(None);
    }
    let peaks: Vec<Vec<f64>> = laps.rounds.iter().map(|rounds| rounds.peaks.clone()).collect();
    let timed = Timed {
        family,
        setting,
        laps,
        peak: OverLaps::of(&peaks).median,
        highest: peaks.iter().flatten().copied().fold(0.0, f64::max),
        copy: roofline::copy_bandwidth(COPIED),
        weights: parameters.bytes() as u64,
    };
    let records = running.iter_mut().enumerate().map(|(index, entrant)| {
        progress(&format!("profiling {}", entrant.system.name()));
        let work = entrant.profile(&timed.laps.chosen)?;
        Ok(timed.records(entrant, index, work))
    });
    records.collect::<Result<_, Failure>>().map(Some)
}

impl Spent {
    /// Adds what happened between two readings.
    fn add(&mut self, before: &Statistics, after: &Statistics) {
        self.nodes += (after.nodes - before.nodes) as f64;
        self.construct += (after.construct - before.construct).as_secs_f64();
        self.schedule += (after.schedule - before.schedule).as_secs_f64();
        self.plan += (after.plan - before.plan).as_secs_f64();
        self.execute += (after.execute - before.execute).as_secs_f64();
    }
}

/// A contestant.
struct Running {
    system: System,
    threads: usize,
    contestant: Box<dyn Contestant>,
}

impl Entrant for Running {
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure> {
        Ok(self.contestant.run_all(mini_batches, each)?)
    }
}

impl Running {
    /// The shares of execution that gathering, products and element-wise work have, in a turn of
    /// its own, because clocks around each step slow it down. Threads are counted one by one.
    fn profile(&mut self, mini_batches: &[usize]) -> Result<[f64; 3], Failure> {
        let before = self.contestant.statistics();
        self.contestant.profile().switch(true);
        self.turn(mini_batches, &mut |_, _| {})?;
        self.contestant.profile().switch(false);
        let execute = (self.contestant.statistics().execute - before.execute).as_secs_f64();
        let sorts = [Work::Gather, Work::Product, Work::Elementwise];
        Ok(sorts.map(|sort| self.contestant.profile().time(sort).as_secs_f64() / execute))
    }
}

/// What all contestants of a setting share.
struct Timed<'a> {
    family: &'a Family,
    setting: &'a Setting,
    laps: &'a Laps,
    /// The core's FLOPs in 1e9 a second: the median, and the most that was seen.
    peak: f64,
    highest: f64,
    /// Bytes copied, in 1e9 a second.
    copy: f64,
    /// Bytes.
    weights: u64,
}

impl Timed<'_> {
    fn records(&self, entrant: &Running, index: usize, work: [f64; 3]) -> (Throughput, Breakdown) {
        let Setting { hidden, batch, .. } = *self.setting;
        let Laps { chosen, rounds, spent } = self.laps;
        let instances = (chosen.len() * batch) as f64;
        let rate = rate(rounds, index, instances);
        let mut times = Times::default();
        rounds.iter().for_each(|lap| times.extend(&lap.times[index]));
        let step = chosen.len().div_ceil(COUNTED);
        let counted = chosen.iter().step_by(step);
        let counts: Vec<_> = counted.map(|&index| entrant.contestant.counts(index)).collect();
        let mean = |of: fn(&Counts) -> u64| {
            counts.iter().map(of).sum::<u64>() as f64 / counts.len() as f64
        };
        let flops_per_instance = mean(|counts| counts.flops) / batch as f64;
        let best = instances / times.best();
        let gflops = flops_per_instance * rate.median / 1e9;
        let live = counts.iter().map(|counts| counts.live_bytes).max().unwrap_or(0);
        let Spent { nodes, construct, schedule, plan, execute } = spent[index];
        let deciding = construct + schedule + plan;

        let throughput = Throughput {
            system: entrant.system.recorded(),
            model: self.family.model.into(),
            hidden,
            batch,
            threads: entrant.threads,
            instances_per_second: rate.median,
            instances_per_second_low: rate.low,
            instances_per_second_high: rate.high,
            spread: rate.reach(),
            repetitions: times.turns.len(),
            mini_batches: chosen.len(),
            latency_ns: Latency { p50: times.latency(0.5) * 1e9, p99: times.latency(0.99) * 1e9 },
            flops_per_instance,
            executed_flops_per_instance: mean(|counts| counts.executed_flops) / batch as f64,
            gflops,
            peak_gflops: self.peak,
            fraction_of_peak: gflops / self.peak,
            best_instances_per_second: best,
            best_fraction_of_peak: flops_per_instance * best / 1e9 / self.highest,
            copy_gb_per_second: self.copy,
            construct_ns_per_node: construct * 1e9 / nodes,
            schedule_ns_per_node: schedule * 1e9 / nodes,
            plan_ns_per_node: plan * 1e9 / nodes,
            execute_share: execute / (deciding + execute),
            nodes: mean(|counts| counts.nodes),
            batches: mean(|counts| counts.batches),
            bound: mean(|counts| counts.bound),
            folded: entrant.system == System::Folded,
            peak_bytes: entrant.contestant.statistics().peak_bytes(),
            live_bytes: self.weights + live,
            gathered_rows: mean(|counts| counts.gathered_rows),
            gathered_bytes: mean(|counts| counts.gathered_bytes),
            input: self.family.input.into(),
            backend: entrant.system.backend().name().into(),
        };
        let all: f64 = times.turns.iter().sum();
        let breakdown = Breakdown {
            system: entrant.system.recorded(),
            model: self.family.model.into(),
            input: self.family.input.into(),
            hidden,
            batch,
            threads: entrant.threads,
            construct: construct / all,
            schedule: schedule / all,
            plan: plan / all,
            execute: execute / all,
            gather: work[0] * execute / all,
            product: work[1] * execute / all,
            elementwise: work[2] * execute / all,
            other: 1.0 - (deciding + execute) / all,
            microseconds_per_instance: 1e6 / rate.median,
        };
        (throughput, breakdown)
    }
}
