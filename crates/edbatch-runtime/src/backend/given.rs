//! The values that exist before a plan runs.

use std::iter;

use edbatch_graph::RecordId;
use edbatch_layout::Plan;

use super::Rows;
#[cfg(doc)]
use edbatch_layout::Want;

/// The values that exist before a plan runs, in the order of [`Plan::given`].
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The network's initial values, in host memory: a row for each, with its fields concatenated.
    pub initial: &'a Rows,
    /// The places of the given values after the initial ones, in the order of [`Plan::given`]. The
    /// values after the end of this list are in [host memory](GivenPlace::Host).
    pub places: &'a [GivenPlace],
    /// The elements of the given values in host memory, row after row: fields one after another.
    pub host: &'a [f32],
}

/// The place of a given value before its plan runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GivenPlace {
    /// The next elements of [`Given::host`].
    Host,
    /// Elements of [`Borrowed`](super::Borrowed) memory, from this one on, counted over all of it.
    Borrowed(u32),
    /// A row of the slot's store, from this line on, where an earlier plan [wrote](Want::Store) it.
    Stored(u32),
}

/// A row in the store of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredRow {
    /// The record in the row.
    pub record: RecordId,
    /// Its first line.
    pub line: u32,
}

impl Given<'_> {
    /// Returns the place of each given value of a plan after the initial ones.
    pub fn places_of(&self, plan: &Plan) -> impl Iterator<Item = GivenPlace> + '_ {
        let others = plan.given.len().saturating_sub(self.initial.len());
        let host = others.saturating_sub(self.places.len());
        self.places.iter().copied().chain(iter::repeat_n(GivenPlace::Host, host))
    }
}
