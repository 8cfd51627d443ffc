//! Medians of repeated measurements, and how much they vary.

/// The median and the quartiles of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Lower quartile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub high: f64,
}

impl Spread {
    /// Computes the quartiles, with linear interpolation between neighbours.
    ///
    /// ```
    /// let spread = edbatch_benches::spread::Spread::of(&[4.0, 1.0, 3.0, 2.0, 10.0]);
    /// assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
    /// ```
    ///
    /// # Panics
    /// If `figures` is empty.
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1).expect("at least one figure");
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

/// A figure measured in several laps.
///
/// Consecutive rounds agree better than two runs do, because other work of the machine and the
/// placement of memory change slowly. Laps are spread over the whole run, so that they vary like
/// runs do. Two runs [differ] only if all five laps of one lie above all five of the other. If
/// their laps are independent and have the same distribution, this happens in fewer than 8 of
/// 1,000 comparisons. In a simulation with a correlation of 0.5 between neighbouring laps, it
/// happens in 2 of 100.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OverLaps {
    /// The smallest median of a lap.
    pub low: f64,
    /// The median of the laps' medians.
    pub median: f64,
    /// The largest median of a lap.
    pub high: f64,
}

impl OverLaps {
    /// Computes the medians, given the figures of each lap.
    ///
    /// ```
    /// use edbatch_benches::spread::OverLaps;
    /// let laps = OverLaps::of(&[vec![10.0, 11.0, 12.0], vec![8.0], vec![11.5]]);
    /// assert_eq!((laps.low, laps.median, laps.high), (8.0, 11.0, 11.5));
    /// assert_eq!(laps.reach(), 3.0 / 11.0);
    /// ```
    ///
    /// # Panics
    /// If there is no lap, or a lap has no figures.
    pub fn of(laps: &[Vec<f64>]) -> Self {
        let medians: Vec<f64> = laps.iter().map(|lap| Spread::of(lap).median).collect();
        Self {
            low: medians.iter().copied().fold(f64::INFINITY, f64::min),
            median: Spread::of(&medians).median,
            high: medians.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the figure after ±: the distance from the median to the farthest lap, divided by
    /// the median.
    pub fn reach(&self) -> f64 {
        (self.high - self.median).max(self.median - self.low) / self.median
    }
}

/// Returns true if two figures differ by more than the sum of their [reaches](OverLaps::reach).
pub fn differ((a, a_reach): (f64, f64), (b, b_reach): (f64, f64)) -> bool {
    (a - b).abs() > a * a_reach + b * b_reach
}

/// Returns the smallest figure that is at least as large as the given share of all figures.
///
/// ```
/// use edbatch_benches::spread::quantile;
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), 2.0);
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.99), 4.0);
/// ```
///
/// # Panics
/// If `figures` is empty.
pub fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted[place.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::{OverLaps, Spread, differ};

    /// A series with 1 % noise between rounds, and 10 % slower in some laps.
    fn drifting(slow_laps: &[usize]) -> Vec<Vec<f64>> {
        let round = |lap: usize, round: usize| {
            let noise = [0.0, 0.01, -0.01, 0.005, -0.005][(3 * lap + round) % 5];
            100.0 * (1.0 + noise) * if slow_laps.contains(&lap) { 0.9 } else { 1.0 }
        };
        (0..5).map(|lap| (0..5).map(|index| round(lap, index)).collect()).collect()
    }

    #[test]
    fn reach_covers_drift_between_laps() {
        let quiet = OverLaps::of(&drifting(&[]));
        assert!(quiet.reach() < 0.02, "{quiet:?}");
        // One slow lap in five shows in the reach, but not in the quartiles of all rounds.
        let once = drifting(&[3]);
        let all = Spread::of(&once.concat());
        assert!((all.high - all.low) / all.median < 0.05, "{all:?}");
        let once = OverLaps::of(&once);
        assert!(once.reach() > 0.08, "{once:?}");
        // The same program in a run with mostly slow laps and in one with few.
        let mostly = OverLaps::of(&drifting(&[0, 1, 4]));
        assert!(once.median - mostly.median > 8.0);
        let figure = |laps: OverLaps| (laps.median, laps.reach());
        assert!(!differ(figure(once), figure(mostly)));
        assert!(!differ(figure(quiet), figure(mostly)));
        // A run that is slower in every lap differs, in either order of comparison.
        let slower = OverLaps::of(&drifting(&[0, 1, 2, 3, 4]));
        assert!(differ(figure(quiet), figure(slower)) && differ(figure(slower), figure(quiet)));
    }

    #[test]
    fn runs_of_the_same_program_rarely_differ() {
        use rand::rngs::Xoshiro256PlusPlus;
        use rand::{RngExt, SeedableRng};
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut runs, mut apart) = (Vec::new(), 0);
        for _ in 0..2_000 {
            // Each lap has its own level from a skewed distribution: busy machines are slower.
            let mut lap = || vec![100.0 / (1.0 + rng.random::<f64>().powi(4)); 3];
            let laps = OverLaps::of(&[lap(), lap(), lap(), lap(), lap()]);
            runs.push((laps.median, laps.reach()));
        }
        for pair in runs.chunks_exact(2) {
            apart += usize::from(differ(pair[0], pair[1]));
        }
        assert!(apart <= 10, "{apart} of 1000 pairs");
    }
}
