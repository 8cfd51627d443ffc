//! Median and quartiles of repeated measurements.

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

    /// The distance between the quartiles, as a share of the median.
    #[must_use]
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / self.median
    }
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
