//! The parts `throughput`, `breakdown` and `latency`: systems on the same mini-batches.
//!
//! A figure is the median over laps of [rounds](mod@crate::measure::rounds): what a user of this
//! machine sees now. Its spread says how large a difference must be to matter. The best figure
//! takes the fastest run of each mini-batch and the highest peak. It estimates an idle machine and
//! is the one to compare between busy machines.

use edbatch::Statistics;
use edbatch_cuda::LaunchTimes;
use edbatch_policy::{Encoding, Fsm};
use edbatch_runtime::Work as Sort;
use edbatch_runtime::kernels::roofline;

use crate::Failure;
use crate::measure::agreement::Agreement;
use crate::measure::contestant::{Contestant, Work};
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::policies::TrainingGraphs;
use crate::measure::rounds::{Entrant, Rounds, Times, choose, rate, rounds};
use crate::measure::systems::{Setup, System, weights};
use crate::measure::workload::{MiniBatch, Part, Workload};
use crate::record::{Breakdown, Case, Latency, OnDevice, Throughput};
use crate::spread::OverLaps;

/// The settings of a measurement.
#[derive(Clone)]
pub struct Setting<'a> {
    /// Elements of hidden vectors.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// The systems.
    pub systems: Vec<System>,
    /// Approximate seconds of a lap (a series of rounds) for all systems; set for each visit.
    pub seconds: f64,
    /// Planned seconds of a system in all laps. They determine how many mini-batches are timed, so
    /// that all runs time the same ones; `None` times all.
    pub nominal: Option<f64>,
    /// Numbers of threads. Every system runs once with each; systems on a device choose their own.
    pub threads: Vec<usize>,
    /// The device, if it was opened.
    pub device: Option<&'a Device>,
}

/// Bytes copied to measure the bandwidth: more than the caches hold.
const COPIED: usize = 32 << 20;
/// Maximum number of mini-batches whose work is counted: unrolling takes time, and means suffice.
const MAX_COUNTED: usize = 40;

/// Learns the policy of [`System::Paper`] for mini-batches of a size; it does not depend on the
/// size of vectors. Returns an empty policy if that system is not measured.
pub fn learned_by_paper(family: &Family, systems: &[System], batch: usize) -> Result<Fsm, Failure> {
    let workload = family.at(8)?;
    Ok(if systems.contains(&System::Paper) {
        TrainingGraphs::new(&*workload, batch).learn(Encoding::Sort, |_| {}).policy
    } else {
        Fsm::new(Encoding::Sort, workload.network().cells().len())
    })
}

/// Parts of a mini-batch on a device. An engine divides small mini-batches into fewer parts.
const PARTS: usize = 8;

/// Returns the number of threads for a system on a device, limited by the host's cores. A
/// mini-batch has a thread for each part. Engines side by side have 1.5 threads for each plan that
/// the device can run at the same time, so that the next plans are ready.
pub fn device_threads(
    device: Option<&Device>,
    workload: &dyn Workload,
    system: System,
) -> Result<usize, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    if !system.is_across() {
        return Ok(PARTS.min(cores));
    }
    let program = system.program(workload.network())?;
    let teams = device.map_or(1, |device| device.teams(&program));
    Ok((teams + teams.div_ceil(2)).min(cores).max(2))
}

/// The laps of a setting so far.
#[derive(Default)]
pub struct Laps {
    /// The mini-batches that are timed.
    chosen: Vec<usize>,
    rounds: Vec<Rounds>,
    /// The sum of nodes and of seconds over all laps, by system.
    spent: Vec<Spent>,
    /// The launches of all laps, by system.
    launched: Vec<LaunchTimes>,
    /// For each system, counted in the first lap: the shares of [`Running::profile`], and the work
    /// of up to [`MAX_COUNTED`] mini-batches.
    counted: Vec<([f64; 3], Vec<Work>)>,
    /// The peak of the device, if it is used and not emulated, and the bandwidth of copies.
    device: Option<f64>,
    copy: f64,
}

/// Nodes, and seconds of construction, scheduling, planning and execution.
type Spent = [f64; 5];

/// The figures of all systems.
pub type Measured = Vec<(Throughput, Breakdown)>;

