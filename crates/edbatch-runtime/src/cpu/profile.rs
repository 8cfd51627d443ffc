//! Where the time of a cell's steps goes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time of each sort of step, summed over threads, while it is switched on.
///
/// Looking at the clock twice a step costs about 50 ns, so a profiled run is a little slower than
/// one that is not.
#[derive(Debug, Default)]
pub struct Profile {
    on: AtomicBool,
    nanoseconds: [AtomicU64; 3],
}

/// A sort of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Copies of operands and of constants.
    Gather,
    /// Products of matrices, hoisted ones among them.
    Product,
    /// Element-wise programs, reductions, softmax, lookups of an arg-max.
    Elementwise,
}

impl Profile {
    /// Begins to measure, or stops.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// What a sort of step took so far.
    #[must_use]
    pub fn time(&self, work: Work) -> Duration {
        Duration::from_nanos(self.nanoseconds[work as usize].load(Ordering::Relaxed))
    }

    /// Measures a piece of work: until the timer is dropped.
    pub fn time_of(&self, work: Work) -> Timer<'_> {
        let started = self.on.load(Ordering::Relaxed).then(Instant::now);
        Timer { profile: self, work, started }
    }
}

/// A piece of work that is measured until this is dropped, if anything is.
#[must_use]
#[derive(Debug)]
pub struct Timer<'a> {
    profile: &'a Profile,
    work: Work,
    started: Option<Instant>,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        if let Some(started) = self.started {
            let taken = started.elapsed().as_nanos() as u64;
            self.profile.nanoseconds[self.work as usize].fetch_add(taken, Ordering::Relaxed);
        }
    }
}
