//! Page section: soaks, which run mini-batches for an hour.

use super::inside::decimal;
use super::section::Section;
use crate::record::soak::SoakSample;
use crate::record::sorted::Sorted;
use crate::render::chart::{Axis, Line, Lines};
use crate::render::palette::{OURS, PLAIN};

pub(super) fn soak(sorted: &Sorted<'_>) -> Option<Section> {
    let soak = sorted.soaks.last()?;
    let line = |name: &str, colour, bytes: fn(&SoakSample) -> Option<u64>| {
        let point = |sample: &SoakSample| Some((sample.seconds, bytes(sample)? as f64 / 1e6));
        Line { name: name.into(), points: soak.samples.iter().filter_map(point).collect(), colour }
    };
    let resident = line("resident", OURS, |sample| sample.resident_bytes);
    let held = line("engines", PLAIN, |sample| Some(sample.held_bytes));
    let mut lines = vec![resident, held];
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return None;
    }
    let plot = Lines {
        label: "Memory of the process, and of its engines, over the seconds of the run".into(),
        across: Axis::log("seconds", decimal),
        up: Axis::log("MB", decimal),
        lines,
    };
    Some(Section {
        id: "soak",
        title: "Is it stable for an hour?",
        answer: format!("{soak}."),
        plots: vec![("Memory over time".into(), plot.svg())],
        method: "All draws have a fixed seed. Memory is flat if the median of the last quarter of \
                 the samples exceeds the median of the second quarter by at most 2 MiB or 1 %.",
        bias: "Resident memory is that of the whole process, including the sets of inputs. A leak \
               of a few bytes an hour is not detected.",
        command: "cargo xtask bench --only soak",
        ..Section::default()
    })
}
