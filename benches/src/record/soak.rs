//! Figures of the part `soak`, and the verdict on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{percent, whole};

/// Results of mini-batches of changing shape, run for an hour.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Soak {
    /// The seed of all random draws.
    pub seed: u64,
    /// The models; a model that runs on two sets is listed twice.
    pub models: Vec<String>,
    /// Number of engines.
    pub engines: usize,
    /// Threads of each model's second engine; the first engine has one.
    pub threads: usize,
    /// Duration in seconds.
    pub seconds: f64,
    /// Mini-batches run by all engines.
    pub mini_batches: u64,
    /// Trend of resident memory.
    pub memory: Memory,
    /// The first model and engine whose reference mini-batch gave different bits, if any.
    pub moved: Option<String>,
    /// One sample a minute.
    pub samples: Vec<SoakSample>,
}

/// One sample of a soak.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoakSample {
    /// Seconds since the start.
    pub seconds: f64,
    /// Mini-batches so far.
    pub mini_batches: u64,
    /// Resident memory of the process; `None` if the system does not report it.
    pub resident_bytes: Option<u64>,
    /// Bytes of the weights and peak arenas of all engines.
    pub held_bytes: u64,
    /// Sum over engines of the fastest run of the reference mini-batch.
    pub reference_seconds: f64,
}

impl Soak {
    /// Returns a message if memory grew or a bit of the results changed.
    pub fn failure(&self) -> Option<String> {
        if let Some(engine) = &self.moved {
            return Some(format!("the bits of the reference mini-batch changed: {engine}"));
        }
        self.memory.grows().then(|| format!("memory {}", self.memory))
    }

    /// Returns the verdict in one line, without the speed, which other work may affect.
    pub fn verdict(&self) -> String {
        let (mini_batches, engines) = (whole(self.mini_batches as f64), self.engines);
        let (seconds, memory) = (self.seconds, self.memory);
        let bits = match &self.moved {
            None => format!("reference bits equal {} times", self.samples.len()),
            Some(engine) => format!("reference bits changed: {engine}"),
        };
        format!(
            "{mini_batches} mini-batches on {engines} engines in {seconds:.0} s; memory {memory}; \
             {bits}"
        )
    }

    /// Returns the final speed of the reference mini-batches divided by their initial speed.
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        Some(first.reference_seconds / last.reference_seconds)
    }
}

/// The verdict and the speed in one line.
impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict())?;
        let drift = self.drift().map(percent);
        drift.map_or(Ok(()), |drift| write!(f, "; final speed {drift} of the first"))
    }
}

/// Samples are divided into this many parts. The first part is for warming up: caches fill, and
/// arenas reach their final sizes.
const QUARTERS: usize = 4;
/// Shorter runs are not judged, because they are warming up the whole time.
const MIN_SECONDS: f64 = 120.0;
/// Tolerated growth: the larger of a number of bytes and a share of the memory.
const TOLERATED_BYTES: f64 = (2 << 20) as f64;
const TOLERATED_SHARE: f64 = 0.01;

/// Trend of resident memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Growth stayed within the tolerance, 2 MiB or 1 %.
    Flat(Trend),
    /// Growth exceeded the tolerance.
    Grows(Trend),
    /// Too few samples, too short a run, or no figures from the system.
    Unknown,
}

/// Resident memory after warming up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trend {
    /// Median of the second quarter of the samples, in bytes.
    pub before: f64,
    /// Median of the last quarter, in bytes.
    pub after: f64,
    /// Slope of the least-squares line through all but the first quarter.
    pub bytes_per_mini_batch: f64,
}

impl Memory {
    /// Compares the last quarter of the samples with the second quarter.
    pub fn of(samples: &[SoakSample]) -> Self {
        let point = |sample: &SoakSample| {
            sample.resident_bytes.map(|bytes| (sample.mini_batches as f64, bytes as f64))
        };
        let points: Option<Vec<_>> = samples.iter().map(point).collect();
        let long = samples.last().is_some_and(|last| last.seconds >= MIN_SECONDS);
        let quarter = samples.len() / QUARTERS;
        let Some(points) = points.filter(|_| long && quarter > 0) else { return Self::Unknown };
        let before = median(&points[quarter..2 * quarter]);
        let after = median(&points[points.len() - quarter..]);
        let trend = Trend { before, after, bytes_per_mini_batch: slope(&points[quarter..]) };
        if after - before > TOLERATED_BYTES.max(TOLERATED_SHARE * before) {
            Self::Grows(trend)
        } else {
            Self::Flat(trend)
        }
    }

    /// Returns true if memory grew.
    pub fn grows(&self) -> bool {
        matches!(self, Self::Grows(_))
    }
}

/// Median of the bytes.
fn median(points: &[(f64, f64)]) -> f64 {
    let mut bytes: Vec<f64> = points.iter().map(|&(_, bytes)| bytes).collect();
    bytes.sort_by(f64::total_cmp);
    bytes[bytes.len() / 2]
}

