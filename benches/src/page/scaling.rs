//! What sizes do: PQ-trees, small mini-batches, memory, growing graphs.

use super::inside::decimal;
use super::section::Section;
use crate::chart::{Axis, Dot, Dots, Lane, Line, Lines, Spacing};
use crate::palette::{CELLS, Colour, OURS, PAPER, PARTS, PLAIN, of_policy, of_system};
use crate::record::{Growth, PqTrees, Throughput};
use crate::sorted::{Sorted, groups};
use crate::systems::System;
use crate::text::{duration, range, set, whole};
use crate::workload::Failure;

pub(super) fn pq_trees(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    if sorted.trees.is_empty() {
        return Ok(None);
    }
    let lane = |tree: &&PqTrees| Lane {
        name: format!("{}, {}", tree.family, short(tree.leaves as f64)),
        note: duration(tree.ns_per_element),
        dots: vec![Dot { at: tree.ns_per_element, to: None, colour: OURS }],
    };
    let axis = Axis { label: "ns an element", spacing: Spacing::Log, format: decimal };
    let says = "Time per element of the sets by which PQ-trees are reduced".into();
    let rows = sorted.trees.iter().map(lane).collect();
    let plot = Dots { says, axis, limit: None, rows };
    let plots = vec![("Families, and leaves of the tree".into(), plot.svg()?)];
    let times: Vec<f64> = sorted.trees.iter().map(|tree| tree.ns_per_element).collect();
    Ok(Some(Section {
        id: "pqtrees",
        title: "How fast are PQ-trees?",
        answer: format!(
            "A tree and all its reductions take {} per element of the sets.",
            range(&times, duration),
        ),
        key: Vec::new(),
        plots,
        more: Vec::new(),
        method: "Medians over repetitions on seeded families: sets of fixed, growing and random \
                 size, trees that refuse, trees that are only made.",
        bias: "Families are ours; those of a million leaves run if the part is named.",
        command: "cargo xtask bench --only pqtree",
    }))
}

