//! Contestants take turns: how everything that is timed here is timed.
//!
//! In a round every contestant has one turn, a pass over all mini-batches, to the very last round:
//! whatever else the machine does falls on all alike. The one that begins changes from round to
//! round. Between rounds the core's peak is measured, since its clock moves with its load. The
//! rounds of a lap follow each other; laps are visits of the same step, other steps between them,
//! with contestants made anew.

use std::time::Instant;

use edbatch_runtime::kernels::{Level, roofline};

use crate::spread::{OverLaps, quantile};
use crate::workload::Failure;

/// What is timed.
pub trait Entrant {
    /// Runs mini-batches; `each` takes the number of every one and its seconds.
    ///
    /// # Errors
    /// If one cannot be run.
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure>;
}

/// How often a thing is measured in a run, the steps of the run between one time and the next.
pub const LAPS: usize = 5;
/// The rounds of a lap that there should be at least, and at most.
const ROUNDS: (usize, usize) = (2, 25);
/// FLOPs a second by which it is told how many mini-batches there is time for: about what the
/// contestants of most workloads reach.
const NOMINAL: f64 = 40e9;
/// The mini-batches that a figure should rest on at least, and needs at most.
const MINI_BATCHES: (usize, usize) = (2, 128);

/// What is timed in a lap, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Lap<'a> {
    mini_batches: &'a [usize],
    number: usize,
    seconds: f64,
    fewest: usize,
}

impl<'a> Lap<'a> {
    /// A lap with a number, counted from 0, of about so many seconds; `nominal` are those by which
    /// mini-batches were [chosen](choose).
    #[must_use]
    pub fn new(
        mini_batches: &'a [usize],
        number: usize,
        seconds: f64,
        nominal: Option<f64>,
    ) -> Self {
        // Whole sets are long enough, so that one round is.
        let fewest = if nominal.is_some() { ROUNDS.0 } else { 1 };
        Self { mini_batches, number, seconds, fewest }
    }
}

/// What rounds showed.
pub struct Rounds {
    /// By entrant.
    pub times: Vec<Times>,
    /// The core's FLOPs in 1e9 a second, between rounds.
    pub peaks: Vec<f64>,
}

/// The times of one entrant.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Seconds of each turn.
    pub turns: Vec<f64>,
    /// Seconds of each mini-batch in each turn, turn after turn.
    pub runs: Vec<f64>,
}

/// The mini-batches that are timed, at equal distances among all of them: as many as there is time
/// for in the rounds of all laps, if an entrant has so many seconds, or all. It follows from the
/// work in one and not from a clock, so that all laps and runs time the same ones.
#[must_use]
pub fn choose(all: usize, fewest: usize, flops: f64, seconds: Option<f64>) -> Vec<usize> {
    let Some(seconds) = seconds else { return (0..all).collect() };
    let turns = (LAPS * ROUNDS.0) as f64;
    let affordable = seconds / turns * NOMINAL / flops.max(1.0);
    let (least, most) = (fewest.max(MINI_BATCHES.0).min(all), fewest.max(MINI_BATCHES.1).min(all));
    let count = (affordable as usize).clamp(least, most);
    (0..count).map(|i| i * all / count).collect()
}

/// Times entrants, which have run once, in a lap.
///
/// # Errors
/// If a mini-batch cannot be run.
pub fn rounds(entrants: &mut [&mut dyn Entrant], lap: Lap<'_>) -> Result<Rounds, Failure> {
    let Lap { mini_batches, number, seconds, fewest } = lap;
    let mut times = vec![Times::default(); entrants.len()];
    let (mut peaks, started) = (Vec::new(), Instant::now());
    for round in 0..ROUNDS.1 {
        let after_next = started.elapsed().as_secs_f64() * (round + 1) as f64;
        if round >= fewest && after_next > seconds * round as f64 {
            break;
        }
        peaks.push(roofline::peak_gflops(Level::detect()));
        for turn in 0..entrants.len() {
            let index = (turn + round + number) % entrants.len();
            let (runs, mut all) = (&mut times[index].runs, 0.0);
            entrants[index].turn(mini_batches, &mut |_, seconds| {
                runs.push(seconds);
                all += seconds;
            })?;
            times[index].turns.push(all);
        }
    }
    Ok(Rounds { times, peaks })
}