/// `Σ (x - x̄)(y - ȳ) / Σ (x - x̄)²`, or 0 if all x are equal.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let x_mean = points.iter().map(|&(x, _)| x).sum::<f64>() / count;
    let y_mean = points.iter().map(|&(_, y)| y).sum::<f64>() / count;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for &(x, y) in points {
        covariance += (x - x_mean) * (y - y_mean);
        variance += (x - x_mean) * (x - x_mean);
    }
    if variance == 0.0 { 0.0 } else { covariance / variance }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, Trend { before, after, bytes_per_mini_batch }) = match self {
            Self::Unknown => return f.write_str("not judged"),
            Self::Flat(trend) => ("flat", trend),
            Self::Grows(trend) => ("grows", trend),
        };
        let (before, after) = (before / 1e6, after / 1e6);
        write!(f, "{verdict}, {before:.1} MB resident, then {after:.1} MB, ")?;
        write!(f, "{bytes_per_mini_batch:+.1} bytes a mini-batch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges 60 samples, one a minute and 1000 mini-batches apart.
    fn judge(bytes: impl Fn(u64) -> u64) -> Memory {
        let sample = |minute: u64| SoakSample {
            seconds: 60.0 * minute as f64,
            mini_batches: 1000 * minute,
            resident_bytes: Some(bytes(minute)),
            held_bytes: 0,
            reference_seconds: 1.0,
        };
        Memory::of(&(1..=60).map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn memory_that_warms_up_and_fluctuates_is_flat() {
        let warm = |minute: u64| 300_000_000 - 200_000_000 / minute.pow(3);
        for bytes in [judge(|_| 300_000_000), judge(warm), judge(|m| warm(m) + m % 7 * 300_000)] {
            let Memory::Flat(trend) = bytes else { panic!("{bytes}") };
            assert!(trend.bytes_per_mini_batch.abs() < 20.0, "{bytes}");
        }
        // Shrinking is not growing.
        assert!(!judge(|minute| 300_000_000 - 1_000_000 * minute).grows());
    }

    #[test]
    fn slow_growth_is_found_in_the_noise() {
        // 100 bytes for each of 1000 mini-batches, with 300 kB of noise.
        let bytes = judge(|minute| 100_000_000 + 100_000 * minute + minute * 37 % 11 * 30_000);
        let Memory::Grows(trend) = bytes else { panic!("{bytes}") };
        assert!((trend.bytes_per_mini_batch - 100.0).abs() < 5.0, "{bytes}");
        assert!((trend.after - trend.before - 3_000_000.0).abs() < 200_000.0, "{bytes}");
        assert!(bytes.to_string().starts_with("grows, 10"), "{bytes}");
        // A hundredth of that is within the tolerance.
        assert!(!judge(|minute| 100_000_000 + 1000 * minute).grows());
        assert!(judge(|minute| if minute < 40 { 100_000_000 } else { 103_000_000 }).grows());
    }

    #[test]
    fn short_runs_are_not_judged() {
        let sample = SoakSample {
            seconds: 3600.0,
            mini_batches: 1,
            resident_bytes: Some(1),
            held_bytes: 0,
            reference_seconds: 1.0,
        };
        assert_eq!(Memory::of(&[]), Memory::Unknown);
        assert_eq!(Memory::of(&[sample; 3]), Memory::Unknown);
        assert_eq!(Memory::of(&[SoakSample { seconds: 2.0, ..sample }; 20]), Memory::Unknown);
        let no_figures = SoakSample { resident_bytes: None, ..sample };
        assert_eq!(Memory::of(&[no_figures; 20]), Memory::Unknown);
        // All samples have the same x: the slope is 0, without a division by zero.
        let Memory::Flat(trend) = Memory::of(&[sample; 20]) else { panic!("flat") };
        assert_eq!(trend.bytes_per_mini_batch, 0.0);
    }

    #[test]
    fn a_changed_bit_and_growing_memory_are_failures() {
        let trend = Trend { before: 1e8, after: 2e8, bytes_per_mini_batch: 5.0 };
        let of = |memory, moved: Option<&str>| Soak {
            seed: 1,
            models: Vec::new(),
            engines: 4,
            threads: 2,
            seconds: 3600.0,
            mini_batches: 1,
            memory,
            moved: moved.map(String::from),
            samples: Vec::new(),
        };
        assert_eq!(of(Memory::Flat(trend), None).failure(), None);
        assert_eq!(of(Memory::Unknown, None).failure(), None);
        let grows = of(Memory::Grows(trend), None).failure().unwrap();
        assert_eq!(
            grows,
            "memory grows, 100.0 MB resident, then 200.0 MB, +5.0 bytes a mini-batch"
        );
        let moved = of(Memory::Flat(trend), Some("a tree")).failure().unwrap();
        assert_eq!(moved, "the bits of the reference mini-batch changed: a tree");
    }
}
