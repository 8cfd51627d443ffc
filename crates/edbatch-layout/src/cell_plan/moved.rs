//! What the steps of a cell move that compute nothing.

use std::iter::Sum;
use std::ops::Add;

use super::{CellPlan, CellStep, Place};

/// What passes move that do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Moved {
    /// How many bytes they write.
    pub bytes: u64,
    /// How many passes there are: memory kernels.
    pub kernels: usize,
}

impl CellPlan {
    /// What the steps of a call move: copies, repetitions, transpositions and constants. Copies
    /// that go on where the one before ended are one kernel, as a concatenation is.
    #[must_use]
    pub fn moved(&self, calls: u64) -> Moved {
        let mut moved = Moved::default();
        let mut end = None;
        for step in &self.steps {
            if !step.is_move() {
                end = None;
                continue;
            }
            for (place, width) in step.writes() {
                moved.kernels += usize::from(end != Some(place));
                moved.bytes += 4 * calls * u64::from(width);
                end = Some(Place { offset: place.offset + width, ..place });
            }
        }
        moved
    }
}

impl CellStep {
    /// Whether the step computes nothing.
    #[must_use]
    pub fn is_move(&self) -> bool {
        matches!(
            self,
            Self::Copy { .. } | Self::Expand { .. } | Self::Transpose { .. } | Self::Fill { .. }
        )
    }
}

impl Add for Moved {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, kernels: self.kernels + other.kernels }
    }
}

impl Sum for Moved {
    fn sum<I: Iterator<Item = Self>>(moved: I) -> Self {
        moved.fold(Self::default(), Self::add)
    }
}
