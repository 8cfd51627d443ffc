//! What the steps of a run are called.

use super::{Step, What};
use crate::families::Family;
use crate::options::{Options, Part};

impl Step<'_> {
    /// What is measured: unique in a run, and the same in the next.
    #[must_use]
    pub fn name(&self, options: &Options) -> String {
        let on = |family: &Family| format!("{} on {}", family.model, family.input);
        match &self.what {
            What::Throughput { family, hidden, batch } => {
                let chosen = chosen(options);
                let parts = match (options.wants(Part::Throughput), options.wants(Part::Breakdown))
                {
                    (true, true) => "speed",
                    (true, false) => "throughput",
                    _ => "breakdown",
                };
                format!("{parts}: {}, H {hidden}, batch {batch}{chosen}", on(family))
            }
            What::Latency { family, hidden, batch, .. } => {
                let chosen = chosen(options);
                format!("latency: {}, H {hidden}, batch {batch}{chosen}", on(family))
            }
            What::Paper { family, hidden, batch } => {
                let chosen = chosen(options);
                format!("paper: {}, H {hidden}, batch {batch}{chosen}", on(family))
            }
            What::Counts { family, batch } => format!("counts: {}, batch {batch}", on(family)),
            What::Learn { family, batch } => format!("learn: {}, batch {batch}", on(family)),
            What::Published(path) => {
                format!("counts: {}", path.file_name().unwrap_or_default().display())
            }
            What::Growth(family) => format!("growth: {}", on(family)),
            What::Peers { family, hidden, batch, .. } => {
                let whole = if options.whole { " (whole)" } else { "" };
                format!("peers: {}, H {hidden}, batch {batch}{whole}", on(family))
            }
            What::Cells => "cells".into(),
            What::PqTree => "pqtree".into(),
            What::Soak(_) => format!("soak: {} s", options.seconds_of_soak()),
        }
    }
}

/// What sets a step apart from the same one with other contestants.
fn chosen(options: &Options) -> String {
    let mut chosen: Vec<String> = Vec::new();
    if !options.systems.is_empty() {
        chosen.extend(options.systems.iter().map(|system| system.name()));
    }
    if options.ablation {
        chosen.push("ablation".into());
    }
    if options.whole {
        chosen.push("whole".into());
    }
    chosen.extend(options.backends.iter().map(|backend| backend.name().into()));
    chosen.extend(options.threads.iter().map(|threads| format!("{threads} threads")));
    if chosen.is_empty() { String::new() } else { format!(" ({})", chosen.join(" ")) }
}
