//! The part `soak`: engines that run mini-batches of changing shape for an hour, whose memory must
//! not grow and whose bits must not move.
//!
//! Every model has four engines: with plans kept and without, on one thread and on all of the
//! machine's. Which model runs next, on which engine, and which instances, how many of them, are
//! drawn by a generator with a fixed seed. Half of the mini-batches are one of the last few of the
//! model, so that kept plans are found as often as not. Once a minute every engine runs the
//! model's reference mini-batch, whose bits and time are those of the first minute, or not.

mod figures;
mod subject;
mod verdict;

use std::fs;
use std::thread::available_parallelism;
use std::time::Instant;

use edbatch_runtime::ThreadPool;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::families::Family;
use crate::text::{percent, whole};
use crate::workload::Failure;
pub use figures::{Soak, SoakSample};
pub use subject::AnyInstances;
pub(crate) use subject::OnAnyInstances;
use subject::Subject;
pub use verdict::{Memory, Trend};

/// The seconds of a run that says nothing else.
pub const HOUR: f64 = 3600.0;

/// What all draws follow from.
const SEED: u64 = 1;
/// Seconds between samples, and how many there are of shorter runs.
const MINUTE: f64 = 60.0;
const FEWEST_SAMPLES: f64 = 8.0;

/// Runs mini-batches for so many seconds; `say` takes a line for each sample.
///
/// # Errors
/// If a model cannot be declared, or a mini-batch cannot be run.
pub fn soak(families: &[Family], seconds: f64, mut say: impl FnMut(&str)) -> Result<Soak, Failure> {
    let pool = ThreadPool::new(available_parallelism().map_or(1, Into::into));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let subject = |family| Subject::new(family, &pool, &mut rng);
    let mut subjects = families.iter().map(subject).collect::<Result<Vec<_>, _>>()?;
    let every = MINUTE.min(seconds / FEWEST_SAMPLES);
    let (began, mut mini_batches) = (Instant::now(), 0);
    let (mut samples, mut moved) = (Vec::<SoakSample>::new(), None);
    while began.elapsed().as_secs_f64() < seconds && moved.is_none() {
        let index = rng.random_range(0..subjects.len());
        subjects[index].run_any(&mut rng)?;
        mini_batches += 1;
        if began.elapsed().as_secs_f64() < every * (samples.len() + 1) as f64 {
            continue;
        }
        let mut reference_seconds = 0.0;
        for subject in &mut subjects {
            let (seconds, other) = subject.run_reference()?;
            reference_seconds += seconds;
            moved = moved.or(other);
        }
        let sample = SoakSample {
            seconds: began.elapsed().as_secs_f64(),
            mini_batches,
            resident_bytes: resident_bytes(),
            held_bytes: subjects.iter().map(Subject::bytes).sum(),
            reference_seconds,
        };
        samples.push(sample);
        say(&line(&samples));
    }
    Ok(Soak {
        seed: SEED,
        models: families.iter().map(|family| family.model.into()).collect(),
        engines: subjects.iter().map(|subject| subject.engines()).sum(),
        threads: pool.threads(),
        plans_reused: subjects.iter().map(Subject::plans_reused).sum(),
        seconds: began.elapsed().as_secs_f64(),
        mini_batches,
        memory: Memory::of(&samples),
        moved,
        samples,
    })
}

/// The last sample, as the terminal shows it.
fn line(samples: &[SoakSample]) -> String {
    let last = samples.last().expect("called when one has come");
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    format!(
        "{:>6.0} s: {} mini-batches, {} resident, {} held by engines, reference mini-batches at \
         {} of the first speed",
        last.seconds,
        whole(last.mini_batches as f64),
        last.resident_bytes.map_or("unknown".into(), megabytes),
        megabytes(last.held_bytes),
        percent(samples[0].reference_seconds / last.reference_seconds),
    )
}

/// The memory of this process that is in the machine's, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::resident_bytes;

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_written_becomes_resident() {
        let before = resident_bytes().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after > before + (32 << 20), "{before} bytes, then {after}");
        drop(block);
    }
}
