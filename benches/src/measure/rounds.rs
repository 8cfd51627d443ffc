//! Rounds: the method by which all systems are timed.
//!
//! In each round every entrant has one turn, a pass over all mini-batches, so that other work of
//! the machine affects all alike. The entrants start rounds in turn. Between rounds the peak of the
//! core is measured, since its clock changes with the load. Rounds of a lap follow each other.
//! Between the laps of a step, other steps run; each lap has new engines.

use std::time::Instant;

use edbatch_runtime::kernels::{Level, roofline};

use crate::Failure;
use crate::spread::{OverLaps, quantile};

/// Receives the number and the seconds of each mini-batch.
pub type Each<'a> = dyn FnMut(usize, f64) + 'a;

/// A contestant: runs mini-batches, and reports each.
pub type Entrant<'a> = Box<dyn FnMut(&[usize], &mut Each<'_>) -> Result<(), Failure> + 'a>;

/// Number of laps over which a run spreads the rounds of a step.
pub const LAPS: usize = 5;
/// Minimum and maximum number of rounds in a lap.
const ROUNDS: (usize, usize) = (2, 25);
/// FLOPs a second assumed when mini-batches are chosen: about what most systems reach.
const NOMINAL: f64 = 40e9;
/// Minimum and maximum number of mini-batches of a figure.
const MINI_BATCHES: (usize, usize) = (2, 128);

/// Measurements of a lap.
pub struct Rounds {
    /// The times of each entrant.
    pub times: Vec<Times>,
    /// Peaks of the core between rounds, in 1e9 FLOPs a second.
    pub peaks: Vec<f64>,
}

/// The times of one entrant.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Seconds of each turn.
    pub turns: Vec<f64>,
    /// Seconds of each mini-batch in each turn, turn by turn.
    pub runs: Vec<f64>,
}

/// Chooses the mini-batches to time, evenly spaced among `all`: as many as fit into `seconds` for
/// all laps, estimated from `flops`, the FLOPs of one. No clock is read, so that all laps and runs
/// time the same mini-batches. Without `seconds`, all are timed.
pub fn choose(all: usize, at_least: usize, flops: f64, seconds: Option<f64>) -> Vec<usize> {
    let Some(seconds) = seconds else { return (0..all).collect() };
    let turns = (LAPS * ROUNDS.0) as f64;
    let affordable = seconds / turns * NOMINAL / flops.max(1.0);
    let [min, max] = [MINI_BATCHES.0, MINI_BATCHES.1].map(|count| at_least.max(count).min(all));
    let count = (affordable as usize).clamp(min, max);
    (0..count).map(|i| i * all / count).collect()
}

