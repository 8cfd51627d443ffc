//! The parts `throughput` and `breakdown`: contestants take turns on the same mini-batches.
//!
//! A turn is one pass over all mini-batches. There are as many of them as let the slowest
//! contestant have some turns in its time; turns go on until every contestant has used up its own.
//! Between turns the core's peak is measured, since its clock moves with whatever else runs.
//!
//! The median over turns is what a user sees on this machine now. Beside it stands the best: each
//! mini-batch's fastest run, as a fraction of the highest peak. It is what the machine would give
//! if nothing else ran on it, and the figure to compare between busy machines.

use edbatch::Statistics;
use edbatch_policy::{Fsm, NamedEncoding};
use edbatch_runtime::kernels::{Level, roofline};
use edbatch_runtime::{Parameters, Work};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::agreement::Agreement;
use crate::families::Family;
use crate::policies::TrainingGraphs;
use crate::record::{Breakdown, Throughput};
use crate::spread::Spread;
use crate::systems::System;
use crate::workload::{Contestant, Failure, MiniBatch, Part};

/// What to measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// The contestants.
    pub systems: Vec<System>,
    /// The most seconds for one contestant.
    pub seconds: f64,
    /// Threads of each.
    pub threads: usize,
}

/// The most instances in all mini-batches together, unless a single mini-batch has more.
const INSTANCES: usize = 256;
/// The most turns.
const TURNS: usize = 25;
/// The turns that the slowest contestant should have.
const FEWEST_TURNS: f64 = 3.0;
/// The bytes that are copied to measure bandwidth: more than caches hold.
const COPIED: usize = 32 << 20;

/// The policy of [`System::Paper`] for mini-batches of some size, which does not depend on how
/// large vectors are; one that has learned nothing, if that system is none of the contestants.
///
/// # Errors
/// If the model cannot be declared.
pub fn learned_by_paper(family: &Family, systems: &[System], batch: usize) -> Result<Fsm, Failure> {
    let workload = family.at(8)?;
    Ok(if systems.contains(&System::Paper) {
        TrainingGraphs::new(&*workload, batch).learn(&NamedEncoding::Sort, |_| {}).policy
    } else {
        Fsm::new(NamedEncoding::Sort, workload.network().cells().len())
    })
}

/// Measures all contestants on one workload. `progress` is called with what is measured next.
///
/// # Errors
/// If the model cannot be that large, or a contestant's results are wrong.
pub fn throughput(
    family: &Family,
    setting: &Setting,
    learned: &Fsm,
    mut progress: impl FnMut(&str),
) -> Result<Vec<(Throughput, Breakdown)>, Failure> {
    let workload = family.at(setting.hidden)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(workload.network(), &mut rng);
    let most = (INSTANCES / setting.batch).max(1);
    let mini_batches = MiniBatch::spread(workload.instances(Part::Test), setting.batch, most);
    let mut agreement = Agreement::new(&*workload, &parameters, mini_batches[0])?;
    let mut entrants = Vec::new();
    for &system in &setting.systems {
        progress(&format!("checking {}", system.name()));
        let contestant =
            workload.contestant(system, &parameters, learned, &mini_batches, setting.threads)?;
        let best = vec![f64::INFINITY; mini_batches.len()];
        let mut contestant = contestant;
        let outcome = contestant.run(0)?;
        agreement.check(outcome).map_err(|error| format!("{}: {error}", system.name()))?;
        entrants.push(Entrant {
            system,
            contestant,
            turns: Vec::new(),
            spent: 0.0,
            best,
            work: [0.0; 3],
        });
    }

    // A mini-batch each: warms caches up, and says how many mini-batches the slowest can afford.
    let slowest = entrants
        .iter_mut()
        .map(|entrant| entrant.turn(&[0]))
        .try_fold(0.0, |a, b| Ok::<_, Failure>(f64::max(a, b?)))?;
    // As many mini-batches as let the slowest have its fewest turns, spread over the whole set.
    let affordable = (setting.seconds / FEWEST_TURNS / slowest) as usize;
    // Threads that run whole mini-batches need some each.
    let fewest = if setting.threads > 1 { most.min(2 * setting.threads) } else { 1 };
    let count = affordable.clamp(fewest, most);
    let chosen: Vec<usize> = (0..count).map(|i| i * most / count).collect();
    let before: Vec<_> = entrants.iter().map(|entrant| entrant.contestant.statistics()).collect();
    let mut peaks = Vec::new();
    for turn in 0..TURNS {
        let mut rested = true;
        // Measured between turns: a core's clock depends on how busy it is with vectors.
        peaks.push(roofline::peak_gflops(Level::detect()));
        for entrant in &mut entrants {
            if turn == 0 || entrant.has_time(setting.seconds) {
                progress(&format!("turn {} of {}", turn + 1, entrant.system.name()));
                let seconds = entrant.turn(&chosen)?;
                entrant.turns.push(seconds);
                entrant.spent += seconds;
                rested = false;
            }
        }
        if rested {
            break;
        }
    }
    let roofline = Roofline {
        peak: Spread::of(&peaks).median,
        highest: peaks.iter().copied().fold(0.0, f64::max),
        copy: roofline::copy_bandwidth(COPIED),
    };
    let weights = parameters.bytes() as u64;
    entrants
        .iter_mut()
        .zip(&before)
        .map(|(entrant, before)| {
            let after = entrant.contestant.statistics();
            progress(&format!("profiling {}", entrant.system.name()));
            entrant.profile(&chosen)?;
            Ok(entrant.records(family, setting, &chosen, [before, &after], &roofline, weights))
        })
        .collect()
}

