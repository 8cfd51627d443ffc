//! Medians of repeated measurements, and how far they can be trusted.

/// The median and the quartiles of some figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// A quarter of the figures is at most this.
    pub low: f64,
    /// Half of them are.
    pub median: f64,
    /// Three quarters are.
    pub high: f64,
}

impl Spread {
    /// The spread of some figures, between the two nearest where none is at the quartile.
    ///
    /// ```
    /// let spread = edbatch_benches::spread::Spread::of(&[4.0, 1.0, 3.0, 2.0, 10.0]);
    /// assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
    /// ```
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
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

/// A figure that was measured in several laps, each with whatever it had around it.
///
/// Rounds that follow each other agree better than a run does with the next one: the machine's
/// other work and the places of memory change more slowly than that. Laps lie as far apart as a
/// run allows, so what differs between runs differs between laps too. If laps of two runs of the
/// same thing are alike, then two [`reaches`](Self::reach) together are exceeded by chance only if
/// all five laps of one lie above all five of the other: in fewer than eight of a thousand
/// comparisons, whatever the distribution; in two of a hundred, by simulation, where neighbouring
/// laps are correlated by a half.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OverLaps {
    /// The least of the laps' medians.
    pub low: f64,
    /// Their median.
    pub median: f64,
    /// The greatest.
    pub high: f64,
}

impl OverLaps {
    /// From the figures of every lap.
    ///
    /// ```
    /// use edbatch_benches::spread::OverLaps;
    /// let laps = OverLaps::of(&[vec![10.0, 11.0, 12.0], vec![8.0], vec![11.5]]);
    /// assert_eq!((laps.low, laps.median, laps.high), (8.0, 11.0, 11.5));
    /// assert_eq!(laps.reach(), 3.0 / 11.0);
    /// ```
    ///
    /// # Panics
    /// If there is no lap, or one without figures.
    #[must_use]
    pub fn of(laps: &[Vec<f64>]) -> Self {
        let medians: Vec<f64> = laps.iter().map(|lap| Spread::of(lap).median).collect();
        Self {
            low: medians.iter().copied().fold(f64::INFINITY, f64::min),
            median: Spread::of(&medians).median,
            high: medians.iter().copied().fold(0.0, f64::max),
        }
    }

    /// How far from the median the farthest lap is, as a share of it: what stands behind ±.
    #[must_use]
    pub fn reach(&self) -> f64 {
        (self.high - self.median).max(self.median - self.low) / self.median
    }
}

/// Whether two figures, each with its [reach](OverLaps::reach), differ by more than both together.
#[must_use]
pub fn differ((a, a_reach): (f64, f64), (b, b_reach): (f64, f64)) -> bool {
    (a - b).abs() > a * a_reach + b * b_reach
}

/// The least of some figures that at least a share of them does not exceed.
///
/// ```
/// use edbatch_benches::spread::quantile;
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), 2.0);
/// assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.99), 4.0);
/// ```
///
/// # Panics
/// If there are none.
#[must_use]
pub fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted[place.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::{OverLaps, Spread, differ};

    /// A series that is noisy by a per cent from round to round, and slower by ten in some laps.
    fn drifting(slow_laps: &[usize]) -> Vec<Vec<f64>> {
        let round = |lap: usize, round: usize| {
            let noise = [0.0, 0.01, -0.01, 0.005, -0.005][(3 * lap + round) % 5];
            100.0 * (1.0 + noise) * if slow_laps.contains(&lap) { 0.9 } else { 1.0 }
        };
        (0..5).map(|lap| (0..5).map(|index| round(lap, index)).collect()).collect()
    }

    #[test]
    fn a_drift_between_laps_is_within_the_reach() {
        let quiet = OverLaps::of(&drifting(&[]));
        assert!(quiet.reach() < 0.02, "{quiet:?}");
        // Quartiles of all rounds do not see that one lap in five was slow; the reach does.
        let once = drifting(&[3]);
        let all = Spread::of(&once.concat());
        assert!((all.high - all.low) / all.median < 0.05, "{all:?}");
        let once = OverLaps::of(&once);
        assert!(once.reach() > 0.08, "{once:?}");
        // A run whose slow laps were most of them, another whose were few: the same program.
        let mostly = OverLaps::of(&drifting(&[0, 1, 4]));
        assert!(once.median - mostly.median > 8.0);
        let figure = |laps: OverLaps| (laps.median, laps.reach());
        assert!(!differ(figure(once), figure(mostly)));
        assert!(!differ(figure(quiet), figure(mostly)));
        // Slow in every lap is a change, and so is it seen from the other side.
        let slower = OverLaps::of(&drifting(&[0, 1, 2, 3, 4]));
        assert!(differ(figure(quiet), figure(slower)) && differ(figure(slower), figure(quiet)));
    }

    #[test]
    fn runs_of_the_same_thing_seldom_differ() {
        use rand::rngs::Xoshiro256PlusPlus;
        use rand::{RngExt, SeedableRng};
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut runs, mut apart) = (Vec::new(), 0);
        for _ in 0..2_000 {
            // Laps have levels of their own, from a skewed distribution: busy machines are slower.
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
