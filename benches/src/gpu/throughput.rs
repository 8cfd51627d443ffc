//! Models: a mini-batch at a time in parts, and engines side by side; by teams and by waves.

use std::time::{Duration, Instant};

use edbatch_graph::Schedule;
use edbatch_layout::{Lifetimes, MiniBatch, Plan, Planner, Want};
use edbatch_policy::Scheduler;

use super::on_device::{OnDevice, Way, difference, same_bits};
use super::predictions::{PEAK, predicted};
use super::record::{Figure, median};
use super::run::{Context, Findings, Subject};
use super::setting::{Clock, Kernels, Setting, Use};
use super::verify::TF32_TOLERANCE;
use crate::flops::executed_flops;
use crate::unrolled::Unrolled;
use crate::workload::{Failure, Part};

/// Parts of a mini-batch: the design's choice.
pub(super) const PARTS: usize = 8;

/// What records call the seconds of loading a model whose kernels are stored.
pub(super) const LOAD: &str = "load, kernels stored";

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let options = context.options;
    let (main, others) = options.batches().split_first().expect("there is a first size");
    // What counts comes first: if the time is over, it is there.
    for &hidden in options.hidden() {
        for model in options.workloads() {
            let subject = context.subject(model, hidden, *main)?;
            let kernels: &[Kernels] =
                if options.is_rehearsal() { &Kernels::ALL[..2] } else { &Kernels::ALL };
            for &kernels in kernels {
                for use_ in [Use::One, Use::Many] {
                    if found.is_over() {
                        found.stopped(&format!("at {model}, H = {hidden}"));
                        return Ok(());
                    }
                    let setting =
                        Setting { model: model.into(), hidden, batch: *main, kernels, use_ };
                    measure(context, found, &subject, &setting)?;
                }
            }
        }
    }
    for &hidden in options.hidden() {
        for model in options.workloads() {
            for &batch in others {
                let subject = context.subject(model, hidden, batch)?;
                for use_ in [Use::One, Use::Many] {
                    if found.is_over() {
                        found.stopped(&format!("at {model}, H = {hidden}, {batch} inputs"));
                        return Ok(());
                    }
                    let kernels = Kernels::TEAMS;
                    let setting = Setting { model: model.into(), hidden, batch, kernels, use_ };
                    measure(context, found, &subject, &setting)?;
                }
            }
        }
    }
    Ok(())
}

/// Compares, then times.
fn measure(
    context: &Context<'_>,
    found: &mut Findings<'_>,
    subject: &Subject,
    setting: &Setting,
) -> Result<(), Failure> {
    let (parts, engines) = match setting.use_ {
        Use::One => (parts(setting.batch), 1),
        Use::Many => (1, engines(context, subject, setting.kernels, 0)?),
    };
    let target = &context.target;
    let way = Way { target, kernels: setting.kernels, parts, engines, fewest_blocks: 0 };
    let began = Instant::now();
    let mut device =
        subject.workload.on_device(&subject.parameters, &subject.mini_batches, &way)?;
    let loaded = began.elapsed().as_secs_f64();
    let agreed = compare(&mut *device, subject, setting.kernels)?;
    let Some(same_bits) = agreed else {
        found.failed(&setting.to_string(), "results are not those of the CPU");
        return Ok(());
    };
    // The first load may have compiled.
    if *setting == Setting::main("tree_lstm", Kernels::TEAMS, Use::Many) {
        found.measured(LOAD, Figure::of(&[loaded], "s"), None, None);
    }
    let timing = Timing::of(context);
    let mut add = |clock: Clock, samples: &[f64]| {
        let figure = Figure::of(samples, "µs");
        found.measured(&setting.what(clock), figure, same_bits, predicted(setting, clock));
    };
    match setting.use_ {
        Use::One => {
            let times = one_at_a_time(&mut *device, timing, subject.mini_batches.len(), parts)?;
            for (clock, times) in
                [Clock::EndToEnd, Clock::Host, Clock::Execute].into_iter().zip(&times)
            {
                add(clock, times);
            }
        }
        Use::Many => {
            let times = side_by_side(&mut *device, timing, engines)?;
            add(Clock::EndToEnd, &times);
            // Tensor cores are not bounded by the peak of multiply-adds.
            let peak = median(&context.records, PEAK).filter(|_| setting.kernels.is_exact());
            if let Some(peak) = peak {
                let flops = executed(subject, setting.kernels)?;
                // µs and TFLOP/s.
                let shares: Vec<f64> =
                    times.iter().map(|micros| 100.0 * flops / micros / 1e6 / peak).collect();
                found.measured(&setting.share_of_peak(), Figure::of(&shares, "%"), same_bits, None);
            }
        }
    }
    Ok(())
}

