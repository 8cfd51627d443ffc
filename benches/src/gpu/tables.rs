//! What a terminal shows: a line as each thing is found, and tables at the end.

use std::fmt::Write;

use super::record::{MeasuredOn, Outcome, Part, Record};
use super::targets::{Better, Held, targets};
use super::verdicts::verdicts;
use crate::table::Table;
use crate::text::percent;

/// On what everything was measured.
#[must_use]
pub fn heading(on: &MeasuredOn) -> String {
    let MeasuredOn { device, architecture, processors, driver, clocks_mhz, host, rehearsal } = on;
    match rehearsal {
        true => format!("A rehearsal on {device}: no time says anything\n{host}"),
        false => format!(
            "{device} ({architecture}, {processors} processors, up to {} and {} MHz), driver for \
             CUDA {driver}\n{host}",
            clocks_mhz[0], clocks_mhz[1]
        ),
    }
}

/// A record as it is found.
#[must_use]
pub fn line(record: &Record) -> String {
    let Record { what, outcome, figure, note, .. } = record;
    match (outcome, figure) {
        (Outcome::Measured, Some(figure)) => {
            let ratio =
                record.ratio.map_or(String::new(), |ratio| format!(", {ratio:.2} × predicted"));
            format!("  {what}: {} {}{ratio}", number(figure.median), figure.unit)
        }
        _ => format!("  {} {what}: {note}", outcome_name(*outcome)),
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Measured => "measured",
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::Skipped => "skipped",
        Outcome::Stopped => "stopped",
    }
}

/// What was held, and what follows: the end of a run.
#[must_use]
pub fn summary(records: &[Record]) -> String {
    let mut text = String::new();
    if let Some(table) = held(records) {
        write!(text, "{table}").expect("memory takes every write");
    }
    for verdict in verdicts(records) {
        let (rule, found, decision) = (verdict.rule, verdict.found, verdict.decision);
        write!(text, "\n{rule}\n  {found}: {decision}\n").expect("memory takes every write");
    }
    text
}

/// What is to be held; then all records, a table a part.
#[must_use]
pub fn tables(records: &[Record]) -> Vec<Table> {
    let mut parts: Vec<Part> = records.iter().map(|record| record.part).collect();
    parts.sort_unstable();
    parts.dedup();
    let table = |part: &Part| {
        let header =
            ["what", "outcome", "median", "spread", "samples", "bits", "predicted", "ratio"];
        let mut table = Table::new(&part.to_string(), 2, header);
        table.rows = records.iter().filter(|record| record.part == *part).map(row).collect();
        table
    };
    held(records).into_iter().chain(parts.iter().map(table)).collect()
}

fn row(record: &Record) -> Vec<String> {
    let figure = record.figure.as_ref();
    let bits = record.same_bits.map(|same| if same { "the CPU's" } else { "others" });
    let outcome = outcome_name(record.outcome);
    let outcome =
        if record.note.is_empty() { outcome.into() } else { format!("{outcome}: {}", record.note) };
    vec![
        record.what.clone(),
        outcome,
        figure.map_or(String::new(), |figure| format!("{} {}", number(figure.median), figure.unit)),
        figure.map_or(String::new(), |figure| percent(figure.spread)),
        figure.map_or(String::new(), |figure| figure.samples.to_string()),
        bits.unwrap_or_default().into(),
        record.predicted.map_or(String::new(), number),
        record.ratio.map_or(String::new(), |ratio| format!("{ratio:.2} ×")),
    ]
}

/// What is to be held, unless times say nothing.
fn held(records: &[Record]) -> Option<Table> {
    if records.iter().any(|record| record.on.rehearsal) {
        return None;
    }
    let header = ["what", "measured", "must", "goal", "must is", "goal is"];
    let mut table = Table::new("To be held, on an H200", 1, header);
    table.rows = targets(records).iter().map(held_row).collect();
    Some(table)
}

fn held_row(held: &Held) -> Vec<String> {
    let Held { what, unit, measured, must, goal, better } = held;
    let bound = match better {
        Better::Lower => "≤",
        Better::Higher => "≥",
    };
    let met = |met: Option<bool>| match met {
        None => String::new(),
        Some(true) => "met".into(),
        Some(false) => "MISSED".into(),
    };
    vec![
        what.clone(),
        measured.map_or("not measured".into(), |measured| format!("{} {unit}", number(measured))),
        format!("{bound} {} {unit}", number(*must)),
        format!("{} {unit}", number(*goal)),
        met(held.is_met()),
        met(held.reaches_goal()),
    ]
}

/// Three figures, or all before the point.
fn number(number: f64) -> String {
    match number.abs() {
        100.0.. => crate::text::whole(number),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}
