//! The tables of the paper's evaluation, with our figures.
//!
//! The paper's figures come from another machine (a Xeon and a V100) and from other sets. Only
//! ratios of systems that ran on the same machine are comparable.

use crate::measure::systems::System;
use crate::paper::{CORTEX, SPEEDUPS};
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Case, Throughput};
use crate::render::table::Table;
use crate::text::whole;

/// Throughput as in the paper: the maximum over all sizes of mini-batches.
pub fn overall(sorted: &Sorted<'_>) -> Table {
    let title = "The paper's overall performance: instances a second, the maximum over sizes of \
                 mini-batches; ratios of the paper's system to cells by depth or agenda, the \
                 better one, measured here and as printed (on its CPU, means or ranges over sizes)";
    let header = [
        "model",
        "input",
        "H",
        "op by op",
        "cells",
        "paper",
        "edbatch",
        "paper / cells",
        "printed",
        "edbatch / paper",
    ];
    let mut table = Table::new(title, 2, header);
    let key = |r: &Throughput| r.case.workload();
    for group in groups(&sorted.throughputs, key) {
        if group.iter().all(|record| record.case.batch == group[0].case.batch) {
            continue;
        }
        let max = |systems: &[System]| {
            let names: Vec<String> = systems.iter().map(|system| system.name()).collect();
            let found = group.iter().filter(|record| names.contains(&record.system));
            found.map(|record| record.instances_per_second).reduce(f64::max)
        };
        let vanilla = max(&[System::VanillaDepth, System::VanillaAgenda]);
        let cells = max(&[System::CellsDepth, System::CellsAgenda]);
        let (paper, own) = (max(&[System::Paper]), max(&[System::Edbatch]));
        let ratio = |a: Option<f64>, b: Option<f64>| {
            a.zip(b).map_or("-".into(), |(a, b)| format!("{:.2}", a / b))
        };
        let Case { model, input, hidden, .. } = &group[0].case;
        let printed = SPEEDUPS.iter().find(|(name, _)| name == model);
        let mut row = vec![model.clone(), input.clone(), hidden.to_string()];
        row.extend([vanilla, cells, paper, own].map(|max| max.map_or("-".into(), whole)));
        row.push(ratio(paper, cells));
        row.push(printed.map_or("-", |(_, printed)| printed).into());
        row.push(ratio(own, paper));
        table.rows.push(row);
    }
    table
}

/// Our latencies, with those published for Cortex and ED-Batch on a GPU.
pub fn cortex(sorted: &Sorted<'_>) -> Table {
    fn printed(record: &Throughput) -> Option<[f64; 2]> {
        let Case { model, hidden, batch, .. } = &record.case;
        let row = CORTEX.iter().find(|(case, _)| *case == (&**model, *hidden, *batch));
        row.map(|(_, milliseconds)| *milliseconds)
    }
    let own = System::Edbatch.name();
    let mut records = sorted.latencies.clone();
    records.retain(|r| r.system == own && r.case.threads == 1 && on_cpu(r) && printed(r).is_some());
    Table::of(
        "Latency of a mini-batch in ms: Cortex and ED-Batch as published, on a V100 and another \
         set; our median, on one core of this machine",
        2,
        &[
            ("model", |r: &Throughput| r.case.model.clone()),
            ("input", |r| r.case.input.clone()),
            ("H", |r| r.case.hidden.to_string()),
            ("batch", |r| r.case.batch.to_string()),
            ("Cortex, V100", |r| printed(r).map_or("-".into(), |ms| format!("{:.2}", ms[0]))),
            ("ED-Batch, V100", |r| printed(r).map_or("-".into(), |ms| format!("{:.2}", ms[1]))),
            ("ours", |r| format!("{:.2}", r.latency_ns.p50 / 1e6)),
        ],
        &records,
    )
}
