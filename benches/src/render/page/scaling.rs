//! Sections of PQ-trees, small mini-batches, memory and growing graphs.

use super::inside::decimal;
use super::section::Section;
use crate::measure::systems::System;
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Case, Growth, PqTrees, Throughput};
use crate::render::chart::{Axis, Dot, Dots, Lane, Line, Lines};
use crate::render::palette::{CELLS, Colour, OURS, PAPER, PARTS, PLAIN, of_policy, of_system};
use crate::text::{duration, range, set, whole};

pub(super) fn pq_trees(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.trees.is_empty() {
        return None;
    }
    let lane = |tree: &&PqTrees| Lane {
        name: format!("{}, {}", tree.family, short(tree.leaves as f64)),
        note: duration(tree.ns_per_element),
        dots: vec![Dot::new(tree.ns_per_element, OURS)],
    };
    let axis = Axis::log("ns an element", decimal);
    let label = "Time per element of the sets by which PQ-trees are reduced".into();
    let rows = sorted.trees.iter().map(lane).collect();
    let plot = Dots { label, axis, limit: None, rows };
    let plots = vec![("Families, and leaves of the tree".into(), plot.svg())];
    let times: Vec<f64> = sorted.trees.iter().map(|tree| tree.ns_per_element).collect();
    Some(Section {
        id: "pqtrees",
        title: "How fast are PQ-trees?",
        answer: format!(
            "Making a tree and all its reductions take {} for each element of the sets.",
            range(&times, duration),
        ),
        plots,
        method: "Medians over repetitions on seeded families: sets of fixed, growing and random \
                 size, trees that reject sets, and trees without reductions.",
        bias: "The families are our own. Trees of a million leaves are measured if the part is \
               named.",
        command: "cargo xtask bench --only pqtree",
        ..Section::default()
    })
}