/// The limits of the core, its roofline, in 1e9 a second.
struct Roofline {
    /// FLOPs, the median.
    peak: f64,
    /// FLOPs, the most that was seen.
    highest: f64,
    /// Bytes copied.
    copy: f64,
}

/// A contestant and its turns so far.
struct Entrant {
    system: System,
    contestant: Box<dyn Contestant>,
    /// Seconds of each turn.
    turns: Vec<f64>,
    spent: f64,
    /// Seconds of the fastest run of each mini-batch.
    best: Vec<f64>,
    /// Shares of execution: gathering, products, element-wise work. Threads are counted one by one.
    work: [f64; 3],
}

impl Entrant {
    /// Runs mini-batches; the seconds that it took.
    fn turn(&mut self, mini_batches: &[usize]) -> Result<f64, Failure> {
        let (mut all, best) = (0.0, &mut self.best);
        self.contestant.run_all(mini_batches, &mut |mini_batch, seconds| {
            best[mini_batch] = seconds.min(best[mini_batch]);
            all += seconds;
        })?;
        Ok(all)
    }

    /// Finds the shares of execution that sorts of steps have, in a turn of its own, because clocks
    /// around each step slow it down.
    fn profile(&mut self, mini_batches: &[usize]) -> Result<(), Failure> {
        let before = self.contestant.statistics();
        self.contestant.profile().switch(true);
        self.turn(mini_batches)?;
        self.contestant.profile().switch(false);
        let execute = (self.contestant.statistics().execute - before.execute).as_secs_f64();
        let sorts = [Work::Gather, Work::Product, Work::Elementwise];
        self.work = sorts.map(|sort| self.contestant.profile().time(sort).as_secs_f64() / execute);
        Ok(())
    }

    /// Whether there is time for another turn as long as the last one.
    fn has_time(&self, seconds: f64) -> bool {
        self.spent + self.turns.last().copied().unwrap_or(0.0) <= seconds
    }

    fn records(
        &self,
        family: &Family,
        setting: &Setting,
        chosen: &[usize],
        [before, after]: [&Statistics; 2],
        roofline: &Roofline,
        weights: u64,
    ) -> (Throughput, Breakdown) {
        let mini_batches = chosen.len() as f64;
        let instances = mini_batches * setting.batch as f64;
        let rates: Vec<f64> = self.turns.iter().map(|seconds| instances / seconds).collect();
        let rate = Spread::of(&rates);
        let counts: Vec<_> = chosen.iter().map(|&index| self.contestant.counts(index)).collect();
        let mean = |of: fn(&crate::workload::Counts) -> u64| {
            counts.iter().map(of).sum::<u64>() as f64 / mini_batches
        };
        let flops_per_instance = mean(|counts| counts.flops) / setting.batch as f64;
        let best = instances / chosen.iter().map(|&index| self.best[index]).sum::<f64>();
        let gflops = flops_per_instance * rate.median / 1e9;
        let live = counts.iter().map(|counts| counts.live_bytes).max().unwrap_or(0);

        let nodes = (after.nodes - before.nodes) as f64;
        let construct = (after.construct - before.construct).as_secs_f64();
        let schedule = (after.schedule - before.schedule).as_secs_f64();
        let plan = (after.plan - before.plan).as_secs_f64();
        let execute = (after.execute - before.execute).as_secs_f64();
        let all: f64 = self.turns.iter().sum();

        let throughput = Throughput {
            system: self.system.name(),
            model: family.model.into(),
            hidden: setting.hidden,
            batch: setting.batch,
            threads: setting.threads,
            instances_per_second: rate.median,
            instances_per_second_low: rate.low,
            instances_per_second_high: rate.high,
            repetitions: rates.len(),
            mini_batches: chosen.len(),
            flops_per_instance,
            gflops,
            peak_gflops: roofline.peak,
            fraction_of_peak: gflops / roofline.peak,
            best_instances_per_second: best,
            best_fraction_of_peak: flops_per_instance * best / 1e9 / roofline.highest,
            copy_gb_per_second: roofline.copy,
            construct_ns_per_node: construct * 1e9 / nodes,
            schedule_ns_per_node: schedule * 1e9 / nodes,
            plan_ns_per_node: plan * 1e9 / nodes,
            execute_share: execute / (construct + schedule + plan + execute),
            nodes: mean(|counts| counts.nodes),
            batches: mean(|counts| counts.batches),
            bound: mean(|counts| counts.bound),
            peak_bytes: after.peak_bytes(),
            live_bytes: weights + live,
            gathered_rows: mean(|counts| counts.gathered_rows),
            gathered_bytes: mean(|counts| counts.gathered_bytes),
            input: family.input.into(),
        };
        let breakdown = Breakdown {
            system: self.system.name(),
            model: family.model.into(),
            input: family.input.into(),
            hidden: setting.hidden,
            batch: setting.batch,
            threads: setting.threads,
            construct: construct / all,
            schedule: schedule / all,
            plan: plan / all,
            execute: execute / all,
            gather: self.work[0] * execute / all,
            product: self.work[1] * execute / all,
            elementwise: self.work[2] * execute / all,
            other: 1.0 - (construct + schedule + plan + execute) / all,
            microseconds_per_instance: 1e6 / rate.median,
        };
        (throughput, breakdown)
    }
}
