//! Checks and figures of a CUDA device.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::text::{percent, whole};

/// A check or a figure of a CUDA device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The part of the run.
    pub part: String,
    /// Name of the check or the figure.
    pub what: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The figure, if there is one.
    #[serde(flatten)]
    pub figure: Option<Figure>,
    /// Details in words; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The outcome of a check or a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There is a figure.
    Measured,
    /// The check passed.
    Passed,
    /// The check failed.
    Failed,
    /// The check or the measurement is impossible on this machine; the note says why.
    Skipped,
    /// The time limit was reached first.
    Stopped,
}

impl Outcome {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
            Self::Stopped => "stopped",
        }
    }
}

/// A figure and the spread of its samples.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Unit of the median.
    pub unit: String,
    /// Median of the samples.
    pub median: f64,
    /// Interquartile range divided by the median.
    pub spread: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Figure {
    /// Summarizes samples.
    ///
    /// # Panics
    /// If `samples` is empty.
    pub fn of(samples: &[f64], unit: &str) -> Self {
        let Spread { low, median, high } = Spread::of(samples);
        let relative = (high - low) / median;
        let spread = if relative.is_finite() { relative } else { 0.0 };
        Self { unit: unit.into(), median, spread, samples: samples.len() }
    }
}

impl Finding {
    /// A check with its outcome.
    pub fn new(part: &str, what: &str, outcome: Outcome, note: impl Into<String>) -> Self {
        Self { part: part.into(), what: what.into(), outcome, figure: None, note: note.into() }
    }

    /// A figure.
    pub fn measured(part: &str, what: &str, samples: &[f64], unit: &str) -> Self {
        let figure = Some(Figure::of(samples, unit));
        Self { figure, ..Self::new(part, what, Outcome::Measured, "") }
    }
}

/// The finding in one line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, outcome, figure, note, .. } = self;
        match figure {
            Some(figure) if note.is_empty() => write!(f, "{what}: {figure}"),
            Some(figure) => write!(f, "{what}: {figure}; {note}"),
            None => write!(f, "{} {what}: {note}", outcome.name()),
        }
    }
}

/// Three digits, the unit and the spread.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = match self.median.abs() {
            100.0.. => whole(self.median),
            10.0.. => format!("{:.1}", self.median),
            _ => format!("{:.2}", self.median),
        };
        write!(f, "{median} {} ± {}", self.unit, percent(self.spread))
    }
}
