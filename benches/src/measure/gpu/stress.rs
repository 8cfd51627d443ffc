//! The part `stress`: mini-batches of several programs at once, on all teams (groups of blocks that
//! run a plan). A changed bit in a result means that a fence is missing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::Failure;
use crate::measure::bits::same_bits_or_nan;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::gpu::subject::Subject;
use crate::measure::systems::System;
use crate::record::finding::{Finding, Outcome};

/// Approximate number of engines, over all programs; each runs on its own thread.
const THREADS: usize = 12;

/// Inputs of a mini-batch: few, so that there are many plans.
const BATCH: usize = 8;

/// Runs engines of several programs until a deadline, each at least once, and compares all results.
pub(super) fn stress(
    device: &Device,
    families: &[&Family],
    hidden: usize,
    until: Instant,
) -> Result<Vec<Finding>, Failure> {
    let subjects = families.iter().map(|family| Subject::new(family, hidden, BATCH));
    let subjects = subjects.collect::<Result<Vec<Subject>, _>>()?;
    let mut engines = Vec::new();
    for subject in &subjects {
        let mut first = subject.contestant(device, System::Cuda, 1)?;
        let forks = 1..(THREADS / subjects.len()).max(1);
        engines.extend(forks.map(|_| (first.fork(), &subject.expected[..])));
        engines.push((first, &subject.expected[..]));
    }
    let (plans, wrong) = (AtomicU64::new(0), Mutex::new(None::<String>));
    // Milliseconds, summed over the engines: of mini-batches as a whole, and from plan to outputs,
    // while an engine waits for SMs and for the device.
    let (took, waited) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = engines.len();
    thread::scope(|scope| {
        for (first, (mut engine, expected)) in engines.into_iter().enumerate() {
            let (plans, wrong, took, waited) = (&plans, &wrong, &took, &waited);
            scope.spawn(move || {
                let began = Instant::now();
                for index in (first..).map(|index| index % expected.len()) {
                    let message = match engine.run(index) {
                        Ok(got) if same_bits_or_nan(got, &expected[index]) => None,
                        Ok(_) => Some(format!("mini-batch {index} has different bits")),
                        Err(error) => Some(error.to_string()),
                    };
                    if let (Some(message), Ok(mut wrong)) = (message, wrong.lock()) {
                        wrong.get_or_insert(message);
                        break;
                    }
                    plans.fetch_add(1, Ordering::Relaxed);
                    let goes_on = wrong.lock().is_ok_and(|wrong| wrong.is_none());
                    if Instant::now() >= until || !goes_on {
                        break;
                    }
                }
                took.fetch_add(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                let own = engine.statistics().execute.as_millis() as u64;
                waited.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    let plans = plans.into_inner();
    let what = format!("{count} engines of {} programs", subjects.len());
    let (outcome, note) = match wrong.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    {
        Some(wrong) => (Outcome::Failed, format!("after {plans} mini-batches: {wrong}")),
        None => {
            let [took, waited] = [took, waited].map(|time| time.into_inner() as f64 / 1e3);
            let note = format!(
                "{plans} mini-batches without a changed bit; engines waited {waited:.1} of \
                 {took:.1} s"
            );
            (Outcome::Passed, note)
        }
    };
    Ok(vec![Finding::new("stress", &what, outcome, note)])
}