/// Times entrants, which have run once before, in lap number `lap` of about `seconds`. If `whole`,
/// a single round may be enough.
pub fn rounds(
    entrants: &mut [Entrant<'_>],
    mini_batches: &[usize],
    lap: usize,
    seconds: f64,
    whole: bool,
) -> Result<Rounds, Failure> {
    let min_rounds = if whole { 1 } else { ROUNDS.0 };
    let mut times = vec![Times::default(); entrants.len()];
    let (mut peaks, started) = (Vec::new(), Instant::now());
    for round in 0..ROUNDS.1 {
        let after_next = started.elapsed().as_secs_f64() * (round + 1) as f64;
        if round >= min_rounds && after_next > seconds * round as f64 {
            break;
        }
        peaks.push(roofline::peak_gflops(Level::detect()));
        for turn in 0..entrants.len() {
            let index = (turn + round + lap) % entrants.len();
            let (runs, mut all) = (&mut times[index].runs, 0.0);
            entrants[index](mini_batches, &mut |_, seconds| {
                runs.push(seconds);
                all += seconds;
            })?;
            times[index].turns.push(all);
        }
    }
    Ok(Rounds { times, peaks })
}

/// Returns the rate of an entrant over laps, given its work in a turn.
pub fn rate(laps: &[Rounds], entrant: usize, work: f64) -> OverLaps {
    let lap = |lap: &Rounds| lap.times[entrant].turns.iter().map(|turn| work / turn).collect();
    OverLaps::of(&laps.iter().map(lap).collect::<Vec<Vec<f64>>>())
}

impl Times {
    /// Adds the times of another lap.
    pub fn extend(&mut self, other: &Self) {
        self.turns.extend(&other.turns);
        self.runs.extend(&other.runs);
    }

    /// Returns the seconds of all mini-batches, each in its fastest run.
    pub fn best(&self) -> f64 {
        let count = self.runs.len() / self.turns.len();
        let fastest = |index| {
            let runs = self.runs.iter().skip(index).step_by(count);
            runs.copied().fold(f64::INFINITY, f64::min)
        };
        (0..count).map(fastest).sum()
    }

    /// Returns a quantile of the seconds of a mini-batch.
    pub fn latency(&self, share: f64) -> f64 {
        quantile(&self.runs, share)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Entrant, OverLaps, Times, choose, rate, rounds};

    /// Takes one second for mini-batch 0, two for mini-batch 1, and so on; logs its name.
    fn entrant(name: char, log: &RefCell<String>) -> Entrant<'_> {
        Box::new(move |mini_batches, each| {
            log.borrow_mut().push(name);
            mini_batches.iter().for_each(|&index| each(index, 1.0 + index as f64));
            Ok(())
        })
    }

    #[test]
    fn every_entrant_has_a_turn_in_every_round() {
        let order = RefCell::new(String::new());
        let mut entrants = ['a', 'b'].map(|name| entrant(name, &order));
        let laps = [0, 1].map(|lap| rounds(&mut entrants, &[0, 1], lap, 1e3, false).unwrap());
        // Both start alternately; the second lap starts with the other one.
        assert!(order.borrow().starts_with("abbaab"), "{order:?}");
        assert!(order.borrow()[50..].starts_with("baabba"), "{order:?}");
        order.borrow_mut().clear();
        rounds(&mut entrants, &[0, 1], 1, 0.0, true).unwrap();
        assert_eq!(order.take(), "ba");
        assert_eq!(rate(&laps, 1, 30.0), OverLaps { low: 10.0, median: 10.0, high: 10.0 });
        for times in &laps[0].times {
            assert_eq!(times.turns, [3.0; 25]);
            assert_eq!((times.best(), times.latency(0.5), times.latency(0.99)), (3.0, 1.0, 2.0));
        }
    }

    #[test]
    fn best_is_the_fastest_run_of_each_mini_batch() {
        let mut times = Times { turns: vec![5.0], runs: vec![1.0, 4.0] };
        times.extend(&Times { turns: vec![4.0], runs: vec![2.0, 2.0] });
        assert_eq!((times.best(), times.turns.len()), (3.0, 2));
    }

    #[test]
    fn every_run_times_the_same_mini_batches() {
        let choose = |all, at_least, flops, seconds| choose(all, at_least, flops, Some(seconds));
        // 10 turns of 0.1 s at 40 GFLOP/s have time for four mini-batches of a GFLOP.
        assert_eq!(choose(16, 1, 1e9, 1.0), [0, 4, 8, 12]);
        assert_eq!(choose(4, 1, 1e6, 1.0), [0, 1, 2, 3]);
        assert_eq!(choose(1_000, 1, 1e6, 1.0).len(), 128);
        // A figure rests on two mini-batches even if they are too large for the time.
        assert_eq!(choose(10, 1, 1e12, 1.0), [0, 5]);
        assert_eq!(choose(10, 4, 1e12, 1.0), [0, 2, 5, 7]);
        assert_eq!(choose(1, 4, 1e12, 1.0), [0]);
        assert_eq!(super::choose(300, 4, 1e12, None), (0..300).collect::<Vec<_>>());
    }
}