/// Runs a further lap of all systems on a workload, with new engines. Returns the figures of all
/// laps so far. `progress` is called with the name of each activity.
pub fn throughput(
    family: &Family,
    setting: &Setting<'_>,
    learned: &Fsm,
    laps: &mut Laps,
    mut progress: impl FnMut(&str),
) -> Result<Measured, Failure> {
    let workload = family.at(setting.hidden)?;
    let parameters = weights(workload.network());
    let instances = workload.instances(Part::Test);
    let all = (instances / setting.batch).max(1);
    let mini_batches = MiniBatch::spread(instances, setting.batch, all);

    let mut agreement = Agreement::new(&*workload, &parameters, &mini_batches)?;
    let mut running = Vec::new();
    for &system in &setting.systems {
        let numbers = match system.on_cuda() {
            None => setting.threads.clone(),
            Some(_) => vec![device_threads(setting.device, &*workload, system)?],
        };
        for threads in numbers {
            progress(&format!("checking {}", system.name()));
            let setup = Setup::new(system, learned, threads).on(setting.device);
            let mut contestant = workload.contestant(&setup, &parameters, &mini_batches)?;
            agreement
                .check(system.tolerance(), |number| Ok(contestant.run(number)?.to_vec()))
                .map_err(|error| format!("{}: {error}", system.name()))?;
            let device = setting.device.filter(|_| system.on_cuda().is_some());
            let launched = LaunchTimes::default();
            running.push(Running { system, threads, contestant, device, launched });
        }
    }
    progress("taking turns");
    if laps.rounds.is_empty() {
        let whole = |running: &&Running<'_>| {
            running.system.on_cuda().is_none() || running.system.is_across()
        };
        let most_threads = running.iter().filter(whole).map(|running| running.threads).max();
        let most_threads = most_threads.unwrap_or(1);
        // Each thread that runs whole mini-batches needs at least two.
        let at_least = if most_threads > 1 { 2 * most_threads } else { 1 };
        let flops = running[0].contestant.work(0).flops as f64;
        laps.chosen = choose(all, at_least, flops, setting.nominal);
        laps.spent = vec![[0.0; 5]; running.len()];
        laps.launched = vec![LaunchTimes::default(); running.len()];
    }
    let before: Vec<_> = running.iter().map(|running| running.contestant.statistics()).collect();
    let mut entrants: Vec<Entrant<'_>> = running.iter_mut().map(Running::entrant).collect();
    let (lap, whole) = (laps.rounds.len(), setting.nominal.is_none());
    laps.rounds.push(rounds(&mut entrants, &laps.chosen, lap, setting.seconds, whole)?);
    drop(entrants);
    for (sum, running) in laps.launched.iter_mut().zip(&running) {
        *sum += running.launched;
    }
    for ((sums, running), before) in laps.spent.iter_mut().zip(&running).zip(&before) {
        let spent = spent(before, &running.contestant.statistics());
        sums.iter_mut().zip(spent).for_each(|(sum, spent)| *sum += spent);
    }
    if lap == 0 {
        profile(laps, &mut running, setting, progress)?;
    }
    let peaks: Vec<Vec<f64>> = laps.rounds.iter().map(|rounds| rounds.peaks.clone()).collect();
    let timed = Timed {
        family,
        setting,
        laps,
        core: [OverLaps::of(&peaks).median, peaks.iter().flatten().copied().fold(0.0, f64::max)],
        weights: parameters.bytes() as u64,
    };
    Ok(running.iter().enumerate().map(|(index, running)| timed.records(running, index)).collect())
}

/// After the first lap: takes profiles of all systems, and the peaks of the device and of memory.
fn profile(
    laps: &mut Laps,
    running: &mut [Running<'_>],
    setting: &Setting<'_>,
    mut progress: impl FnMut(&str),
) -> Result<(), Failure> {
    let step = laps.chosen.len().div_ceil(MAX_COUNTED);
    for running in &mut *running {
        progress(&format!("profiling {}", running.system.name()));
        let shares = running.profile(&laps.chosen)?;
        let counted = laps.chosen.iter().step_by(step);
        let work = counted.map(|&index| running.contestant.work(index)).collect();
        laps.counted.push((shares, work));
    }
    let on_device = running.iter().any(|running| running.system.on_cuda().is_some());
    let device = setting.device.filter(|_| on_device);
    laps.device = device.map(Device::peak_gflops).transpose()?.flatten();
    laps.copy = roofline::copy_bandwidth(COPIED);
    Ok(())
}

/// Returns the nodes and the seconds between two readings of an engine's statistics.
fn spent(before: &Statistics, after: &Statistics) -> Spent {
    [
        (after.nodes - before.nodes) as f64,
        (after.construct - before.construct).as_secs_f64(),
        (after.schedule - before.schedule).as_secs_f64(),
        (after.plan - before.plan).as_secs_f64(),
        (after.execute - before.execute).as_secs_f64(),
    ]
}

/// A system that is measured.
struct Running<'a> {
    system: System,
    threads: usize,
    contestant: Box<dyn Contestant>,
    /// The device, if the system runs on it, and the launches of this lap's rounds.
    device: Option<&'a Device>,
    launched: LaunchTimes,
}

