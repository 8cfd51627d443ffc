//! The tables of the paper's evaluation: its figures beside ours.
//!
//! Theirs are of another machine (a Xeon and a V100) and of other sets: what may be compared is
//! ratios of systems that ran beside each other.

use crate::paper_table::{CORTEX, LEARNING, PAPER_TABLE, SPEEDUPS};
use crate::record::Throughput;
use crate::sorted::{Sorted, groups};
use crate::systems::System;
use crate::table::Table;
use crate::text::whole;

/// All that there are records for.
#[must_use]
pub fn paper_tables(sorted: &Sorted<'_>) -> Vec<Table> {
    let tables = [overall(sorted), learning(sorted), compiling(sorted), cortex(sorted)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Throughput as the paper takes it: the most over all sizes of mini-batches.
fn overall(sorted: &Sorted<'_>) -> Table {
    let title = "The paper's overall performance: instances a second, the most over all \
                 mini-batches; ratios of the paper's system over cells by the better of depth and \
                 agenda, ours and as printed (on its CPU, means or ranges over sizes)";
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
    let key = |r: &Throughput| (r.model.clone(), r.input.clone(), r.hidden);
    for group in groups(&sorted.throughputs, key) {
        if group.iter().all(|record| record.batch == group[0].batch) {
            continue;
        }
        let most = |systems: &[System]| {
            let names: Vec<String> = systems.iter().map(|system| system.name()).collect();
            let found = group.iter().filter(|record| names.contains(&record.system));
            found.map(|record| record.instances_per_second).reduce(f64::max)
        };
        let vanilla = most(&[System::VanillaDepth, System::VanillaAgenda]);
        let cells = most(&[System::CellsDepth, System::CellsAgenda]);
        let (paper, own) = (most(&[System::Paper]), most(&[System::Edbatch]));
        let ratio = |a: Option<f64>, b: Option<f64>| {
            a.zip(b).map_or("-".into(), |(a, b)| format!("{:.2}", a / b))
        };
        let Throughput { model, input, hidden, .. } = group[0];
        let printed = SPEEDUPS.iter().find(|(name, _)| name == model);
        let mut row = vec![model.clone(), input.clone(), hidden.to_string()];
        row.extend([vanilla, cells, paper, own].map(|most| most.map_or("-".into(), whole)));
        row.push(ratio(paper, cells));
        row.push(printed.map_or("-", |(_, printed)| printed).into());
        row.push(ratio(own, paper));
        table.rows.push(row);
    }
    table
}

fn learning(sorted: &Sorted<'_>) -> Table {
    let title = "The paper's learning of FSMs, encoding sort: ms and iterations; printed: another \
                 machine";
    let header = ["model", "input", "ms", "episodes", "printed ms", "printed"];
    let mut table = Table::new(title, 2, header);
    for record in sorted.learns.iter().filter(|record| record.encoding == "sort") {
        let Some((_, seconds, iterations)) =
            LEARNING.iter().find(|(model, ..)| *model == record.model)
        else {
            continue;
        };
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            format!("{:.1}", record.seconds * 1e3),
            record.episodes.to_string(),
            whole(seconds * 1e3),
            iterations.to_string(),
        ]);
    }
    table
}

fn compiling(sorted: &Sorted<'_>) -> Table {
    let title = "The paper's compile time of cells; printed: another machine";
    let mut table = Table::new(title, 1, ["cell", "µs", "printed µs"]);
    for cell in &sorted.cells {
        let printed = PAPER_TABLE.iter().find(|printed| printed.name == cell.cell);
        table.rows.extend(printed.map(|printed| {
            let own = format!("{:.1}", cell.compile_microseconds);
            vec![cell.cell.clone(), own, whole(printed.compile_milliseconds * 1e3)]
        }));
    }
    table
}

/// Latencies beside those that were published of Cortex and of ED-Batch on a GPU.
#[must_use]
pub fn cortex(sorted: &Sorted<'_>) -> Table {
    let title = "Latency of a mini-batch in ms: Cortex and ED-Batch as published, on a V100 and \
                 another set; ours at the median, on one core of this machine";
    let header = ["model", "input", "H", "batch", "Cortex, V100", "ED-Batch, V100", "ours"];
    let mut table = Table::new(title, 2, header);
    let own = System::Edbatch.name();
    for printed in &CORTEX {
        let found = sorted.latencies.iter().find(|record| {
            let size = (record.hidden, record.batch, record.threads);
            record.model == printed.model
                && record.system == own
                && size == (printed.hidden, printed.batch, 1)
        });
        table.rows.extend(found.map(|record| {
            vec![
                record.model.clone(),
                record.input.clone(),
                record.hidden.to_string(),
                record.batch.to_string(),
                format!("{:.2}", printed.cortex),
                format!("{:.2}", printed.ed_batch),
                format!("{:.2}", record.latency_ns.p50 / 1e6),
            ]
        }));
    }
    table
}
