//! Checks the lines of the store that a plan writes and reads.

use std::ops::Range;

use super::{Checked, PlanError};
use crate::plan::{Plan, ValueRow, Want};
use crate::program::Program;
use crate::record_layout::LINE;

/// Proves that a plan writes no line of the store twice, and none from which it reads a given
/// value. `stored` has pairs of the index of a given value and the first line of its row.
///
/// A device copies rows out of the store and into it in one list of commands, so the order of the
/// two must not matter.
///
/// *Cost*: O(n log n) in the number of rows.
///
/// # Errors
/// The first violation.
pub fn check_store(
    plan: &Plan,
    program: &Program,
    stored: &[(usize, u32)],
) -> Result<(), PlanError> {
    let at = |step: usize| move |what: String| PlanError { step, what };
    let written = written(plan, program).map_err(at(plan.steps.len()))?;
    for &(given, line) in stored {
        let check = || {
            let row = plan.given.get(given).ok_or(format!("there is no given value {given}"))?;
            let read = lines(program, *row, line)?;
            // Ranges that are written ascend and do not overlap.
            let next = written.partition_point(|written| written.end <= read.start);
            match written.get(next).filter(|written| written.start < read.end) {
                Some(written) => Err(format!(
                    "given value {given} is read from lines {read:?} of the store, of which \
                     {written:?} are written"
                )),
                None => Ok(()),
            }
        };
        check().map_err(at(0))?;
    }
    Ok(())
}

/// Returns the lines of the store that a plan writes, in order. Fails if one is written twice.
pub(super) fn written(plan: &Plan, program: &Program) -> Checked<Vec<Range<u64>>> {
    let mut all = Vec::new();
    for &(row, want) in &plan.wanted {
        if let Want::Store(line) = want {
            all.push(lines(program, row, line)?);
        }
    }
    all.sort_unstable_by_key(|lines| lines.start);
    match all.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => Err(format!("lines {:?} and {:?} of the store overlap", pair[0], pair[1])),
        None => Ok(all),
    }
}

/// Returns the lines of a row in the store.
fn lines(program: &Program, row: ValueRow, line: u32) -> Checked<Range<u64>> {
    if usize::from(row.record.0) >= program.network().records().len() {
        return Err(format!("{:?} does not exist", row.record));
    }
    let (start, stride) = (u64::from(line), u64::from(program.record(row.record).stride));
    let end = start + stride / LINE as u64;
    match end > 1 << 32 {
        true => Err(format!("line {line} of the store: a row of {stride} elements ends after it")),
        false => Ok(start..end),
    }
}
