//! The order in which a run visits its steps, and the time of each visit.

use std::time::Instant;

use crate::measure::rounds::LAPS;
use crate::measure::run::{Pace, Step};

/// Number of steps whose laps alternate. A large window keeps the laps of a step far apart, but if
/// the process is killed, it loses the laps of all its incomplete steps.
pub const WINDOW: usize = 64;

/// Returns the visits in order, each with its lap. In windows of `window` steps, laps alternate
/// and steps with one visit are distributed over them. Steps that take minutes keep their place.
pub fn visits<'s, 'a>(steps: &[&'s Step<'a>], window: usize) -> Vec<(usize, &'s Step<'a>)> {
    let mut visits = Vec::new();
    for steps in steps.chunk_by(|a, b| (a.pace == Pace::Long) == (b.pace == Pace::Long)) {
        if steps[0].pace == Pace::Long {
            visits.extend(steps.iter().map(|&step| (0, step)));
            continue;
        }
        for window in steps.chunks(window) {
            for lap in 0..LAPS {
                let mut single = 0;
                for &step in window {
                    single += usize::from(step.pace == Pace::Once);
                    if step.pace == Pace::Laps || single % LAPS == lap {
                        visits.push((lap, step));
                    }
                }
            }
        }
    }
    visits
}

/// Divides the remaining time between the remaining visits.
pub struct Budget {
    started: Instant,
    seconds: Option<f64>,
    /// Sum of the weights of the remaining visits, and of all visits.
    weight: f64,
    all: f64,
}

impl Budget {
    /// A budget for visits that start now.
    pub fn new<'s, 'a: 's>(
        seconds: Option<f64>,
        visits: impl Iterator<Item = &'s Step<'a>>,
    ) -> Self {
        let weight = visits.map(Step::weight).sum();
        Self { started: Instant::now(), seconds, weight, all: weight }
    }

    /// Estimates the seconds of the remaining visits from the completed ones.
    pub fn left(&self) -> f64 {
        let done = self.all - self.weight;
        if done > 0.0 { self.started.elapsed().as_secs_f64() * self.weight / done } else { 0.0 }
    }

    /// Returns the seconds of the next visit, if there is a limit. Long visits shorten later ones.
    pub fn next(&mut self, step: &Step<'_>) -> Option<f64> {
        let left = self.seconds? - self.started.elapsed().as_secs_f64();
        let share = step.weight() / self.weight;
        self.weight -= step.weight();
        Some((left * share).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{WINDOW, visits};
    use crate::measure::options::Options;
    use crate::measure::rounds::LAPS;
    use crate::measure::run::{Pace, Step, families, steps};

    #[test]
    fn a_step_of_two_parts_is_measured_once() {
        let of = |parts: &str| {
            let options = ["bench", "--models", "tree_lstm", "--only", parts, "--hidden", "256"];
            let options = Options::parse_from(options.into_iter().chain(["--batch", "10"]));
            let families = families(&options).unwrap();
            let steps = steps(&options, &families).unwrap();
            steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>()
        };
        let [latency, paper, both] = ["latency", "paper", "latency,paper"].map(of);
        let shared = latency.iter().filter(|name| paper.contains(name)).count();
        assert_eq!((latency.len(), shared), (1, 1), "{latency:?} {paper:?}");
        assert_eq!(both.len(), paper.len(), "{both:?}");
    }

    #[test]
    fn laps_alternate_and_single_visits_lie_between_them() {
        let options = ["bench", "--models", "tree_lstm,tree_gru", "--only", "throughput,counts"];
        let options = Options::parse_from(options);
        let families = families(&options).unwrap();
        let steps = steps(&options, &families).unwrap();
        let all: Vec<&Step<'_>> = steps.iter().collect();
        let visits = visits(&all, WINDOW);
        for step in &steps {
            let laps = visits.iter().filter(|(_, visited)| std::ptr::eq(*visited, step));
            let laps: Vec<usize> = laps.map(|&(lap, _)| lap).collect();
            match step.pace == Pace::Laps {
                true => assert_eq!(laps, (0..LAPS).collect::<Vec<_>>()),
                false => assert_eq!(laps.len(), 1),
            }
        }
        // Every lap has some single visits.
        for lap in 0..LAPS {
            assert!(visits.iter().any(|&(of, step)| of == lap && step.pace == Pace::Once), "{lap}");
        }
    }
}
