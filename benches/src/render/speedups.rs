//! Ratios of throughputs in the same run.

use crate::measure::systems::System;
use crate::record::sorted::groups;
use crate::record::{Case, Throughput};
use crate::render::table::Table;

/// Two systems, and the name of the ratio of their speeds: a rival, or one part of ours.
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
    (System::Bf16, System::Edbatch, "bf16"),
    (System::CudaTf32, System::Edbatch, "tf32"),
];

/// Returns ratios of median instances a second, of systems that were both measured; and for
/// several threads, the ratio to one thread.
pub fn speedups(records: &[&Throughput]) -> Table {
    let key = |r: &Throughput| Case { threads: 1, ..r.case.clone() };
    let speed = |group: &[&Throughput], system: System, threads: usize| {
        let found =
            group.iter().find(|r| r.system == system.recorded() && r.case.threads == threads);
        found.map(|record| record.instances_per_second)
    };
    let names = PAIRS.iter().map(|&(_, _, name)| name).chain(["threads inside", "threads across"]);
    let header = ["model", "input", "H", "batch", "threads"].into_iter().chain(names);
    let title =
        "Ratios of instances a second: edbatch over others, and the contribution of each part";
    let mut table = Table::new(title, 2, header);
    for group in groups(records, key) {
        let mut threads: Vec<usize> = group.iter().map(|record| record.case.threads).collect();
        threads.dedup();
        for threads in threads {
            let pairs = PAIRS
                .iter()
                .map(|&(a, b, _)| Some(speed(group, a, threads)? / speed(group, b, threads)?));
            let one = speed(group, System::Edbatch, 1).filter(|_| threads > 1);
            let threaded = [System::Edbatch, System::Across]
                .map(|system| one.and_then(|one| Some(speed(group, system, threads)? / one)));
            let ratios: Vec<Option<f64>> = pairs.chain(threaded).collect();
            if ratios.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![group[0].case.model.clone(), group[0].case.input.clone()];
            row.extend(
                [group[0].case.hidden, group[0].case.batch, threads].map(|size| size.to_string()),
            );
            let cell = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            row.extend(ratios.into_iter().map(cell));
            table.rows.push(row);
        }
    }
    table
}