pub(super) fn latency(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let mut sizes: Vec<usize> = sorted.latencies.iter().map(|record| record.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let own = System::Edbatch.name();
    let mut plots = Vec::new();
    for &batch in &sizes {
        let of_size: Vec<&Throughput> =
            sorted.latencies.iter().copied().filter(|record| record.batch == batch).collect();
        let rows =
            groups(&of_size, |r| (r.model.clone(), r.input.clone(), r.hidden)).map(|group| {
                let ours = group.iter().find(|record| record.system == own);
                let note = ours.map_or(String::new(), |record| {
                    let latency = record.latency_ns;
                    format!("{} – {}", duration(latency.p50), duration(latency.p99))
                });
                let dot = |record: &&Throughput| Dot {
                    at: record.latency_ns.p50,
                    to: Some(record.latency_ns.p99),
                    colour: of_system(&record.system),
                };
                let Throughput { model, input, hidden, .. } = group[0];
                let name = format!("{model} · {}, H {hidden}", set(input));
                Lane { name, note, dots: group.iter().map(dot).collect() }
            });
        let caption = format!("Mini-batches of {batch}");
        let axis = Axis { label: "time of a mini-batch", spacing: Spacing::Log, format: duration };
        let says = format!("Latency at the median and of 99 in a hundred: {caption}");
        let plot = Dots { says, axis, limit: None, rows: rows.collect() };
        plots.push((caption, plot.svg()?));
    }
    if plots.is_empty() {
        return Ok(None);
    }
    let ours = sorted.latencies.iter().filter(|r| r.system == own && r.batch == sizes[0]);
    let p50: Vec<f64> = ours.map(|record| record.latency_ns.p50).collect();
    Ok(Some(Section {
        id: "latency",
        title: "How long does a small mini-batch take?",
        answer: match p50.is_empty() {
            true => "Dots are medians; bars end where 99 in a hundred are done.".into(),
            false => format!(
                "A mini-batch of {} takes {} at the median, by workload. Dots are medians; bars \
                 end where 99 in a hundred are done: inputs differ in size, and machines are busy.",
                sizes[0],
                range(&p50, duration),
            ),
        },
        key: vec![("cells-agenda", CELLS), ("paper", PAPER), ("edbatch", OURS)],
        plots,
        more: Vec::new(),
        method: "As throughput; every run of every mini-batch of every round counts. With fewer \
                 than a hundred runs the bar ends at the longest.",
        bias: "The machine is shared: the 99th percentile has its interruptions in it.",
        command: "cargo xtask bench --only latency",
    }))
}

pub(super) fn memory(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let own = System::Edbatch.name();
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    let key = |r: &Throughput| (r.model.clone(), r.input.clone(), r.hidden, r.batch);
    for group in groups(&sorted.throughputs, key) {
        let Some(ours) = group.iter().find(|record| record.system == own) else { continue };
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let others = group.iter().filter(|record| record.system != own);
        let dot = |at, colour| Dot { at, to: None, colour };
        let others = others.map(|r| dot(megabytes(r.peak_bytes), of_system(&r.system)));
        let ratio = ours.peak_bytes as f64 / ours.live_bytes.max(1) as f64;
        ratios.push(ratio);
        let own = [dot(megabytes(ours.live_bytes), LEAST), dot(megabytes(ours.peak_bytes), OURS)];
        rows.push(Lane {
            name: format!("{} · {} · H {}", ours.model, set(&ours.input), ours.hidden),
            note: format!(
                "{} MB, {ratio:.2} ×",
                decimal((megabytes(ours.peak_bytes) * 10.0).round() / 10.0)
            ),
            dots: others.chain(own).collect(),
        });
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let mut plots = Vec::new();
    for rows in rows.chunks(12) {
        let axis = Axis { label: "MB", spacing: Spacing::Log, format: decimal };
        let says = "Memory held at most, beside the least that must be held".into();
        let plot = Dots { says, axis, limit: None, rows: rows.to_vec() };
        plots.push(("Arenas and packed weights".into(), plot.svg()?));
    }
    Ok(Some(Section {
        id: "memory",
        title: "How much memory?",
        answer: format!(
            "Arenas and weights of ours take {} what must be held: weights, and values that are \
             still to be read or returned at the worst point of the schedule.",
            range(&ratios, |ratio| format!("{ratio:.2} ×")),
        ),
        key: vec![("must be held", LEAST), ("edbatch", OURS), ("others in their colours", PLAIN)],
        plots,
        more: Vec::new(),
        method: "Counted, not measured: the largest arena that any mini-batch took, and the \
                 weights as the backend holds them.",
        bias: "Neither is the process's resident memory: inputs and results are the caller's. \
               What must be held is our schedule's; another's may need less.",
        command: "cargo xtask bench --only throughput",
    }))
}

/// The least that must be held.
const LEAST: Colour = PARTS[4].1;

pub(super) fn growth(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    if sorted.growths.is_empty() {
        return Ok(None);
    }
    let mut plots = Vec::new();
    for group in groups(&sorted.growths, |r| (r.model.clone(), r.input.clone())) {
        let line = |name: &str, policy: &str, colour, of: fn(&Growth) -> Option<f64>| Line {
            name: name.into(),
            points: group
                .iter()
                .filter(|record| record.policy == policy)
                .filter_map(|record| Some((record.nodes as f64, of(record)?)))
                .collect(),
            colour,
        };
        let schedule = |record: &Growth| Some(record.schedule_ns_per_node);
        let engine = [
            line("construct", "engine", PARTS[0].1, |r| r.construct_ns_per_node),
            line("schedule", "engine", OURS, schedule),
            line("plan", "engine", PARTS[4].1, |r| r.plan_ns_per_node),
        ];
        let policies = ["depth", "agenda", "critical"]
            .map(|policy| line(policy, policy, of_policy(policy), schedule));
        let name = format!("{} on {}", group[0].model, set(&group[0].input));
        for (what, lines) in [("engine", engine), ("scheduling the whole graph", policies)] {
            let caption = format!("{name}: {what}");
            let plot = Lines {
                says: format!("ns a node by size of the graph: {caption}"),
                across: Axis { label: "nodes", spacing: Spacing::Log, format: short },
                up: Axis { label: "ns a node", spacing: Spacing::Log, format: decimal },
                lines: lines.into(),
            };
            plots.push((caption, plot.svg()?));
        }
    }
    let most = sorted.growths.iter().map(|record| record.nodes).max().unwrap_or(0);
    let times: Vec<f64> = sorted.growths.iter().map(|record| record.schedule_ns_per_node).collect();
    Ok(Some(Section {
        id: "growth",
        title: "What if graphs grow?",
        answer: format!(
            "Scheduling takes {} a node in graphs of up to {} nodes, policy and model as drawn.",
            range(&times, duration),
            whole(most as f64),
        ),
        key: Vec::new(),
        plots,
        more: Vec::new(),
        method: "Mini-batches of ever more instances, vectors of 8. Policies schedule the graph \
                 as a whole; the engine runs it in the parts in which it runs any large \
                 mini-batch. The fastest of the repetitions.",
        bias: "The fastest, not the median: this asks how costs grow, not what a busy machine \
               adds.",
        command: "cargo xtask bench --only growth",
    }))
}

/// A power of ten in short: `10k`, `1M`.
fn short(figure: f64) -> String {
    match figure {
        1e6.. => format!("{}M", decimal(figure / 1e6)),
        1e3.. => format!("{}k", decimal(figure / 1e3)),
        _ => decimal(figure),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn ticks_are_short() {
        assert_eq!([1.0, 1e3, 5e4, 1e6].map(short), ["1", "1k", "50k", "1M"]);
    }
}
