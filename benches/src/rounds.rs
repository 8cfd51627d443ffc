//! Contestants take turns: how everything that is timed here is timed.
//!
//! In a round every contestant has one turn, a pass over all mini-batches, to the very last round:
//! whatever else the machine does falls on all alike. The one that begins changes from round to
//! round. Between rounds the core's peak is measured, since its clock moves with its load.

use std::time::Instant;

use edbatch_runtime::kernels::{Level, roofline};

use crate::spread::{Spread, quantile};
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

/// The rounds that there should be at least, and at most.
const ROUNDS: (usize, usize) = (3, 25);

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

/// Runs a mini-batch on each entrant, which warms caches up, and chooses those that are timed:
/// as many as the fewest rounds have time for, at equal distances among all of them.
///
/// # Errors
/// If a mini-batch cannot be run.
pub fn choose(
    entrants: &mut [&mut dyn Entrant],
    all: usize,
    fewest: usize,
    seconds: f64,
) -> Result<Vec<usize>, Failure> {
    let started = Instant::now();
    for entrant in entrants.iter_mut() {
        entrant.turn(&[0], &mut |_, _| {})?;
    }
    let affordable = seconds / ROUNDS.0 as f64 / started.elapsed().as_secs_f64();
    let count = (affordable as usize).clamp(fewest.min(all), all);
    Ok((0..count).map(|i| i * all / count).collect())
}

/// Times entrants on mini-batches for about some seconds altogether.
///
/// # Errors
/// If a mini-batch cannot be run.
pub fn rounds(
    entrants: &mut [&mut dyn Entrant],
    chosen: &[usize],
    seconds: f64,
) -> Result<Rounds, Failure> {
    let mut times = vec![Times::default(); entrants.len()];
    let (mut peaks, started) = (Vec::new(), Instant::now());
    for round in 0..ROUNDS.1 {
        let after_next = started.elapsed().as_secs_f64() * (round + 1) as f64;
        if round >= ROUNDS.0 && after_next > seconds * round as f64 {
            break;
        }
        peaks.push(roofline::peak_gflops(Level::detect()));
        for turn in 0..entrants.len() {
            let index = (turn + round) % entrants.len();
            let (runs, mut all) = (&mut times[index].runs, 0.0);
            entrants[index].turn(chosen, &mut |_, seconds| {
                runs.push(seconds);
                all += seconds;
            })?;
            times[index].turns.push(all);
        }
    }
    Ok(Rounds { times, peaks })
}

impl Times {
    /// The median rate of some work a turn, and its quartiles.
    #[must_use]
    pub fn rate(&self, work: f64) -> Spread {
        Spread::of(&self.turns.iter().map(|seconds| work / seconds).collect::<Vec<_>>())
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

    use super::{Entrant, Failure, Times, choose, rounds};

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
        let chosen = choose(&mut entrants, 2, 1, 1e3).unwrap();
        let rounds = rounds(&mut entrants, &chosen, 1e3).unwrap();
        // One turn each to warm up; then pairs that begin with the one and the other in turns.
        assert!(order.borrow().starts_with("ababbaab"), "{order:?}");
        assert_eq!(chosen, [0, 1]);
        for times in rounds.times {
            assert_eq!(times.turns, [3.0; 25]);
            assert_eq!((times.best(), times.latency(0.5), times.latency(0.99)), (3.0, 1.0, 2.0));
        }
    }

    #[test]
    fn the_best_is_of_every_mini_batch() {
        let times = Times { turns: vec![5.0, 4.0], runs: vec![1.0, 4.0, 2.0, 2.0] };
        assert_eq!(times.best(), 3.0);
        assert_eq!(times.rate(20.0).median, 4.5);
    }
}
