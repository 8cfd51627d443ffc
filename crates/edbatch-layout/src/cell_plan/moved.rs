//! Counts the data that a cell moves without computing anything.

use std::iter::Sum;
use std::ops::Add;

use super::{CellPlan, CellStep, Place, RowKernel, RowStep};

/// The cost of passes that only move data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Moved {
    /// The number of bytes written.
    pub bytes: u64,
    /// The number of passes: memory kernels.
    pub kernels: usize,
}

impl CellPlan {
    /// Returns the cost of all copies, broadcasts, transpositions and constants for `calls` calls.
    /// Copies to consecutive memory count as one kernel, like a concatenation.
    #[must_use]
    pub fn moved(&self, calls: u64) -> Moved {
        let mut moved = Moved::default();
        let mut end = None;
        for step in &self.steps {
            if !step.rearranges() {
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
    /// Returns true if the step only copies, repeats, transposes or sets elements.
    #[must_use]
    pub fn rearranges(&self) -> bool {
        let Self::Rows(RowStep { kernel, .. }) = self else { return false };
        matches!(
            kernel,
            RowKernel::Copy | RowKernel::Expand | RowKernel::Transpose | RowKernel::Fill(_)
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
