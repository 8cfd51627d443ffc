//! What a soak showed, as plain data.

use serde::{Deserialize, Serialize};

use super::Memory;
use crate::text::{percent, whole};

/// What hours of mini-batches of changing shape showed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Soak {
    /// What all draws followed from.
    pub seed: u64,
    /// The models, one for each set that it ran on.
    pub models: Vec<String>,
    /// How many engines there were.
    pub engines: usize,
    /// Threads of every other engine; the rest have one.
    pub threads: usize,
    /// Graphs whose schedule and plan had been kept.
    pub plans_reused: u64,
    /// How long it took.
    pub seconds: f64,
    /// Mini-batches of all engines.
    pub mini_batches: u64,
    /// Whether memory grew.
    pub memory: Memory,
    /// The first model and engine whose reference mini-batch had other bits, if any had.
    pub moved: Option<String>,
    /// One a minute.
    pub samples: Vec<SoakSample>,
}

/// One look at a soak.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SoakSample {
    /// Since it began.
    pub seconds: f64,
    /// Mini-batches so far.
    pub mini_batches: u64,
    /// The process's memory that was in the machine's, where the system tells.
    pub resident_bytes: Option<u64>,
    /// Weights, and arenas at their largest, of all engines.
    pub held_bytes: u64,
    /// The fastest runs of the reference mini-batches of all engines together.
    pub reference_seconds: f64,
}

impl Soak {
    /// What must not be: growing memory, or a bit that moved.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if let Some(engine) = &self.moved {
            return Some(format!("the bits of the reference mini-batch moved: {engine}"));
        }
        self.memory.grows().then(|| format!("memory {}", self.memory))
    }

    /// What is judged, in a line: not the speed, which says more of the machine's other work.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (mini_batches, engines) = (whole(self.mini_batches as f64), self.engines);
        let (seconds, memory) = (self.seconds, self.memory);
        let bits = match &self.moved {
            None => format!("reference bits equal {} times", self.samples.len()),
            Some(engine) => format!("reference bits moved: {engine}"),
        };
        format!(
            "{mini_batches} mini-batches on {engines} engines in {seconds:.0} s; memory {memory}; \
             {bits}"
        )
    }

    /// The speed of the reference mini-batches at the end, of that in the first minute.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        Some(first.reference_seconds / last.reference_seconds)
    }
}

/// The verdict, and the speed, in a line.
impl std::fmt::Display for Soak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.verdict())?;
        let drift = self.drift().map(percent);
        drift.map_or(Ok(()), |drift| write!(f, "; speed {drift} of the first"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trend;
    use super::*;

    #[test]
    fn a_moved_bit_and_growing_memory_are_failures() {
        let trend = Trend { before: 1e8, after: 2e8, bytes_per_mini_batch: 5.0 };
        let of = |memory, moved: Option<&str>| Soak {
            seed: 1,
            models: Vec::new(),
            engines: 4,
            threads: 2,
            plans_reused: 0,
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
        assert_eq!(moved, "the bits of the reference mini-batch moved: a tree");
    }
}
