//! In which order a run visits its steps, and how long a visit may take.

use std::time::Instant;

use crate::rounds::LAPS;
use crate::run::Step;

/// How many steps have laps among each other. Laps are to lie far apart; an interruption loses
/// those of the steps that have not had all of theirs.
const WINDOW: usize = 64;

/// In which order steps are visited, with the number of the lap: those of a window one after the
/// other, lap after lap. Those that need one visit are divided among the laps.
#[must_use]
pub fn visits<'s, 'a>(steps: &[&'s Step<'a>]) -> Vec<(usize, &'s Step<'a>)> {
    let mut visits = Vec::new();
    for window in steps.chunks(WINDOW) {
        for lap in 0..LAPS {
            let mut single = 0;
            for &step in window {
                single += usize::from(!step.has_laps());
                if step.has_laps() || single % LAPS == lap {
                    visits.push((lap, step));
                }
            }
        }
    }
    visits
}

/// The seconds that each visit of a step may take, of those that are left.
pub struct Budget {
    started: Instant,
    seconds: Option<f64>,
    /// Of the steps that remain, and of all.
    weight: f64,
    all: f64,
}

impl Budget {
    /// For these visits of steps, which begin now.
    #[must_use]
    pub fn new<'s, 'a: 's>(
        seconds: Option<f64>,
        visits: impl Iterator<Item = &'s Step<'a>>,
    ) -> Self {
        let weight = visits.map(Step::weight).sum();
        Self { started: Instant::now(), seconds, weight, all: weight }
    }

    /// About how many seconds the steps take that are left, by those that are done.
    #[must_use]
    pub fn left(&self) -> f64 {
        let done = self.all - self.weight;
        if done > 0.0 { self.started.elapsed().as_secs_f64() * self.weight / done } else { 0.0 }
    }

    /// The share of the next visit: what earlier ones took too long, later ones have less.
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

    use super::visits;
    use crate::options::Options;
    use crate::rounds::LAPS;
    use crate::run::{Step, families, steps};

    #[test]
    fn what_two_parts_want_is_measured_once() {
        let of = |parts: &str| {
            let options = ["bench", "--models", "tree_lstm", "--only", parts, "--hidden", "256"];
            let options = Options::parse_from(options.into_iter().chain(["--batch", "10"]));
            let families = families(&options).unwrap();
            let steps = steps(&options, &families).unwrap();
            steps.iter().map(|step| step.name(&options)).collect::<Vec<_>>()
        };
        let [latency, paper, both] = ["latency", "paper", "latency,paper"].map(of);
        let shared = latency.iter().filter(|name| paper.contains(name)).count();
        assert_eq!((latency.len(), shared), (1, 1), "{latency:?} {paper:?}");
        assert_eq!(both.len(), paper.len(), "{both:?}");
    }

    #[test]
    fn laps_lie_apart_and_the_rest_between_them() {
        let options = ["bench", "--models", "tree_lstm,tree_gru", "--only", "throughput,counts"];
        let options = Options::parse_from(options);
        let families = families(&options).unwrap();
        let steps = steps(&options, &families).unwrap();
        let all: Vec<&Step<'_>> = steps.iter().collect();
        let visits = visits(&all);
        for step in &steps {
            let laps = visits.iter().filter(|(_, visited)| std::ptr::eq(*visited, step));
            let laps: Vec<usize> = laps.map(|&(lap, _)| lap).collect();
            match step.has_laps() {
                true => assert_eq!(laps, (0..LAPS).collect::<Vec<_>>()),
                false => assert_eq!(laps.len(), 1),
            }
        }
        // Every lap has some of those that are visited once.
        for lap in 0..LAPS {
            assert!(visits.iter().any(|&(of, step)| of == lap && !step.has_laps()), "{lap}");
        }
    }
}
