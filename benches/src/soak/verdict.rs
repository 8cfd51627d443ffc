//! Whether memory grows, by samples of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::SoakSample;

/// The first quarter of the samples is for warming up: caches fill, arenas reach their sizes.
const QUARTERS: usize = 4;
/// Shorter runs are not judged: they warm up all the time.
const SHORTEST_SECONDS: f64 = 120.0;
/// What memory may differ by without growing: so many bytes, or a part of it.
const TOLERATED_BYTES: f64 = (2 << 20) as f64;
const TOLERATED_SHARE: f64 = 0.01;

/// What samples say of memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// It differs by no more than is tolerated: 2 MiB, or 1 %.
    Flat(Trend),
    /// It grew.
    Grows(Trend),
    /// Too few samples, or too short a run, or a system that does not tell.
    Unknown,
}

/// How memory went after warming up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Trend {
    /// The median of the second quarter of the samples, in bytes.
    pub before: f64,
    /// The median of the last quarter.
    pub after: f64,
    /// The slope of the least-squares line through all but the first quarter.
    pub bytes_per_mini_batch: f64,
}

impl Memory {
    /// Compares the last quarter of some samples, in their order, with the second one.
    #[must_use]
    pub fn of(samples: &[SoakSample]) -> Self {
        let point = |sample: &SoakSample| {
            sample.resident_bytes.map(|bytes| (sample.mini_batches as f64, bytes as f64))
        };
        let points: Option<Vec<_>> = samples.iter().map(point).collect();
        let long = samples.last().is_some_and(|last| last.seconds >= SHORTEST_SECONDS);
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

    /// Whether it grew.
    #[must_use]
    pub fn grows(&self) -> bool {
        matches!(self, Self::Grows(_))
    }
}

/// The median of the bytes.
fn median(points: &[(f64, f64)]) -> f64 {
    let mut bytes: Vec<f64> = points.iter().map(|&(_, bytes)| bytes).collect();
    bytes.sort_by(f64::total_cmp);
    bytes[bytes.len() / 2]
}

/// `Σ (x - x̄)(y - ȳ) / Σ (x - x̄)²`; 0 where all x are the same.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let x_mean = points.iter().map(|&(x, _)| x).sum::<f64>() / count;
    let y_mean = points.iter().map(|&(_, y)| y).sum::<f64>() / count;
    let (mut together, mut alone) = (0.0, 0.0);
    for &(x, y) in points {
        together += (x - x_mean) * (y - y_mean);
        alone += (x - x_mean) * (x - x_mean);
    }
    if alone == 0.0 { 0.0 } else { together / alone }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (said, Trend { before, after, bytes_per_mini_batch }) = match self {
            Self::Unknown => return f.write_str("not judged"),
            Self::Flat(trend) => ("flat", trend),
            Self::Grows(trend) => ("grows", trend),
        };
        let (before, after) = (before / 1e6, after / 1e6);
        write!(f, "{said}, {before:.1} MB resident, then {after:.1} MB, ")?;
        write!(f, "{bytes_per_mini_batch:+.1} bytes a mini-batch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample a minute, 1000 mini-batches each, with so many bytes.
    fn of(bytes: impl Fn(u64) -> u64) -> Memory {
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
    fn memory_that_warms_up_and_moves_to_and_fro_is_flat() {
        let warm = |minute: u64| 300_000_000 - 200_000_000 / minute.pow(3);
        for bytes in [of(|_| 300_000_000), of(warm), of(|m| warm(m) + m % 7 * 300_000)] {
            let Memory::Flat(trend) = bytes else { panic!("{bytes}") };
            assert!(trend.bytes_per_mini_batch.abs() < 20.0, "{bytes}");
        }
        // What is given back has not grown.
        assert!(!of(|minute| 300_000_000 - 1_000_000 * minute).grows());
    }

    #[test]
    fn memory_that_grows_by_a_little_each_time_is_found_in_the_noise() {
        // 100 bytes for each of 1000 mini-batches, beside 300 kB of noise.
        let bytes = of(|minute| 100_000_000 + 100_000 * minute + minute * 37 % 11 * 30_000);
        let Memory::Grows(trend) = bytes else { panic!("{bytes}") };
        assert!((trend.bytes_per_mini_batch - 100.0).abs() < 5.0, "{bytes}");
        assert!((trend.after - trend.before - 3_000_000.0).abs() < 200_000.0, "{bytes}");
        assert!(bytes.to_string().starts_with("grows, 10"), "{bytes}");
        // A hundredth of it is below what is tolerated.
        assert!(!of(|minute| 100_000_000 + 1000 * minute).grows());
        assert!(of(|minute| if minute < 40 { 100_000_000 } else { 103_000_000 }).grows());
    }

    #[test]
    fn what_cannot_be_known_is_not_judged() {
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
        let untold = SoakSample { resident_bytes: None, ..sample };
        assert_eq!(Memory::of(&[untold; 20]), Memory::Unknown);
        // All at the same time: no slope, and no division by zero.
        let Memory::Flat(trend) = Memory::of(&[sample; 20]) else { panic!("flat") };
        assert_eq!(trend.bytes_per_mini_batch, 0.0);
    }
}
