//! Axes, and the mapping from figures to pixels.

/// An axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Quantity and unit.
    pub label: &'static str,
    /// Spacing of figures.
    pub spacing: Spacing,
    /// Formats the figure of a tick.
    pub format: fn(f64) -> String,
}

/// The spacing of figures on an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// Equal differences have equal distances; starts at zero.
    Linear,
    /// Equal ratios have equal distances.
    Log,
}

impl Axis {
    /// A linear axis.
    pub const fn linear(label: &'static str, format: fn(f64) -> String) -> Self {
        Self { label, spacing: Spacing::Linear, format }
    }

    /// A logarithmic axis.
    pub const fn log(label: &'static str, format: fn(f64) -> String) -> Self {
        Self { label, spacing: Spacing::Log, format }
    }
}

/// A mapping from figures to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    spacing: Spacing,
    from: f64,
    to: f64,
    /// Pixels of `from` and `to`.
    pixels: (i32, i32),
}

impl Scale {
    /// A scale that contains all figures and ends at round ones.
    pub(super) fn new(
        spacing: Spacing,
        figures: impl IntoIterator<Item = f64>,
        pixels: (i32, i32),
    ) -> Self {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for figure in figures.into_iter().filter(|figure| figure.is_finite()) {
            // A logarithmic scale has no zero.
            if spacing == Spacing::Linear || figure > 0.0 {
                (min, max) = (min.min(figure), max.max(figure));
            }
        }
        if min > max {
            (min, max) = (0.5, 1.0);
        }
        let (from, to) = match spacing {
            Spacing::Linear => {
                (0.0, round_up(max.max(f64::MIN_POSITIVE), &[1.0, 2.0, 4.0, 6.0, 8.0]))
            }
            Spacing::Log => {
                let steps = if max / min > 300.0 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
                let (from, to) = (round_down(min, steps), round_up(max, steps));
                (from, if from == to { 2.0 * to } else { to })
            }
        };
        Self { spacing, from, to, pixels }
    }

    /// Returns the pixel of a figure; figures outside are clamped.
    pub(super) fn at(&self, figure: f64) -> i32 {
        let figure = figure.clamp(self.from, self.to);
        let share = match self.spacing {
            Spacing::Linear => (figure - self.from) / (self.to - self.from),
            Spacing::Log => (figure / self.from).ln() / (self.to / self.from).ln(),
        };
        let (first, last) = self.pixels;
        first + (share * f64::from(last - first)).round() as i32
    }

    /// Returns round figures from one end to the other.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.spacing == Spacing::Linear {
            return (0..=4).map(|tick| self.to * f64::from(tick) / 4.0).collect();
        }
        let steps = |steps: &[f64]| {
            let (mut ticks, mut tick) = (Vec::new(), round_up(self.from, steps));
            while tick <= self.to * 1.0001 {
                ticks.push(tick);
                tick = round_up(tick * 1.01, steps);
            }
            ticks
        };
        // A label needs about 45 pixels.
        let (first, last) = self.pixels;
        let max = ((last - first).unsigned_abs() / 45).max(2) as usize;
        let (fine, decades) = (steps(&[1.0, 2.0, 5.0]), steps(&[1.0]));
        let is_fine = decades.len() < 2 || (fine.len() <= max && self.to / self.from < 126.0);
        let ticks = if is_fine { fine } else { decades };
        let every = ticks.len().div_ceil(max);
        ticks.into_iter().step_by(every).collect()
    }
}

/// Returns the smallest `step × 10ⁿ` that is at least `figure`.
fn round_up(figure: f64, steps: &[f64]) -> f64 {
    let decade = 10f64.powf(figure.log10().floor());
    let candidates = steps.iter().map(|step| step * decade).chain([10.0 * decade]);
    candidates.into_iter().find(|&candidate| candidate >= figure * 0.9999).unwrap_or(figure)
}

/// Returns the largest `step × 10ⁿ` that is at most `figure`.
fn round_down(figure: f64, steps: &[f64]) -> f64 {
    let decade = 10f64.powf(figure.log10().floor());
    let candidates = steps.iter().rev().map(|step| step * decade);
    candidates.into_iter().find(|&candidate| candidate <= figure * 1.0001).unwrap_or(decade)
}

#[cfg(test)]
mod tests {
    use super::{Scale, Spacing};

    #[test]
    fn scales_end_at_round_figures() {
        let scale = Scale::new(Spacing::Log, [0.03, 1.4, 0.0], (0, 400));
        assert_eq!((scale.at(0.02), scale.at(2.0), scale.at(0.2)), (0, 400, 200));
        assert_eq!(scale.ticks().len(), 7);
        let narrow = Scale::new(Spacing::Log, [0.03, 1.4, 0.0], (0, 100));
        assert_eq!(narrow.ticks(), [0.1, 1.0]);
        let scale = Scale::new(Spacing::Linear, [3.0, 7.0], (10, 90));
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!((scale.at(0.0), scale.at(4.0), scale.at(9.0)), (10, 50, 90));
    }

    #[test]
    fn empty_and_single_figures_have_a_scale() {
        for spacing in [Spacing::Linear, Spacing::Log] {
            for figures in [&[][..], &[0.0], &[1.0], &[f64::NAN]] {
                let scale = Scale::new(spacing, figures.iter().copied(), (0, 100));
                assert!(
                    scale.ticks().len() >= 2 && scale.at(1.0) <= 100,
                    "{spacing:?} {figures:?}"
                );
            }
        }
    }
}
