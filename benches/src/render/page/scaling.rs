//! Page sections: small mini-batches, and growing graphs.

use super::inside::decimal;
use super::section::Section;
use crate::measure::systems::System;
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Case, Growth, Throughput};
use crate::render::chart::{Axis, Dot, Dots, Lane, Line, Lines};
use crate::render::palette::{CELLS, OURS, PAPER, PARTS, of_policy, of_system};
use crate::text::{duration, range, set, whole};

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
