//! Parts that verify and measure a CUDA device.
//!
//! Each part returns findings. `verify` and `verify-training` come before everything that is
//! timed. Throughput on a device is measured like any other [system](crate::measure::systems).

pub(crate) mod experiment;
mod latencies;
pub mod pack;
pub mod predict;
mod probe;
mod sanitize;
mod stress;
mod subject;
pub mod trainers;
pub mod training;
mod verify;
mod verify_training;
mod waves;

use std::time::Instant;

use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::gpu::latencies::latencies;
use crate::measure::gpu::probe::probe;
use crate::measure::gpu::sanitize::sanitize;
use crate::measure::gpu::stress::stress;
use crate::measure::gpu::verify::verify;
use crate::measure::gpu::verify_training::verify_training;
use crate::measure::gpu::waves::waves;
use crate::measure::options::{Options, Part};
use crate::record::finding::{Finding, Outcome};

/// Runs a part of the measurements until a deadline, and returns its findings. If the part fails,
/// returns one finding that says so.
pub fn findings(
    part: Part,
    options: &Options,
    device: &Device,
    families: &[Family],
    until: Instant,
    progress: impl FnMut(&str),
) -> Vec<Finding> {
    let name = part.name();
    let skipped = |note: &str| Ok(vec![Finding::new(&name, &name, Outcome::Skipped, note)]);
    // Keeps the first of a model's sets.
    let mut workloads: Vec<&Family> = families.iter().collect();
    workloads.dedup_by_key(|family| family.model);
    let findings = match (part, device.probe()) {
        (Part::Verify, _) => {
            Ok(verify(device, &options.models, options.networks(), until, progress))
        }
        (Part::VerifyTraining, _) => {
            Ok(verify_training(device, &options.models, options.networks(), until, progress))
        }
        (Part::Stress, _) => match workloads.first() {
            Some(first) => {
                let hidden = options.hidden(first)[0];
                stress(device, &workloads, hidden, until)
            }
            None => skipped("no model with a workload was chosen"),
        },
        (Part::Waves, _) => waves(device, until, progress),
        (_, None) => skipped("the emulated device has no speed, and no sanitizer"),
        (Part::Probe, Some(device)) => probe(device),
        (Part::Latencies, Some(device)) => latencies(device, until, progress),
        (_, Some(_)) => sanitize(until, progress),
    };
    findings.unwrap_or_else(|failure| {
        vec![Finding::new(&name, &name, Outcome::Failed, failure.to_string())]
    })
}
