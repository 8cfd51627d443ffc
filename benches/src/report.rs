//! Tables of the measurements, one for each part, as the terminal shows them.

use crate::paper_report::paper_tables;
use crate::paper_table::{PAPER_TABLE, PrintedCell};
use crate::record::{
    Breakdown, Cell, CellLatency, Copies, Counts, Growth, Learn, Peer, PqTrees, Record, Rule,
    Throughput,
};
use crate::sorted::Sorted;
use crate::speedups::speedups;
use crate::systems::System;
use crate::table::Table;
use crate::text::{duration, percent, whole};

/// A table for each part that has records.
#[must_use]
pub fn tables(records: &[Record]) -> Vec<Table> {
    let sorted = Sorted::new(records);
    let mut tables = vec![throughput(&sorted.throughputs, "Throughput")];
    tables.extend(speedups(&sorted.throughputs));
    tables.extend([
        throughput(&sorted.latencies, "Latency"),
        breakdown(&sorted.breakdowns),
        count(&sorted.counts),
        ratios(&sorted.counts),
        learn(&sorted.learns),
        growth(&sorted.growths),
        cell_layouts(&sorted.cells),
        pq_trees(&sorted.trees),
        peers(&sorted.peers),
    ]);
    tables.extend(paper_tables(&sorted));
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// A row for all policies on one input, a column per policy.
fn count(records: &[&Counts]) -> Table {
    let mut policies: Vec<&str> = Vec::new();
    for record in records {
        if !policies.contains(&record.policy.as_str()) {
            policies.push(&record.policy);
        }
    }
    let columns = ["model", "input", "size", "nodes"].into_iter().chain(policies.iter().copied());
    let title = "Batches of a mini-batch, by policy; means over mini-batches";
    let mut table = Table::new(title, 2, columns.chain(["bound"]));
    let same =
        |a: &&Counts, b: &&Counts| (&a.model, &a.input, a.batch) == (&b.model, &b.input, b.batch);
    for group in records.chunk_by(same) {
        let first = group[0];
        let size = first.batch.map_or("-".into(), |batch| batch.to_string());
        let mut row = vec![first.model.clone(), first.input.clone(), size, whole(first.nodes)];
        for policy in &policies {
            let record = group.iter().find(|record| record.policy == *policy);
            row.push(record.map_or("-".into(), |record| format!("{:.1}", record.batches)));
        }
        row.push(format!("{:.1}", first.bound));
        table.rows.push(row);
    }
    table
}

/// What a policy needs at most of another one's batches, row by row.
const GOALS: [(&str, &str, f64); 1] = [("rule-pairs", "beam:32", 1.05)];

/// The policies with a goal, beside the search that they are measured by: the worst row of each.
fn ratios(records: &[&Counts]) -> Table {
    let title = "Batches by policy over batches by search; the worst of the rows above";
    let header = ["policy", "search", "model", "input", "size", "ratio", "goal"];
    let mut table = Table::new(title, 4, header);
    for (policy, search, goal) in GOALS {
        let ratio = |record: &Counts| {
            let same = |other: &&&Counts| {
                let row = |of: &Counts| (of.model.clone(), of.input.clone(), of.batch);
                other.policy == search && row(other) == row(record)
            };
            records.iter().find(same).map(|other| record.batches / other.batches)
        };
        let of_policy = records.iter().filter(|record| record.policy == policy);
        let ratios = of_policy.filter_map(|record| Some((ratio(record)?, record)));
        if let Some((ratio, record)) = ratios.max_by(|a, b| a.0.total_cmp(&b.0)) {
            table.rows.push(vec![
                policy.into(),
                search.into(),
                record.model.clone(),
                record.input.clone(),
                record.batch.map_or("-".into(), |batch| batch.to_string()),
                format!("{ratio:.3}"),
                format!("{goal:.2}"),
            ]);
        }
    }
    table
}

fn throughput(records: &[&Throughput], part: &str) -> Table {
    let title = format!(
        "{part}: instances a second, medians over laps with the slowest and the fastest; the best \
         of every mini-batch; how long a mini-batch takes, at the median and of 99 in a hundred; \
         FLOPs an instance in millions, of the equations and executed"
    );
    let header = [
        "model", "input", "system", "backend", "H", "batch", "threads", "inst/s", "laps", "rounds",
        "mini-b.", "p50", "p99", "MFLOP", "done", "of peak", "best", "of peak", "plan ns", "nodes",
        "batches", "bound", "peak MB", "live MB", "lists MB",
    ];
    let mut table = Table::new(&title, 4, header);
    for record in records {
        let laps = (record.instances_per_second_low, record.instances_per_second_high);
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            record.system.clone(),
            record.backend.clone(),
            record.hidden.to_string(),
            record.batch.to_string(),
            record.threads.to_string(),
            whole(record.instances_per_second),
            format!("[{} {}]", whole(laps.0), whole(laps.1)),
            record.repetitions.to_string(),
            record.mini_batches.to_string(),
            duration(record.latency_ns.p50),
            duration(record.latency_ns.p99),
            format!("{:.2}", record.flops_per_instance / 1e6),
            format!("{:.2}", record.executed_flops_per_instance / 1e6),
            percent(record.fraction_of_peak),
            whole(record.best_instances_per_second),
            percent(record.best_fraction_of_peak),
            whole(record.plan_ns_per_node),
            whole(record.nodes),
            format!("{:.1}", record.batches),
            format!("{:.1}", record.bound),
            format!("{:.1}", record.peak_bytes as f64 / 1e6),
            format!("{:.1}", record.live_bytes as f64 / 1e6),
            format!("{:.1}", record.gathered_bytes / 1e6),
        ]);
    }
    table
}

