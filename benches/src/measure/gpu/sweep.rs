//! The part `sweep`: varies parts of a mini-batch, engines side by side, and blocks per plan.

use std::time::Instant;

use crate::Failure;
use crate::measure::bits::same_bits_or_nan;
use crate::measure::contestant::Contestant;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::gpu::subject::Subject;
use crate::measure::systems::System;
use crate::measure::throughput::device_threads;
use crate::record::finding::{Finding, Outcome};

/// Elements of a vector.
const HIDDEN: usize = 256;
/// Instances in a mini-batch.
const BATCH: usize = 64;
/// Seconds before the first sample, since clocks rise with the load.
const WARM_UP: f64 = 0.2;
/// Approximate seconds of a sample.
const SAMPLE: f64 = 0.05;
/// The number of samples.
const SAMPLES: usize = 15;

/// Times workloads with several settings until a deadline.
pub(super) fn sweep(
    device: &Device,
    families: &[&Family],
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for family in families {
        let subject = Subject::new(family, HIDDEN, BATCH)?;
        for (system, threads, min_blocks) in settings(device, &subject)? {
            let threads_of = if system.is_across() { "engines" } else { "parts" };
            let team = match min_blocks {
                0 => "smallest teams".to_string(),
                blocks => format!("teams of at least {blocks} blocks"),
            };
            let what = format!("{}, {team}, {threads} {threads_of}", family.model);
            if Instant::now() >= until {
                let note = "the time was over";
                findings.push(Finding::new("sweep", &what, Outcome::Stopped, note));
                return Ok(findings);
            }
            progress(&what);
            let mut contestant = subject.contestant(device, system, threads, min_blocks)?;
            findings.push(match same_results(&mut *contestant, &subject)? {
                true => {
                    let passes = if system.is_across() { threads } else { 1 };
                    let micros = micros(&mut *contestant, subject.expected.len(), passes)?;
                    Finding::measured("sweep", &what, &micros, "µs")
                }
                false => {
                    let note = "results differ from the processor's";
                    Finding::new("sweep", &what, Outcome::Failed, note)
                }
            });
        }
    }
    Ok(findings)
}

/// Returns the settings: system, threads, and minimum number of blocks that run a plan.
fn settings(device: &Device, subject: &Subject) -> Result<Vec<(System, usize, u32)>, Failure> {
    let threads =
        |system, min_blocks| device_threads(Some(device), &*subject.workload, system, min_blocks);
    let (cuda, across) = (System::Cuda, System::CudaAcross);
    let best = threads(across, 0)?;
    let mut settings: Vec<_> = [1, 2, 4, 8, 16].map(|parts| (cuda, parts, 0)).to_vec();
    let engines = [best / 2, best * 2 / 3, best, 2 * best];
    settings.extend(engines.map(|engines| (across, engines.max(2), 0)));
    for min_blocks in [32, 64] {
        settings.push((cuda, threads(cuda, min_blocks)?, min_blocks));
        settings.push((across, threads(across, min_blocks)?, min_blocks));
    }
    settings.dedup();
    Ok(settings)
}

/// Returns true if all mini-batches have the processor's results.
fn same_results(contestant: &mut dyn Contestant, subject: &Subject) -> Result<bool, Failure> {
    for (index, expected) in subject.expected.iter().enumerate() {
        if !same_bits_or_nan(contestant.run(index)?, expected) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns samples of the time of a mini-batch in µs.
fn micros(
    contestant: &mut dyn Contestant,
    mini_batches: usize,
    passes: usize,
) -> Result<Vec<f64>, Failure> {
    let mut run = |passes: usize| -> Result<f64, Failure> {
        let order: Vec<usize> = (0..passes * mini_batches).map(|i| i % mini_batches).collect();
        let began = Instant::now();
        contestant.run_all(&order, &mut |_, _| {})?;
        Ok(began.elapsed().as_secs_f64() / passes as f64)
    };
    let (began, mut pass) = (Instant::now(), run(passes)?);
    while began.elapsed().as_secs_f64() < WARM_UP {
        pass = run(passes)?;
    }
    let passes = ((SAMPLE / pass).ceil() as usize).clamp(passes, 10_000);
    (0..SAMPLES).map(|_| Ok(run(passes)? * 1e6 / mini_batches as f64)).collect()
}