pub(super) fn latency(sorted: &Sorted<'_>) -> Option<Section> {
    let mut sizes: Vec<usize> = sorted.latencies.iter().map(|record| record.case.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let own = System::Edbatch.name();
    let mut plots = Vec::new();
    for &batch in &sizes {
        let of_size: Vec<&Throughput> =
            sorted.latencies.iter().copied().filter(|record| record.case.batch == batch).collect();
        let rows = groups(&of_size, |r| r.case.workload()).map(|group| {
            let ours = group.iter().find(|record| record.system == own && on_cpu(record));
            let note = ours.map_or(String::new(), |record| {
                let latency = record.latency_ns;
                format!("{} – {}", duration(latency.p50), duration(latency.p99))
            });
            let dot = |record: &&Throughput| Dot {
                at: record.latency_ns.p50,
                to: Some(record.latency_ns.p99),
                colour: of_system(&record.system),
            };
            let Case { model, input, hidden, .. } = &group[0].case;
            let name = format!("{model} · {}, H {hidden}", set(input));
            Lane { name, note, dots: group.iter().map(dot).collect() }
        });
        let caption = format!("Mini-batches of {batch}");
        let axis = Axis::log("time of a mini-batch", duration);
        let label = format!("Latency, median and 99th percentile: {caption}");
        let plot = Dots { label, axis, limit: None, rows: rows.collect() };
        plots.push((caption, plot.svg()));
    }
    if plots.is_empty() {
        return None;
    }
    let ours = sorted.latencies.iter().filter(|r| r.system == own && r.case.batch == sizes[0]);
    let p50: Vec<f64> = ours.map(|record| record.latency_ns.p50).collect();
    Some(Section {
        id: "latency",
        title: "How long does a small mini-batch take?",
        answer: match p50.is_empty() {
            true => "Dots are medians; bars end at the 99th percentile.".into(),
            false => format!(
                "The median time of a mini-batch of {} is {}, by workload. Dots are medians; bars \
                 end at the 99th percentile. Inputs differ in size, and machines are busy.",
                sizes[0],
                range(&p50, duration),
            ),
        },
        key: vec![("cells-agenda", CELLS), ("paper", PAPER), ("edbatch", OURS)],
        plots,
        method: "Like throughput; every run of every mini-batch counts. With fewer than a hundred \
                 runs the bar ends at the maximum.",
        bias: "The 99th percentile includes interruptions by other work of the machine.",
        command: "cargo xtask bench --only latency",
        ..Section::default()
    })
}

pub(super) fn memory(sorted: &Sorted<'_>) -> Option<Section> {
    let own = System::Edbatch.name();
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    let key = |r: &Throughput| (r.case.workload(), r.case.batch);
    for group in groups(&sorted.throughputs, key) {
        let Some(ours) = group.iter().find(|record| record.system == own && on_cpu(record)) else {
            continue;
        };
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let others = group.iter().filter(|record| record.system != own && on_cpu(record));
        let dot = Dot::new;
        let others = others.map(|r| dot(megabytes(r.peak_bytes), of_system(&r.system)));
        let ratio = ours.peak_bytes as f64 / ours.live_bytes.max(1) as f64;
        ratios.push(ratio);
        let own = [dot(megabytes(ours.live_bytes), MINIMUM), dot(megabytes(ours.peak_bytes), OURS)];
        rows.push(Lane {
            name: format!(
                "{} · {} · H {}",
                ours.case.model,
                set(&ours.case.input),
                ours.case.hidden
            ),
            note: format!(
                "{} MB, {ratio:.2} ×",
                decimal((megabytes(ours.peak_bytes) * 10.0).round() / 10.0)
            ),
            dots: others.chain(own).collect(),
        });
    }
    if rows.is_empty() {
        return None;
    }
    let mut plots = Vec::new();
    for rows in rows.chunks(12) {
        let axis = Axis::log("MB", decimal);
        let label = "Peak memory, and the minimum that must be held".into();
        let plot = Dots { label, axis, limit: None, rows: rows.to_vec() };
        plots.push(("Arenas and packed weights".into(), plot.svg()));
    }
    Some(Section {
        id: "memory",
        title: "How much memory?",
        answer: format!(
            "Our arenas and weights take {} the minimum: weights, and values still to be read or \
             returned at the worst point of the schedule.",
            range(&ratios, |ratio| format!("{ratio:.2} ×")),
        ),
        key: vec![("minimum", MINIMUM), ("edbatch", OURS), ("others in their colours", PLAIN)],
        plots,
        method: "Counted, not measured: the largest arena of any mini-batch, and the packed \
                 weights.",
        bias: "Neither figure is the resident memory of the process; inputs and results belong to \
               the caller. The minimum refers to our schedule; another schedule may need less.",
        command: "cargo xtask bench --only throughput",
        ..Section::default()
    })
}

/// Colour of the minimum.
const MINIMUM: Colour = PARTS[4].1;

pub(super) fn growth(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.growths.is_empty() {
        return None;
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
                label: format!("ns a node by size of the graph: {caption}"),
                across: Axis::log("nodes", short),
                up: Axis::log("ns a node", decimal),
                lines: lines.into(),
            };
            plots.push((caption, plot.svg()));
        }
    }
    let most = sorted.growths.iter().map(|record| record.nodes).max().unwrap_or(0);
    let times: Vec<f64> = sorted.growths.iter().map(|record| record.schedule_ns_per_node).collect();
    Some(Section {
        id: "growth",
        title: "How do costs grow with the graph?",
        answer: format!(
            "Scheduling takes {} a node in graphs of up to {} nodes, depending on policy and \
             model.",
            range(&times, duration),
            whole(most as f64),
        ),
        plots,
        method: "Mini-batches of growing size, with vectors of 8 elements. Policies schedule the \
                 whole graph; the engine runs it in parts, like any large mini-batch. The fastest \
                 repetition counts.",
        bias: "The fastest repetition shows how costs grow, without the effect of a busy machine.",
        command: "cargo xtask bench --only growth",
        ..Section::default()
    })
}

/// Formats a large figure: `10k`, `1M`.
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
