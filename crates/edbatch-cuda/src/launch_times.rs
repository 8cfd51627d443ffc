//! Times of launches: of the device, by its own clock, apart from the host's.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// The sums of times over launches of plans. Launches of several engines overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LaunchTimes {
    /// The number of launches.
    pub launches: u64,
    /// Nanoseconds from the start of the first block until the end of the last one, by the device's
    /// clock.
    pub device_ns: u64,
    /// Nanoseconds from the driver's call until the host sees the end, by the host's clock.
    pub seen_ns: u64,
    /// Cycles of one SM of each launch, and the nanoseconds that they took.
    pub cycles: u64,
    /// The nanoseconds of [`cycles`](Self::cycles).
    pub cycles_ns: u64,
}

impl LaunchTimes {
    /// Adds a launch, whose end the host has seen after `seen`.
    pub(crate) fn add(&mut self, team: TeamTimes, seen: Duration) {
        let TeamTimes { began, ended, cycles, cycles_ns } = team;
        let (device_ns, seen_ns) = (ended.saturating_sub(began), seen.as_nanos() as u64);
        *self += Self { launches: 1, device_ns, seen_ns, cycles, cycles_ns };
    }

    /// Returns the clock of the SMs in MHz, or 0 without a launch.
    #[must_use]
    pub fn clock_mhz(&self) -> f64 {
        match self.cycles_ns {
            0 => 0.0,
            ns => 1e3 * self.cycles as f64 / ns as f64,
        }
    }
}

impl AddAssign for LaunchTimes {
    fn add_assign(&mut self, other: Self) {
        self.launches += other.launches;
        self.device_ns += other.device_ns;
        self.seen_ns += other.seen_ns;
        self.cycles += other.cycles;
        self.cycles_ns += other.cycles_ns;
    }
}

/// The launches after an earlier reading.
impl Sub for LaunchTimes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            launches: self.launches - before.launches,
            device_ns: self.device_ns - before.device_ns,
            seen_ns: self.seen_ns - before.seen_ns,
            cycles: self.cycles - before.cycles,
            cycles_ns: self.cycles_ns - before.cycles_ns,
        }
    }
}

/// The times of one or more teams of a launch, by the device's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TeamTimes {
    began: u64,
    ended: u64,
    cycles: u64,
    cycles_ns: u64,
}

impl TeamTimes {
    /// Reads the times of a `Ticket` of `kernels/team.h`.
    pub(crate) fn of(ticket: &[u32]) -> Self {
        let long =
            |index: usize| u64::from(ticket[2 * index]) | u64::from(ticket[2 * index + 1]) << 32;
        let [began, ended, cycle_began, cycle_ended, first_ended] = [1, 2, 3, 4, 5].map(long);
        let cycles = cycle_ended.saturating_sub(cycle_began);
        Self { began, ended, cycles, cycles_ns: first_ended.saturating_sub(began) }
    }

    /// Adds another team of the same launch. Only the first team's cycles count.
    pub(crate) fn join(&mut self, other: Self) {
        match self.ended {
            0 => *self = other,
            _ => {
                self.began = self.began.min(other.began);
                self.ended = self.ended.max(other.ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket of these nanoseconds and cycles, whose words differ.
    fn ticket(numbers: [u64; 5]) -> Vec<u32> {
        let words = numbers.into_iter().flat_map(|number| [number as u32, (number >> 32) as u32]);
        [7, 0].into_iter().chain(words).collect()
    }

    #[test]
    fn a_launch_takes_from_its_first_team_to_its_last() {
        let far = 5 << 32;
        let mut launch = TeamTimes::default();
        launch.join(TeamTimes::of(&ticket([far + 100, far + 900, far, far + 1050, far + 800])));
        launch.join(TeamTimes::of(&ticket([far + 50, far + 700, 0, 1, far + 600])));
        let mut all = LaunchTimes::default();
        all.add(launch, Duration::from_nanos(2000));
        let before = all;
        assert_eq!((all.launches, all.device_ns, all.seen_ns), (1, 850, 2000));
        assert_eq!((all.cycles, all.cycles_ns, all.clock_mhz()), (1050, 700, 1500.0));
        all.add(launch, Duration::from_nanos(1000));
        let second = all - before;
        assert_eq!((second.launches, second.device_ns, second.seen_ns), (1, 850, 1000));
        assert_eq!(LaunchTimes::default().clock_mhz(), 0.0);
    }
}
