//! From figures to pixels.

/// What an axis shows.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What, and in which unit.
    pub label: &'static str,
    /// How figures are spread over it.
    pub spacing: Spacing,
    /// A figure as a tick shows it.
    pub format: fn(f64) -> String,
}

/// How figures are spread over an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// Equal differences are equal distances; from zero on.
    Linear,
    /// Equal ratios are equal distances.
    Log,
}

/// An axis with its limits, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    spacing: Spacing,
    from: f64,
    to: f64,
    /// The pixels of `from` and `to`.
    pixels: (i32, i32),
}

impl Scale {
    /// One that holds all figures, and ends at round ones.
    pub(super) fn new(
        spacing: Spacing,
        figures: impl IntoIterator<Item = f64>,
        pixels: (i32, i32),
    ) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for figure in figures.into_iter().filter(|figure| figure.is_finite()) {
            // What is nothing has no place on a scale of ratios.
            if spacing == Spacing::Linear || figure > 0.0 {
                (least, most) = (least.min(figure), most.max(figure));
            }
        }
        if least > most {
            (least, most) = (0.5, 1.0);
        }
        let (from, to) = match spacing {
            Spacing::Linear => {
                (0.0, round_up(most.max(f64::MIN_POSITIVE), &[1.0, 2.0, 4.0, 6.0, 8.0]))
            }
            Spacing::Log => {
                let steps = if most / least > 300.0 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
                let (from, to) = (round_down(least, steps), round_up(most, steps));
                (from, if from == to { 2.0 * to } else { to })
            }
        };
        Self { spacing, from, to, pixels }
    }

    /// The pixel of a figure; those outside stand at the end.
    pub(super) fn at(&self, figure: f64) -> i32 {
        let figure = figure.clamp(self.from, self.to);
        let share = match self.spacing {
            Spacing::Linear => (figure - self.from) / (self.to - self.from),
            Spacing::Log => (figure / self.from).ln() / (self.to / self.from).ln(),
        };
        let (first, last) = self.pixels;
        first + (share * f64::from(last - first)).round() as i32
    }

    /// Round figures from one end to the other.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.spacing == Spacing::Linear {
            return (0..=4).map(|tick| self.to * f64::from(tick) / 4.0).collect();
        }
        let decades = (self.to / self.from).log10();
        let steps: &[f64] = match decades {
            ..2.1 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let (mut ticks, mut tick) = (Vec::new(), round_down(self.from, steps));
        while tick <= self.to * 1.0001 {
            if tick >= self.from * 0.9999 {
                ticks.push(tick);
            }
            tick = round_up(tick * 1.01, steps);
        }
        // A label wants some 45 pixels.
        let (first, last) = self.pixels;
        let most = ((last - first).unsigned_abs() / 45).max(2) as usize;
        if ticks.len() > most && steps.len() > 1 {
            let is_decade = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-6;
            let decades: Vec<f64> = ticks.iter().copied().filter(is_decade).collect();
            if decades.len() > 1 {
                ticks = decades;
            }
        }
        let every = ticks.len().div_ceil(most);
        ticks.into_iter().step_by(every).collect()
    }
}

/// The least of `steps × 10ⁿ` that is at least a figure.
fn round_up(figure: f64, steps: &[f64]) -> f64 {
    let decade = 10f64.powf(figure.log10().floor());
    let candidates = steps.iter().map(|step| step * decade).chain([10.0 * decade]);
    candidates.into_iter().find(|&candidate| candidate >= figure * 0.9999).unwrap_or(figure)
}

/// The greatest of `steps × 10ⁿ` that is at most a figure.
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
    fn there_is_a_scale_for_nothing_and_for_one_figure() {
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