impl Running<'_> {
    fn entrant(&mut self) -> Entrant<'_> {
        Box::new(|mini_batches, each| {
            let before = self.device.map(Device::launch_times);
            self.contestant.run_all(mini_batches, each)?;
            if let (Some(device), Some(before)) = (self.device, before) {
                self.launched += device.launch_times() - before;
            }
            Ok(())
        })
    }

    /// Divides the mean time of a mini-batch. `times` has all its runs.
    fn on_device(&self, launched: &LaunchTimes, times: &Times) -> Option<OnDevice> {
        self.device?;
        let engines = if self.system.is_across() { self.threads as f64 } else { 1.0 };
        let runs = times.runs.len() as f64;
        let [all, device_ns, seen] = [
            1e9 * engines * times.runs.iter().sum::<f64>(),
            launched.device_ns as f64,
            launched.seen_ns as f64,
        ]
        .map(|sum| sum / runs);
        let (launch_ns, host_ns) = (seen - device_ns, all - seen);
        Some(OnDevice { device_ns, launch_ns, host_ns, sm_mhz: launched.clock_mhz() })
    }

    /// Returns gathers, products and element-wise work as fractions of the execution time.
    ///
    /// Runs the mini-batches once more for this, because reading the clock around each step slows
    /// execution down. Times are summed over threads, so fractions can exceed 1.
    fn profile(&mut self, mini_batches: &[usize]) -> Result<[f64; 3], Failure> {
        let before = self.contestant.statistics();
        self.contestant.profile().switch(true);
        self.contestant.run_all(mini_batches, &mut |_, _| {})?;
        self.contestant.profile().switch(false);
        let execute = (self.contestant.statistics().execute - before.execute).as_secs_f64();
        let sorts = [Sort::Gather, Sort::Product, Sort::Elementwise];
        Ok(sorts.map(|sort| self.contestant.profile().time(sort).as_secs_f64() / execute))
    }
}

/// Settings and figures that the records of all systems share.
struct Timed<'a> {
    family: &'a Family,
    setting: &'a Setting<'a>,
    laps: &'a Laps,
    /// Peak of the core in 1e9 FLOPs a second: the median and the maximum.
    core: [f64; 2],
    /// Bytes of the weights.
    weights: u64,
}

impl Timed<'_> {
    fn records(&self, running: &Running<'_>, index: usize) -> (Throughput, Breakdown) {
        let Setting { hidden, batch, .. } = *self.setting;
        let Laps { chosen, rounds, spent, device, copy, .. } = self.laps;
        let (work, counts) = &self.laps.counted[index];
        let instances = (chosen.len() * batch) as f64;
        let rate = rate(rounds, index, instances);
        let mut times = Times::default();
        rounds.iter().for_each(|lap| times.extend(&lap.times[index]));
        let mean =
            |of: fn(&Work) -> u64| counts.iter().map(of).sum::<u64>() as f64 / counts.len() as f64;
        let flops_per_instance = mean(|work| work.flops) / batch as f64;
        let best = instances / times.best();
        let gflops = flops_per_instance * rate.median / 1e9;
        let live = counts.iter().map(|work| work.live_bytes).max().unwrap_or(0);
        let [nodes, construct, schedule, plan, execute] = spent[index];
        let deciding = construct + schedule + plan;
        let [peak, highest] = match running.system.on_cuda() {
            None => self.core,
            Some(_) => device.map_or(self.core, |peak| [peak; 2]),
        };

        let case = Case {
            model: self.family.model.into(),
            input: self.family.input.into(),
            hidden,
            batch,
            threads: running.threads,
            backend: running.system.backend().into(),
        };
        let throughput = Throughput {
            system: running.system.recorded(),
            case: case.clone(),
            instances_per_second: rate.median,
            instances_per_second_low: rate.low,
            instances_per_second_high: rate.high,
            spread: rate.reach(),
            laps: rounds.len(),
            repetitions: times.turns.len(),
            mini_batches: chosen.len(),
            latency_ns: Latency { p50: times.latency(0.5) * 1e9, p99: times.latency(0.99) * 1e9 },
            flops_per_instance,
            executed_flops_per_instance: mean(|work| work.executed_flops) / batch as f64,
            gflops,
            peak_gflops: peak,
            fraction_of_peak: gflops / peak,
            best_instances_per_second: best,
            best_fraction_of_peak: flops_per_instance * best / 1e9 / highest,
            copy_gb_per_second: *copy,
            construct_ns_per_node: construct * 1e9 / nodes,
            schedule_ns_per_node: schedule * 1e9 / nodes,
            plan_ns_per_node: plan * 1e9 / nodes,
            execute_share: execute / (deciding + execute),
            nodes: mean(|work| work.nodes),
            batches: mean(|work| work.counts.batches),
            bound: mean(|work| work.bound),
            folded: running.system.is_folded(),
            peak_bytes: running.contestant.statistics().peak_bytes(),
            live_bytes: self.weights + live,
            gathered_rows: mean(|work| work.gathered_rows),
            gathered_bytes: mean(|work| work.counts.gathered_bytes),
            on_device: running.on_device(&self.laps.launched[index], &times),
        };
        let all: f64 = times.turns.iter().sum();
        let breakdown = Breakdown {
            system: running.system.recorded(),
            case,
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
