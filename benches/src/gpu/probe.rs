//! What device it is, its bandwidths and its peak: all other figures are relative to these.

use edbatch::cuda::measure::{self, Experiment};

use super::predictions::{FMA_PEAK, PEAK};
use super::record::Figure;
use super::run::{Context, Findings};
use crate::workload::Failure;

pub(super) const SAMPLES: usize = 20;

/// Bytes of a copy that leaves every cache, and of one that stays in a cache.
const COPIES: [(&str, usize); 2] =
    [("copy in memory, read and written", 256 << 20), ("copy in the cache", 8 << 20)];

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let Some(probe) = context.target.probe() else {
        found.skipped("probe", "the emulated device has no bandwidth and no peak");
        return Ok(());
    };
    let hardware = probe.hardware();
    let compiler = match measure::compiler() {
        Some((major, minor)) => format!("NVRTC {major}.{minor}"),
        None => "no NVRTC: stored kernels alone".into(),
    };
    found.passed(
        "the device",
        &format!(
            "{}, {}, {} processors, {} KB of shared memory for a block, {} MB of cache, driver for \
             CUDA {}.{}, {compiler}, clocks up to {} and {} MHz",
            hardware.name,
            hardware.architecture,
            hardware.sms,
            hardware.shared_bytes >> 10,
            hardware.cache_bytes >> 20,
            hardware.driver.0,
            hardware.driver.1,
            hardware.clock_khz / 1000,
            hardware.memory_clock_khz / 1000,
        ),
    );
    for (what, bytes) in COPIES {
        if found.is_over() {
            found.stopped(what);
            return Ok(());
        }
        let measured = probe.measure(Experiment::Copy { bytes }, SAMPLES)?;
        let rates: Vec<f64> = measured.device.iter().map(|ns| measured.work / ns).collect();
        found.measured(what, Figure::of(&rates, "GB/s"), None, None);
    }
    let measured = probe.measure(Experiment::MultiplyAdds, SAMPLES)?;
    let rates: Vec<f64> = measured.device.iter().map(|ns| measured.work / ns / 1e3).collect();
    found.measured(PEAK, Figure::of(&rates, "TFLOP/s"), None, Some(FMA_PEAK));
    Ok(())
}
