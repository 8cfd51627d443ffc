//! Ratios of throughputs in the same run.

use crate::measure::systems::System;
use crate::record::Throughput;
use crate::render::table::Table;

/// Pairs of systems, and the part of ours that their ratio shows.
const PAIRS: [(System, System, &str); 11] = [
    (System::Edbatch, System::Unbatched, "/ unbatched"),
    (System::Edbatch, System::CellsAgenda, "/ cells-agenda"),
    (System::Edbatch, System::Paper, "/ paper"),
    (System::Edbatch, System::NoPolicy, "policy"),
    (System::Edbatch, System::NoHoisting, "hoisting"),
    (System::NoHoisting, System::NoFusion, "fusion"),
    (System::NoFusion, System::NoLayout, "layout"),
    (System::Edbatch, System::NoKernel, "kernel"),
    (System::Folded, System::Edbatch, "tables folded"),
    (System::Edbatch, System::CudaWaves, "teams"),
    (System::CudaTf32, System::Edbatch, "tf32"),
];

/// Returns ratios of instances a second, median over median, of systems that both ran; and for
/// several threads, the ratio to one thread.
pub fn speedups(records: &[&Throughput]) -> Option<Table> {
    let same = |a: &&Throughput, b: &&Throughput| {
        let key = |r: &&Throughput| {
            (r.model.clone(), r.input.clone(), r.hidden, r.batch, r.backend.clone())
        };
        key(a) == key(b)
    };
    let speed = |group: &[&Throughput], system: System, threads: usize| {
        let found = group.iter().find(|r| r.system == system.recorded() && r.threads == threads);
        found.map(|record| record.instances_per_second)
    };
    let mut rows = Vec::new();
    for group in records.chunk_by(same) {
        let mut threads: Vec<usize> = group.iter().map(|record| record.threads).collect();
        threads.dedup();
        for threads in threads {
            let mut ratios: Vec<Option<f64>> = PAIRS
                .iter()
                .map(|&(a, b, _)| Some(speed(group, a, threads)? / speed(group, b, threads)?))
                .collect();
            for system in [System::Edbatch, System::Across] {
                let one = speed(group, System::Edbatch, 1).filter(|_| threads > 1);
                ratios.push(one.and_then(|one| Some(speed(group, system, threads)? / one)));
            }
            rows.push((group[0], threads, ratios));
        }
    }
    let names = PAIRS.iter().map(|&(_, _, name)| name).chain(["threads inside", "threads across"]);
    let columns: Vec<(usize, &str)> = names
        .enumerate()
        .filter(|&(column, _)| rows.iter().any(|(_, _, ratios)| ratios[column].is_some()))
        .collect();
    if columns.is_empty() {
        return None;
    }
    let header = ["model", "input", "H", "batch", "threads"].into_iter();
    let header = header.chain(columns.iter().map(|&(_, name)| name));
    let title =
        "Ratios of instances a second: edbatch over others, and the contribution of each part";
    let mut table = Table::new(title, 2, header);
    for (record, threads, ratios) in rows {
        let mut row = vec![record.model.clone(), record.input.clone()];
        row.extend([record.hidden, record.batch, threads].map(|number| number.to_string()));
        let ratio = |column: usize| match ratios[column] {
            Some(ratio) => format!("{ratio:.2}"),
            None => String::new(),
        };
        row.extend(columns.iter().map(|&(column, _)| ratio(column)));
        table.rows.push(row);
    }
    Some(table)
}
