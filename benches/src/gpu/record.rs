//! What is written of each measurement: a line of JSON.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::spread::Spread;

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// What device it is, its bandwidths and its peak
    Probe,
    /// Whether it computes the CPU's bits
    Verify,
    /// Launches, meetings, and what goes to and from the host
    Latencies,
    /// Models: teams and waves, one mini-batch and many
    Throughput,
    /// compute-sanitizer on small inputs
    Sanitize,
    /// Many plans at once, and no bit moves
    Stress,
    /// PyTorch on the same inputs
    Baseline,
    /// What can be set: sizes of teams, engines a slot, parts
    Sweep,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no part is hidden").get_name())
    }
}

/// What became of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There is a figure.
    Measured,
    /// It is as it should be.
    Passed,
    /// It is not.
    Failed,
    /// It could not be done here; the note says why.
    Skipped,
    /// The time was over before all of it was done.
    Stopped,
}

/// A figure and how far its samples lie apart.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Of the figures below.
    pub unit: String,
    /// Half of the samples are at most this.
    pub median: f64,
    /// The distance between the quartiles, as a share of the median.
    pub spread: f64,
    /// How many there are.
    pub samples: usize,
}

impl Figure {
    /// Of some samples.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn of(samples: &[f64], unit: &str) -> Self {
        let Spread { low, median, high } = Spread::of(samples);
        let relative = (high - low) / median;
        let spread = if relative.is_finite() { relative } else { 0.0 };
        Self { unit: unit.into(), median, spread, samples: samples.len() }
    }
}

/// On what it was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredOn {
    /// The device's name.
    pub device: String,
    /// What the compiler calls it.
    pub architecture: String,
    /// Its processors.
    pub processors: u32,
    /// The version of CUDA that the driver knows.
    pub driver: String,
    /// The highest clocks of processors and memory, in MHz.
    pub clocks_mhz: [u32; 2],
    /// The host's processor, cores, compiler and commit.
    pub host: String,
    /// Whether the device is the host, whose times say nothing.
    pub rehearsal: bool,
}

/// A line of `gpu.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The part that it is of.
    pub part: Part,
    /// What was done; by this other records find it.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What was measured.
    #[serde(flatten)]
    pub figure: Option<Figure>,
    /// Whether results had the bits of the CPU; `None` where they need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_bits: Option<bool>,
    /// The design's estimate for an H200, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// The median over the estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// A sentence, where there is something to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// On what.
    #[serde(flatten)]
    pub on: MeasuredOn,
}

/// The median of the record of this name, if it was measured.
#[must_use]
pub fn median(records: &[Record], what: &str) -> Option<f64> {
    let found = records.iter().rfind(|record| record.what == what && record.figure.is_some());
    found?.figure.as_ref().map(|figure| figure.median)
}

/// The records of a file.
///
/// # Errors
/// If a line is no record; says which.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let record = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))
    };
    (1..).zip(text.lines()).map(record).collect()
}
