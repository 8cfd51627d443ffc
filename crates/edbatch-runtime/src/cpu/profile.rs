//! Time spent in the steps of cells, by kind of work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time per kind of work, summed over threads, while the profile is switched on.
///
/// Reading the clock twice costs about 50 ns per step, so a profiled run is slightly slower.
#[derive(Debug, Default)]
pub struct Profile {
    on: AtomicBool,
    nanoseconds: [AtomicU64; 3],
}

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Copies of operands and constants.
    Gather,
    /// Matrix products, including hoisted ones.
    Product,
    /// Element-wise programs, reductions and softmax.
    Elementwise,
}

impl Profile {
    /// Starts or stops measuring.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Returns the time spent on a kind of work so far.
    #[must_use]
    pub fn time(&self, work: Work) -> Duration {
        Duration::from_nanos(self.nanoseconds[work as usize].load(Ordering::Relaxed))
    }

    /// Starts a timer. When it is dropped, it adds the time since its start to this kind of work.
    pub fn time_of(&self, work: Work) -> Timer<'_> {
        let started = self.on.load(Ordering::Relaxed).then(Instant::now);
        Timer { profile: self, work, started }
    }
}

/// A timer that adds its lifetime to a [`Profile`], if that was switched on at the start.
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