/// Of our own system, if it was measured: rows of all of them would be too many to read.
fn breakdown(records: &[&Breakdown]) -> Table {
    let own = System::Edbatch.name();
    let measured = records.iter().any(|record| record.system == own);
    let title = if measured {
        "Where the time goes; other systems: on the page and in the JSON"
    } else {
        "Where the time goes"
    };
    let mut table = Table::new(
        title,
        3,
        [
            "model",
            "input",
            "system",
            "hidden",
            "batch",
            "µs/instance",
            "construct",
            "schedule",
            "plan",
            "execute",
            "= gather",
            "+ product",
            "+ element-wise",
            "+ rest",
            "other",
        ],
    );
    for record in records.iter().filter(|record| !measured || record.system == own) {
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            record.system.clone(),
            record.hidden.to_string(),
            record.batch.to_string(),
            format!("{:.1}", record.microseconds_per_instance),
            percent(record.construct),
            percent(record.schedule),
            percent(record.plan),
            percent(record.execute),
            percent(record.gather),
            percent(record.product),
            percent(record.elementwise),
            percent(record.execute - record.gather - record.product - record.elementwise),
            percent(record.other),
        ]);
    }
    table
}

fn learn(records: &[&Learn]) -> Table {
    let title =
        "Learning a policy; batches of mini-batches on which nothing was learned or selected";
    let mut table = Table::new(
        title,
        3,
        [
            "model", "input", "encoding", "batch", "episodes", "ms", "states", "critical",
            "learned", "bound",
        ],
    );
    for record in records {
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            record.encoding.clone(),
            record.batch.to_string(),
            record.episodes.to_string(),
            format!("{:.1}", record.seconds * 1e3),
            record.states.to_string(),
            record.before.to_string(),
            record.after.to_string(),
            record.bound.to_string(),
        ]);
    }
    table
}