/// The median rate of an entrant with some work a turn, over laps.
#[must_use]
pub fn rate(laps: &[Rounds], entrant: usize, work: f64) -> OverLaps {
    let lap = |lap: &Rounds| lap.times[entrant].turns.iter().map(|turn| work / turn).collect();
    OverLaps::of(&laps.iter().map(lap).collect::<Vec<Vec<f64>>>())
}

impl Times {
    /// Those of another lap too.
    pub fn extend(&mut self, other: &Self) {
        self.turns.extend(&other.turns);
        self.runs.extend(&other.runs);
    }

    /// The seconds of all mini-batches, each in its fastest run.
    #[must_use]
    pub fn best(&self) -> f64 {
        let count = self.runs.len() / self.turns.len();
        let fastest = |index| {
            let runs = self.runs.iter().skip(index).step_by(count);
            runs.copied().fold(f64::INFINITY, f64::min)
        };
        (0..count).map(fastest).sum()
    }

    /// The seconds that a share of the runs of mini-batches does not exceed.
    #[must_use]
    pub fn latency(&self, share: f64) -> f64 {
        quantile(&self.runs, share)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Entrant, Failure, Lap, OverLaps, Times, choose, rate, rounds};

    /// Takes a second for mini-batch 0, two for mini-batch 1, and so on; notes who ran.
    struct Noted<'a>(char, &'a RefCell<String>);

    impl Entrant for Noted<'_> {
        fn turn(
            &mut self,
            mini_batches: &[usize],
            each: &mut dyn FnMut(usize, f64),
        ) -> Result<(), Failure> {
            self.1.borrow_mut().push(self.0);
            mini_batches.iter().for_each(|&index| each(index, 1.0 + index as f64));
            Ok(())
        }
    }

    #[test]
    fn all_have_a_turn_in_every_round() {
        let order = RefCell::new(String::new());
        let (mut a, mut b) = (Noted('a', &order), Noted('b', &order));
        let mut entrants: [&mut dyn Entrant; 2] = [&mut a, &mut b];
        let laps = [0, 1].map(|number| {
            rounds(&mut entrants, Lap::new(&[0, 1], number, 1e3, Some(1.0))).unwrap()
        });
        // Pairs that begin with the one and the other in turns; a lap of all begins otherwise too.
        assert!(order.borrow().starts_with("abbaab"), "{order:?}");
        assert!(order.borrow()[50..].starts_with("baabba"), "{order:?}");
        order.borrow_mut().clear();
        rounds(&mut entrants, Lap::new(&[0, 1], 1, 0.0, None)).unwrap();
        assert_eq!(order.take(), "ba");
        assert_eq!(rate(&laps, 1, 30.0), OverLaps { low: 10.0, median: 10.0, high: 10.0 });
        for times in &laps[0].times {
            assert_eq!(times.turns, [3.0; 25]);
            assert_eq!((times.best(), times.latency(0.5), times.latency(0.99)), (3.0, 1.0, 2.0));
        }
    }

    #[test]
    fn the_best_is_of_every_mini_batch() {
        let mut times = Times { turns: vec![5.0], runs: vec![1.0, 4.0] };
        times.extend(&Times { turns: vec![4.0], runs: vec![2.0, 2.0] });
        assert_eq!((times.best(), times.turns.len()), (3.0, 2));
    }

    #[test]
    fn the_same_mini_batches_are_timed_in_every_run() {
        let choose = |all, fewest, flops, seconds| choose(all, fewest, flops, Some(seconds));
        // 10 turns of 0.1 s at 40 GFLOP/s have time for four mini-batches of a GFLOP.
        assert_eq!(choose(16, 1, 1e9, 1.0), [0, 4, 8, 12]);
        assert_eq!(choose(4, 1, 1e6, 1.0), [0, 1, 2, 3]);
        assert_eq!(choose(1_000, 1, 1e6, 1.0).len(), 128);
        // Too large for their time: a figure rests on two all the same, if there are two.
        assert_eq!(choose(10, 1, 1e12, 1.0), [0, 5]);
        assert_eq!(choose(10, 4, 1e12, 1.0), [0, 2, 5, 7]);
        assert_eq!(choose(1, 4, 1e12, 1.0), [0]);
        assert_eq!(super::choose(300, 4, 1e12, None), (0..300).collect::<Vec<_>>());
    }
}
