//! What the design estimates for an H200, ± 40 %, before anything was measured.
//!
//! In µs of a mini-batch, but for the peak. A figure that is further off than that, in either
//! direction, is to be explained before the next change.

use super::setting::{Clock, Kernels, Setting, Use};

/// A ratio to an estimate beyond this, or below its inverse, is to be explained.
pub const FAR: f64 = 1.4;

/// The name of the FMA peak among records.
pub const PEAK: &str = "FMA peak";

/// The name of the time from a cooperative launch of all processors until the host has seen its
/// end.
pub const LAUNCH_AND_TICKET: &str = "launch and ticket, all processors";

/// TFLOP/s of exact products at most.
pub(super) const FMA_PEAK: f64 = 60.0;

/// µs of the host for a launch: 2 to 6.
pub(super) const CALL: Option<f64> = Some(4.0);

/// What records call a meeting of the blocks of teams.
#[must_use]
pub fn meeting(teams: u32, blocks: u32) -> String {
    match teams {
        1 => format!("meeting of {blocks} blocks"),
        teams => format!("meeting of {blocks} blocks, {teams} teams side by side"),
    }
}

/// µs of a meeting.
pub(super) fn meeting_of(teams: u32, blocks: u32, processors: u32) -> Option<f64> {
    match (teams, blocks) {
        (1, 16) => Some(0.8),
        (1, blocks) if blocks == processors => Some(1.1),
        _ => None,
    }
}

/// By kernels, use, clock and hidden size: trees, lattices, taggers.
const ESTIMATES: [(Kernels, Use, Clock, usize, [f64; 3]); 12] = [
    (Kernels::TEAMS, Use::One, Clock::EndToEnd, 256, [110.0, 400.0, 330.0]),
    (Kernels::TEAMS, Use::Many, Clock::EndToEnd, 256, [35.0, 95.0, 170.0]),
    (Kernels::TEAMS, Use::One, Clock::Execute, 256, [97.0, 401.0, 329.0]),
    (Kernels::WAVES, Use::One, Clock::Execute, 256, [137.0, 700.0, 420.0]),
    (Kernels::FOLDED, Use::One, Clock::Execute, 256, [87.0, 370.0, 306.0]),
    (Kernels::FOLDED, Use::One, Clock::Execute, 128, [61.0, 321.0, 222.0]),
    (Kernels::FOLDED, Use::One, Clock::Execute, 512, [164.0, 541.0, 711.0]),
    (Kernels::FOLDED, Use::Many, Clock::EndToEnd, 256, [31.0, 88.0, 160.0]),
    (Kernels::FOLDED, Use::Many, Clock::EndToEnd, 128, [9.0, 22.0, 38.0]),
    (Kernels::FOLDED, Use::Many, Clock::EndToEnd, 512, [129.0, 373.0, 702.0]),
    (Kernels::TF32, Use::One, Clock::Execute, 256, [63.0, 292.0, 198.0]),
    (Kernels::TF32, Use::One, Clock::EndToEnd, 256, [70.0, f64::NAN, f64::NAN]),
];

/// Of the translator, at 256 alone.
const TRANSLATOR: [(Use, f64); 2] = [(Use::One, 2700.0), (Use::Many, 1200.0)];

/// µs of a mini-batch of 64, where there is an estimate.
#[must_use]
pub fn predicted(setting: &Setting, clock: Clock) -> Option<f64> {
    let &Setting { ref model, hidden, batch: 64, kernels, use_ } = setting else { return None };
    if model == "lstm_nmt" {
        let main = (hidden, kernels, clock) == (256, Kernels::TEAMS, Clock::EndToEnd);
        let found = TRANSLATOR.iter().find(|(of, _)| *of == use_ && main);
        return found.map(|(_, micros)| *micros);
    }
    let column =
        ["tree_lstm", "lattice_lstm", "bilstm_tagger"].iter().position(|of| of == model)?;
    let same = |row: &&(Kernels, Use, Clock, usize, [f64; 3])| {
        (row.0, row.1, row.2, row.3) == (kernels, use_, clock, hidden)
    };
    let estimate = ESTIMATES.iter().find(same)?.4[column];
    (!estimate.is_nan()).then_some(estimate)
}
