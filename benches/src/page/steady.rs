//! Whether it stays as it is for an hour.

use super::inside::decimal;
use super::section::Section;
use crate::chart::{Axis, Line, Lines, Spacing};
use crate::palette::{OURS, PLAIN};
use crate::soak::SoakSample;
use crate::sorted::Sorted;
use crate::workload::Failure;

pub(super) fn soak(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let Some(soak) = sorted.soaks.last() else { return Ok(None) };
    let line = |name: &str, colour, bytes: fn(&SoakSample) -> Option<u64>| {
        let point = |sample: &SoakSample| Some((sample.seconds, bytes(sample)? as f64 / 1e6));
        Line { name: name.into(), points: soak.samples.iter().filter_map(point).collect(), colour }
    };
    let resident = line("resident", OURS, |sample| sample.resident_bytes);
    let held = line("engines", PLAIN, |sample| Some(sample.held_bytes));
    let mut lines = vec![resident, held];
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return Ok(None);
    }
    let plot = Lines {
        says: "Memory of the process, and of its engines, over the seconds of the run".into(),
        across: Axis { label: "seconds", spacing: Spacing::Log, format: decimal },
        up: Axis { label: "MB", spacing: Spacing::Log, format: decimal },
        lines,
    };
    Ok(Some(Section {
        id: "soak",
        title: "Does it stay as it is for an hour?",
        answer: format!("{soak}."),
        key: Vec::new(),
        plots: vec![("Memory over time".into(), plot.svg()?)],
        more: Vec::new(),
        method: "Mini-batches of a size, a model, an engine and instances that are drawn with a \
                 fixed seed. Memory is flat if the median of the last quarter of the samples is at \
                 most 2 MiB, or 1 %, above that of the second quarter.",
        bias: "Resident memory is the whole process's, with the sets that inputs are drawn from. \
               A leak of a few bytes an hour is not found.",
        command: "cargo xtask bench --only soak",
    }))
}
