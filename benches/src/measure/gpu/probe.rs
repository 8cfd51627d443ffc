//! The part `probe`: hardware, bandwidths and peak of the device.

use edbatch_cuda::measure::{self, ProbeDevice};

use crate::Failure;
use crate::measure::gpu::experiment::Experiment;
use crate::record::finding::{Finding, Outcome};

/// Number of samples of each figure.
pub(super) const SAMPLES: usize = 20;

/// Bytes of a copy that exceeds every cache, and of one that stays in the L2 cache.
const COPIES: [(&str, usize); 2] =
    [("copy in memory, read and written", 256 << 20), ("copy in the cache", 8 << 20)];

/// Measures bandwidths and the peak of multiply-adds.
pub(super) fn probe(probe: &ProbeDevice) -> Result<Vec<Finding>, Failure> {
    let hardware = probe.hardware();
    let compiler = match measure::compiler() {
        Some((major, minor)) => format!("NVRTC {major}.{minor}"),
        None => "no NVRTC, only stored kernels".into(),
    };
    let note = format!(
        "{} KB of shared memory for a block, {} MB of L2 cache, {compiler}",
        hardware.shared_bytes >> 10,
        hardware.cache_bytes >> 20,
    );
    let mut findings = vec![Finding::new("probe", "the device", Outcome::Passed, note)];
    for (what, bytes) in COPIES {
        let measured = Experiment::Copy { bytes }.measure(probe, SAMPLES)?;
        let rates: Vec<f64> = measured.device.iter().map(|ns| measured.work / ns).collect();
        findings.push(Finding::measured("probe", what, &rates, "GB/s"));
    }
    let measured = Experiment::MultiplyAdds.measure(probe, SAMPLES)?;
    let rates: Vec<f64> = measured.device.iter().map(|ns| measured.work / ns / 1e3).collect();
    findings.push(Finding::measured("probe", "FMA peak", &rates, "TFLOP/s"));
    Ok(findings)
}
