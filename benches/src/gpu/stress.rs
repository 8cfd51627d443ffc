//! Many plans of several programs at once, on all teams: a bit that moves is a missing fence.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use super::on_device::{OnDevice, Stress, Way};
use super::run::{Context, Findings, Subject};
use super::setting::Kernels;
use crate::workload::Failure;

/// Threads of all programs together.
const THREADS: usize = 12;

/// Inputs of a mini-batch: few, so that plans are many.
const BATCH: usize = 8;

/// Seconds of a rehearsal.
const REHEARSAL: Duration = Duration::from_secs(2);

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let options = context.options;
    let hidden = options.hidden()[0];
    let subjects = options.workloads().map(|model| context.subject(model, hidden, BATCH));
    let subjects = subjects.collect::<Result<Vec<Subject>, _>>()?;
    if subjects.is_empty() {
        found.skipped("stress", "no model that it runs was chosen");
        return Ok(());
    }
    let (target, kernels) = (&context.target, Kernels::TEAMS);
    let engines = THREADS / subjects.len();
    let way = Way { target, kernels, parts: 1, engines, fewest_blocks: 0 };
    let load = |subject: &Subject| {
        subject.workload.on_device(&subject.parameters, &subject.mini_batches, &way)
    };
    let mut devices = subjects.iter().map(load).collect::<Result<Vec<Box<dyn OnDevice>>, _>>()?;
    let until = match options.is_rehearsal() {
        true => found.until().min(Instant::now() + REHEARSAL),
        false => found.until(),
    };
    let stress = Stress { until, plans: AtomicU64::new(0), wrong: Mutex::new(None) };
    thread::scope(|scope| {
        for (device, subject) in devices.iter_mut().zip(&subjects) {
            device.stress(scope, &subject.expected, &stress);
        }
    });
    let plans = stress.plans.into_inner();
    let what = format!("{} engines of {} programs", engines * subjects.len(), subjects.len());
    match stress.wrong.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(wrong) => found.failed(&what, &format!("after {plans} mini-batches: {wrong}")),
        None if plans == 0 => found.stopped("before the first mini-batch"),
        None => found.passed(&what, &format!("{plans} mini-batches, no bit moved")),
    }
    Ok(())
}
