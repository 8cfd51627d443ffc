//! Complete tables of the measurements, one or more for each part.

use crate::measure::peers::program::Program;
use crate::measure::systems::System;
use crate::paper::{LEARNING, PAPER_TABLE, PrintedCell};
use crate::record::finding::Finding;
use crate::record::sorted::Sorted;
use crate::record::training::Training;
use crate::record::{
    Breakdown, Cell, Counts, Growth, Learn, Peer, PqTrees, Record, Rule, Throughput,
};
use crate::render::paper::{cortex, overall};
use crate::render::speedups::speedups;
use crate::render::table::{Column, Table};
use crate::text::{duration, percent, whole};

/// Returns a table for each part that has records.
pub fn tables(records: &[Record]) -> Vec<Table> {
    let sorted = Sorted::new(records);
    let mut tables = vec![
        throughput(&sorted.throughputs, "Throughput"),
        speedups(&sorted.throughputs),
        throughput(&sorted.latencies, "Latency"),
        breakdown(&sorted.breakdowns),
        counts(&sorted.counts),
        learn(&sorted.learns),
        training(&sorted.trainings),
        growth(&sorted.growths),
        cells(&sorted.cells),
        pq_trees(&sorted.trees),
        peers(&sorted.peers),
        findings(&sorted.findings),
        overall(&sorted),
        cortex(&sorted),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// A row for each input, with a column for each policy.
fn counts(records: &[&Counts]) -> Table {
    let mut policies: Vec<&str> = Vec::new();
    for record in records {
        if !policies.contains(&record.policy.as_str()) {
            policies.push(&record.policy);
        }
    }
    let columns = ["model", "input", "batch", "nodes"].into_iter().chain(policies.iter().copied());
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

fn throughput(records: &[&Throughput], part: &str) -> Table {
    let bf16 = System::Bf16.name();
    let rounded = match records.iter().any(|record| record.system == bf16) {
        true => "; bf16 rounds the factors of products to bf16, all other systems compute in f32",
        false => "",
    };
    let title = format!(
        "{part}: instances a second, median over laps with the slowest and the fastest lap; best: \
         the fastest run of each mini-batch; time of a mini-batch, median and 99th percentile; \
         millions of FLOPs of an instance, in the equations and executed{rounded}"
    );
    Table::of(
        &title,
        4,
        &[
            ("model", |r: &Throughput| r.case.model.clone()),
            ("input", |r| r.case.input.clone()),
            ("system", |r| r.system.clone()),
            ("backend", |r| r.case.backend.clone()),
            ("H", |r| r.case.hidden.to_string()),
            ("batch", |r| r.case.batch.to_string()),
            ("threads", |r| r.case.threads.to_string()),
            ("inst/s", |r| whole(r.instances_per_second)),
            ("slowest", |r| whole(r.instances_per_second_low)),
            ("fastest", |r| whole(r.instances_per_second_high)),
            ("rounds", |r| r.repetitions.to_string()),
            ("mini-b.", |r| r.mini_batches.to_string()),
            ("p50", |r| duration(r.latency_ns.p50)),
            ("p99", |r| duration(r.latency_ns.p99)),
            ("MFLOP", |r| format!("{:.2}", r.flops_per_instance / 1e6)),
            ("executed", |r| format!("{:.2}", r.executed_flops_per_instance / 1e6)),
            ("of peak", |r| percent(r.fraction_of_peak)),
            ("best", |r| whole(r.best_instances_per_second)),
            ("of peak", |r| percent(r.best_fraction_of_peak)),
            ("plan ns", |r| whole(r.plan_ns_per_node)),
            ("nodes", |r| whole(r.nodes)),
            ("batches", |r| format!("{:.1}", r.batches)),
            ("bound", |r| format!("{:.1}", r.bound)),
            ("peak MB", |r| format!("{:.1}", r.peak_bytes as f64 / 1e6)),
            ("live MB", |r| format!("{:.1}", r.live_bytes as f64 / 1e6)),
            ("lists MB", |r| format!("{:.1}", r.gathered_bytes / 1e6)),
        ],
        records,
    )
}

/// Rows of our system, if it was measured. Rows of all systems would be too many to read.
fn breakdown(records: &[&Breakdown]) -> Table {
    let own = System::Edbatch.name();
    let mut records = records.to_vec();
    let title = if records.iter().any(|record| record.system == own) {
        records.retain(|record| record.system == own);
        "Where the time goes; other systems are on the page and in the records"
    } else {
        "Where the time goes"
    };
    Table::of(
        title,
        4,
        &[
            ("model", |r: &Breakdown| r.case.model.clone()),
            ("input", |r| r.case.input.clone()),
            ("system", |r| r.system.clone()),
            ("backend", |r| r.case.backend.clone()),
            ("H", |r| r.case.hidden.to_string()),
            ("batch", |r| r.case.batch.to_string()),
            ("µs/instance", |r| format!("{:.1}", r.microseconds_per_instance)),
            ("construct", |r| percent(r.construct)),
            ("schedule", |r| percent(r.schedule)),
            ("plan", |r| percent(r.plan)),
            ("execute", |r| percent(r.execute)),
            ("= gather", |r| percent(r.gather)),
            ("+ product", |r| percent(r.product)),
            ("+ element-wise", |r| percent(r.elementwise)),
            ("+ rest", |r| percent(r.execute - r.gather - r.product - r.elementwise)),
            ("other", |r| percent(r.other)),
        ],
        &records,
    )
}

fn learn(records: &[&Learn]) -> Table {
    fn printed(record: &Learn, text: fn(&(&str, f64, usize)) -> String) -> String {
        let row = LEARNING.iter().find(|(model, ..)| *model == record.model);
        row.filter(|_| record.encoding == "sort").map_or("-".into(), text)
    }
    Table::of(
        "Learning a policy; batches of mini-batches used neither for learning nor for selection; \
         printed: the paper's, of another machine",
        3,
        &[
            ("model", |r: &Learn| r.model.clone()),
            ("input", |r| r.input.clone()),
            ("encoding", |r| r.encoding.clone()),
            ("batch", |r| r.batch.to_string()),
            ("episodes", |r| r.episodes.to_string()),
            ("printed", |r| printed(r, |row| row.2.to_string())),
            ("ms", |r| format!("{:.1}", r.seconds * 1e3)),
            ("printed", |r| printed(r, |row| whole(row.1 * 1e3))),
            ("states", |r| r.states.to_string()),
            ("critical", |r| r.before.to_string()),
            ("learned", |r| r.after.to_string()),
            ("bound", |r| r.bound.to_string()),
        ],
        records,
    )
}

fn cells(records: &[&Cell]) -> Table {
    fn printed(cell: &Cell, text: fn(&PrintedCell) -> String) -> String {
        let row = PAPER_TABLE.iter().find(|printed| printed.0 == cell.cell);
        row.map_or(String::new(), text)
    }
    fn kernels(rule: &Rule) -> String {
        format!("{} → {}", rule.declared.memory_kernels, rule.planned.memory_kernels)
    }
    fn kilobytes(rule: &Rule) -> String {
        let [declared, planned] =
            [&rule.declared, &rule.planned].map(|copies| copies.bytes as f64 / 1024.0);
        format!("{declared:.1} → {planned:.1}")
    }
    Table::of(
        "Memory kernels of a cell and the kB they write, declared → planned: as printed in the \
         paper (size 64, 8 calls), by the paper's rule, and by our plans; time of a batch, \
         declared → planned by us",
        1,
        &[
            ("cell", |r: &Cell| r.cell.clone()),
            ("H", |r| r.hidden.to_string()),
            ("calls", |r| r.calls.to_string()),
            ("batches", |r| r.batches.to_string()),
            ("printed", |r| printed(r, |row| format!("{} → {}", row.1[0], row.2[0]))),
            ("kB", |r| printed(r, |row| format!("{} → {}", row.1[1], row.2[1]))),
            ("paper's rule", |r| kernels(&r.paper_rule)),
            ("kB", |r| kilobytes(&r.paper_rule)),
            ("ours", |r| kernels(&r.own_rule)),
            ("kB", |r| kilobytes(&r.own_rule)),
            ("µs", |r| format!("{:.1} → {:.1}", r.microseconds.declared, r.microseconds.planned)),
            ("compile µs", |r| whole(r.compile_microseconds)),
            ("printed", |r| printed(r, |row| whole(row.3 * 1e3))),
        ],
        records,
    )
}

fn pq_trees(records: &[&PqTrees]) -> Table {
    Table::of(
        "PQ-trees: making a tree and all its reductions, in ns for each element of the sets",
        1,
        &[
            ("family", |r: &PqTrees| r.family.clone()),
            ("leaves", |r| r.leaves.to_string()),
            ("sets", |r| r.sets.to_string()),
            ("accepted", |r| r.accepted.to_string()),
            ("elements", |r| r.elements.to_string()),
            ("ns/element", |r| format!("{:.1}", r.ns_per_element)),
            ("lower quartile", |r| format!("{:.1}", r.ns_per_element_low)),
            ("upper quartile", |r| format!("{:.1}", r.ns_per_element_high)),
            ("tree MB", |r| format!("{:.1}", r.bytes as f64 / 1e6)),
        ],
        records,
    )
}

fn growth(records: &[&Growth]) -> Table {
    fn optional(time: Option<f64>) -> String {
        time.map_or("-".into(), |time| format!("{time:.1}"))
    }
    Table::of(
        "Growing graphs: ns a node in the fastest repetition; `engine` is ours and runs a large \
         mini-batch in parts",
        3,
        &[
            ("model", |r: &Growth| r.model.clone()),
            ("input", |r| r.input.clone()),
            ("policy", |r| r.policy.clone()),
            ("nodes", |r| whole(r.nodes as f64)),
            ("batches", |r| whole(r.batches as f64)),
            ("construct", |r| optional(r.construct_ns_per_node)),
            ("schedule", |r| format!("{:.1}", r.schedule_ns_per_node)),
            ("plan", |r| optional(r.plan_ns_per_node)),
            ("repetitions", |r| r.repetitions.to_string()),
        ],
        records,
    )
}

/// Speed of training, shares of the parts of a step, and other speeds in the same passes.
pub(super) const TRAINING: [Column<Training>; 17] = [
    ("model", |r| r.case.model.clone()),
    ("set", |r| r.case.input.clone()),
    ("H", |r| r.case.hidden.to_string()),
    ("batch", |r| r.case.batch.to_string()),
    ("threads", |r| r.case.threads.to_string()),
    ("inst/s", |r| whole(r.instances_per_second)),
    ("of peak", |r| percent(r.fraction_of_peak)),
    ("decide", |r| percent(r.decide)),
    ("forward", |r| percent(r.forward)),
    ("back", |r| percent(r.back)),
    ("sums", |r| percent(r.sums)),
    ("update", |r| percent(r.update)),
    ("Adam", |r| format!("{:.3}", r.adam)),
    ("engine", |r| whole(r.forward_instances_per_second)),
    ("PyTorch", |r| speed_of(r, Program::PyTorch)),
    ("DyNet", |r| speed_of(r, Program::DyNet)),
    ("ours / best", |r| {
        let speeds = r.peers.iter().map(|theirs| theirs.instances_per_second);
        let best = speeds.reduce(f64::max);
        best.map_or("-".into(), |best| format!("{:.1}", r.instances_per_second / best))
    }),
];

/// The speed of another program, if it was measured.
fn speed_of(record: &Training, program: Program) -> String {
    let theirs = record.peers.iter().find(|peer| peer.program == program.name());
    theirs.map_or("-".into(), |theirs| whole(theirs.instances_per_second))
}

fn training(records: &[&Training]) -> Table {
    let memory: [Column<Training>; 4] = [
        ("arena MB", |r| format!("{:.1}", r.arena_bytes as f64 / 1e6)),
        ("engine's", |r| format!("{:.1}", r.forward_arena_bytes as f64 / 1e6)),
        ("weights MB", |r| format!("{:.1}", r.weight_bytes as f64 / 1e6)),
        ("Adam's", |r| format!("{:.1}", r.adam_weight_bytes as f64 / 1e6)),
    ];
    Table::of(
        "Training on whole sets: instances a second with an update by SGD, shares of the time, the \
         time of Adam over that of SGD, an engine forward, and other programs; of peak: three \
         times the FLOPs of the equations",
        2,
        &[&TRAINING[..], &memory].concat(),
        records,
    )
}

fn peers(records: &[&Peer]) -> Table {
    Table::of(
        "Other programs: instances a second with their best mini-batch, with the preparation in \
         Python as `prepared`, and ours with its best in the same rounds",
        4,
        &[
            ("model", |r: &Peer| r.case.model.clone()),
            ("input", |r| r.case.input.clone()),
            ("system", |r| r.system.clone()),
            ("version", |r| r.version.clone()),
            ("H", |r| r.case.hidden.to_string()),
            ("batch", |r| r.case.batch.to_string()),
            ("threads", |r| r.case.threads.to_string()),
            ("inst/s", |r| whole(r.instances_per_second)),
            ("±", |r| percent(r.spread)),
            ("prepared", |r| whole(r.prepared_instances_per_second)),
            ("ours", |r| whole(r.edbatch_instances_per_second)),
            ("batch", |r| r.edbatch_batch.to_string()),
            ("±", |r| percent(r.edbatch_spread)),
            ("ratio", |r| {
                format!("{:.2}", r.edbatch_instances_per_second / r.instances_per_second)
            }),
            ("rounds", |r| r.repetitions.to_string()),
            ("mini-b.", |r| r.mini_batches.to_string()),
            ("difference", |r| format!("{:.0e}", r.difference)),
        ],
        records,
    )
}

fn findings(records: &[&Finding]) -> Table {
    Table::of(
        "CUDA device: checks and figures",
        3,
        &[
            ("part", |r: &Finding| r.part.clone()),
            ("what", |r| r.what.clone()),
            ("outcome", |r| match (&r.figure, &*r.note) {
                (Some(figure), "") => figure.to_string(),
                (Some(figure), note) => format!("{figure}; {note}"),
                (None, "") => r.outcome.name().into(),
                (None, note) => format!("{}: {note}", r.outcome.name()),
            }),
            ("samples", |r| {
                r.figure.as_ref().map_or(String::new(), |figure| figure.samples.to_string())
            }),
        ],
        records,
    )
}