fn cell_layouts(records: &[&Cell]) -> Table {
    let title = "Memory kernels of a cell and the kB that they write, declared -> planned, as the \
                 paper prints them (at size 64, 8 calls), by the paper's rule and by our own; and \
                 the time of a batch, laid out as it comes -> by Algorithm 2";
    let header = [
        "cell",
        "hidden",
        "calls",
        "batches",
        "printed",
        "kB",
        "paper's",
        "kB",
        "own",
        "kB",
        "µs",
        "compile µs",
    ];
    let mut table = Table::new(title, 1, header);
    for record in records {
        let mut row = vec![
            record.cell.clone(),
            record.hidden.to_string(),
            record.calls.to_string(),
            record.batches.to_string(),
        ];
        let printed = PAPER_TABLE.iter().find(|printed| printed.name == record.cell);
        row.extend(printed.map_or(
            [String::new(), String::new()],
            |PrintedCell { declared, planned, .. }| {
                let kernels = format!("{} -> {}", declared.kernels, planned.kernels);
                [kernels, format!("{} -> {}", declared.kilobytes, planned.kilobytes)]
            },
        ));
        for Rule { declared, planned } in [&record.paper_rule, &record.own_rule] {
            row.push(format!("{} -> {}", declared.memory_kernels, planned.memory_kernels));
            let kilobytes = |copies: &Copies| copies.bytes as f64 / 1024.0;
            row.push(format!("{:.1} -> {:.1}", kilobytes(declared), kilobytes(planned)));
        }
        let CellLatency { declared, planned } = record.microseconds;
        row.push(format!("{declared:.1} -> {planned:.1}"));
        row.push(whole(record.compile_microseconds));
        table.rows.push(row);
    }
    table
}

fn pq_trees(records: &[&PqTrees]) -> Table {
    let title = "PQ-trees: a tree and all its reductions, in ns per element of the sets";
    let header =
        ["family", "leaves", "sets", "accepted", "elements", "ns/element", "quartiles", "tree MB"];
    let mut table = Table::new(title, 1, header);
    for record in records {
        let (low, high) = (record.ns_per_element_low, record.ns_per_element_high);
        table.rows.push(vec![
            record.family.clone(),
            record.leaves.to_string(),
            record.sets.to_string(),
            record.accepted.to_string(),
            record.elements.to_string(),
            format!("{:.1}", record.ns_per_element),
            format!("[{low:.1} {high:.1}]"),
            format!("{:.1}", record.bytes as f64 / 1e6),
        ]);
    }
    table
}

fn growth(records: &[&Growth]) -> Table {
    let title = "Growing graphs: ns a node, the fastest of the repetitions; `engine` is ours, in \
                 the parts in which it runs a large mini-batch";
    let header =
        ["model", "input", "policy", "nodes", "batches", "construct", "schedule", "plan", "times"];
    let mut table = Table::new(title, 3, header);
    let optional = |time: Option<f64>| time.map_or("-".into(), |time| format!("{time:.1}"));
    for record in records {
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            record.policy.clone(),
            whole(record.nodes as f64),
            whole(record.batches as f64),
            optional(record.construct_ns_per_node),
            format!("{:.1}", record.schedule_ns_per_node),
            optional(record.plan_ns_per_node),
            record.repetitions.to_string(),
        ]);
    }
    table
}

fn peers(records: &[&Peer]) -> Table {
    let title = "Other programs in instances a second, with what Python prepares in the time as \
                 `prepared`, and ours in the same rounds";
    let header = [
        "model",
        "input",
        "system",
        "version",
        "H",
        "batch",
        "threads",
        "inst/s",
        "spread",
        "prepared",
        "ours",
        "spread",
        "ratio",
        "rounds",
        "mini-b.",
        "differ by",
    ];
    let mut table = Table::new(title, 4, header);
    for record in records {
        let (theirs, ours) = (record.instances_per_second, record.edbatch_instances_per_second);
        table.rows.push(vec![
            record.model.clone(),
            record.input.clone(),
            record.system.clone(),
            record.version.clone(),
            record.hidden.to_string(),
            record.batch.to_string(),
            record.threads.to_string(),
            whole(theirs),
            percent(record.spread),
            whole(record.prepared_instances_per_second),
            whole(ours),
            percent(record.edbatch_spread),
            format!("{:.2}", ours / theirs),
            record.repetitions.to_string(),
            record.mini_batches.to_string(),
            format!("{:.0e}", record.difference),
        ]);
    }
    table
}
