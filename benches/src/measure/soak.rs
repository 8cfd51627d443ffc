//! The part `soak`: engines run mini-batches of changing shape for an hour. Their memory must not
//! grow and their results must not change by a bit.
//!
//! Every model has two engines: on one thread and on all threads of the machine. A generator with
//! a fixed seed draws the next model, engine, number of instances and instances. Once a minute
//! every engine runs the model's reference mini-batch, which must give the bits of the first
//! minute.

mod subject;

use std::fs;
use std::thread::available_parallelism;
use std::time::Instant;

use edbatch_runtime::ThreadPool;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::soak::subject::Subject;
use crate::record::soak::{Memory, Soak, SoakSample};
use crate::text::{percent, whole};

/// Default duration in seconds.
pub const HOUR: f64 = 3600.0;

/// Seed of all random draws.
const SEED: u64 = 1;
/// Seconds between samples of long runs.
const MINUTE: f64 = 60.0;
/// The minimum number of samples of shorter runs.
const MIN_SAMPLES: f64 = 8.0;

/// Runs mini-batches for some seconds. `say` receives a line for each sample.
pub fn soak(families: &[Family], seconds: f64, mut say: impl FnMut(&str)) -> Result<Soak, Failure> {
    let pool = ThreadPool::new(available_parallelism().map_or(1, Into::into));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let subject = |family| Subject::new(family, &pool, &mut rng);
    let mut subjects = families.iter().map(subject).collect::<Result<Vec<_>, _>>()?;
    let every = MINUTE.min(seconds / MIN_SAMPLES);
    let (began, mut mini_batches) = (Instant::now(), 0);
    let (mut samples, mut moved) = (Vec::<SoakSample>::new(), None);
    while began.elapsed().as_secs_f64() < seconds && moved.is_none() {
        let index = rng.random_range(0..subjects.len());
        subjects[index].run_random(&mut rng)?;
        mini_batches += 1;
        if began.elapsed().as_secs_f64() < every * (samples.len() + 1) as f64 {
            continue;
        }
        let mut reference_seconds = 0.0;
        for subject in &mut subjects {
            let (seconds, changed) = subject.run_reference()?;
            reference_seconds += seconds;
            moved = moved.or(changed);
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
        seconds: began.elapsed().as_secs_f64(),
        mini_batches,
        memory: Memory::of(&samples),
        moved,
        samples,
    })
}

/// Describes the last sample for the terminal.
fn line(samples: &[SoakSample]) -> String {
    let last = samples.last().expect("called after a sample was added");
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

/// Returns the resident memory of this process, if the system reports it.
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
    fn written_memory_becomes_resident() {
        let before = resident_bytes().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes().unwrap();
        assert!(after > before + (32 << 20), "{before} bytes, then {after}");
        drop(block);
    }
}