/// Compares all mini-batches with the CPU's; whether bits are the same, if they need be. `None` if
/// results are wrong.
pub(super) fn compare(
    device: &mut dyn OnDevice,
    subject: &Subject,
    kernels: Kernels,
) -> Result<Option<Option<bool>>, Failure> {
    for (index, expected) in subject.expected.iter().enumerate() {
        let got = device.run(index)?;
        let agrees = match kernels.is_exact() {
            true => same_bits(got, expected),
            false => difference(got, expected) <= TF32_TOLERANCE,
        };
        if !agrees {
            return Ok(None);
        }
    }
    Ok(Some(kernels.is_exact().then_some(true)))
}

/// How long, and how often, something is timed.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    /// Seconds that a device is kept busy before, since clocks rise with the load.
    warm_up: f64,
    /// Seconds of a sample, about.
    sample: f64,
    samples: usize,
}

impl Timing {
    /// On a device, or in a rehearsal.
    pub(super) fn of(context: &Context<'_>) -> Self {
        match context.target.is_rehearsal() {
            true => Self { warm_up: 0.0, sample: 0.0, samples: 2 },
            false => Self { warm_up: 0.2, sample: 0.05, samples: 15 },
        }
    }

    /// Runs passes until the device is warm; how many of them a sample has.
    fn passes(&self, mut pass: impl FnMut() -> Result<(), Failure>) -> Result<usize, Failure> {
        let began = Instant::now();
        let mut passes = 0;
        while passes == 0 || began.elapsed().as_secs_f64() < self.warm_up {
            pass()?;
            passes += 1;
        }
        let seconds = began.elapsed().as_secs_f64() / f64::from(passes);
        Ok(((self.sample / seconds).ceil() as usize).clamp(1, 10_000))
    }
}

/// µs of a mini-batch, one at a time: end to end; of that, the host's and the rest, means of parts.
pub(super) fn one_at_a_time(
    device: &mut dyn OnDevice,
    timing: Timing,
    mini_batches: usize,
    parts: usize,
) -> Result<[Vec<f64>; 3], Failure> {
    let pass = |device: &mut dyn OnDevice| -> Result<(), Failure> {
        for mini_batch in 0..mini_batches {
            device.run(mini_batch)?;
        }
        Ok(())
    };
    let passes = timing.passes(|| pass(device))?;
    let mut samples: [Vec<f64>; 3] = Default::default();
    for _ in 0..timing.samples {
        let (before, began) = (device.statistics(), Instant::now());
        for _ in 0..passes {
            pass(device)?;
        }
        let (all, after) = (began.elapsed(), device.statistics());
        let host = (after.construct + after.schedule + after.plan)
            - (before.construct + before.schedule + before.plan);
        let execute = after.execute - before.execute;
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / (passes * mini_batches) as f64;
        samples[0].push(micros(all));
        samples[1].push(micros(host) / parts as f64);
        samples[2].push(micros(execute) / parts as f64);
    }
    Ok(samples)
}

/// µs of a mini-batch where engines run side by side: of all, over their number.
pub(super) fn side_by_side(
    device: &mut dyn OnDevice,
    timing: Timing,
    engines: usize,
) -> Result<Vec<f64>, Failure> {
    let few = 4 * engines;
    let count = few * timing.passes(|| Ok(device.run_side_by_side(few).map(|_| ())?))?;
    let sample = |_| Ok(device.run_side_by_side(count)? * 1e6 / count as f64);
    (0..timing.samples).map(sample).collect()
}

/// Threads that the host has.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Parts of a mini-batch.
pub(super) fn parts(batch: usize) -> usize {
    // Fewer than four inputs a part are not divided.
    PARTS.min(cores()).min(batch / 4).max(1)
}

/// Engines side by side: half as many again as the device has teams, so that each finds the next
/// plan ready, as far as the host has threads.
pub(super) fn engines(
    context: &Context<'_>,
    subject: &Subject,
    kernels: Kernels,
    fewest_blocks: u32,
) -> Result<usize, Failure> {
    let program = kernels.program(subject.workload.network())?;
    let teams = context.target.teams(&program, fewest_blocks);
    Ok((teams + teams.div_ceil(2)).min(cores()).max(2))
}

/// FLOPs that plans of a mini-batch execute, on the average.
fn executed(subject: &Subject, kernels: Kernels) -> Result<f64, Failure> {
    let program = kernels.program(subject.workload.network())?;
    let (mut scheduler, mut schedule) = (Scheduler::by_depth(), Schedule::new());
    let (mut planner, mut plan) = (Planner::new(Lifetimes::Distinct), Plan::default());
    let mut flops = 0;
    for &mini_batch in &subject.mini_batches {
        for Unrolled { graph, wanted } in subject.workload.unroll(Part::Test, mini_batch) {
            scheduler.schedule(&graph, &mut schedule);
            let wanted: Vec<_> = wanted.into_iter().map(|value| (value, Want::Elements)).collect();
            let planned = MiniBatch {
                program: &program,
                graph: &graph,
                schedule: &schedule,
                wanted: &wanted,
            };
            planner.plan(&planned, &mut plan)?;
            flops += executed_flops(&program, &plan);
        }
    }
    Ok(flops as f64 / subject.mini_batches.len() as f64)
}
