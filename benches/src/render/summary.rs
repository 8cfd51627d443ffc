//! Text for the terminal: a line for each measurement, and a final summary that fits a screen.

use crate::measure::rounds::LAPS;
use crate::measure::systems::System;
use crate::record::finding::Outcome;
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Figures, OnDevice, Record, Throughput};
use crate::render::headline::{Row, main_rows, rows, sentences, speeds};
use crate::text::{duration, percent, range, whole, wrapped};

/// Maximum rows of the table.
const MAX_ROWS: usize = 16;
/// Maximum characters of a line.
const WIDTH: usize = 100;

/// Describes the outcome of a step in one line, or in a line for each finding.
pub fn outcome(figures: &[Figures]) -> String {
    let sorted = Sorted::of(figures);
    let mut parts = Vec::new();
    let rows = rows(&sorted);
    for Row { ours, others } in &rows {
        let ratios =
            others.iter().map(|(rival, speed)| format!("{:.1} × {}", 1.0 / speed, rival.name()));
        let ratios: Vec<String> = ratios.collect();
        let Throughput { instances_per_second, spread, fraction_of_peak, mini_batches, .. } = ours;
        parts.push(format!(
            "{}/s ± {}, {} of peak, {} on {mini_batches} mini-batches{}",
            whole(*instances_per_second),
            percent(*spread),
            percent(*fraction_of_peak),
            if ratios.is_empty() { "no rival".into() } else { ratios.join(", ") },
            ours.on_device.as_ref().map_or("".into(), OnDevice::to_string),
        ));
    }
    if rows.is_empty() {
        let name = |record: &&&Throughput| record.system == System::Edbatch.name();
        let measured = sorted.throughputs.iter().chain(&sorted.latencies);
        let shown = measured.clone().find(name).or(measured.clone().next());
        parts.extend(shown.map(|record| {
            let p50 = duration(record.latency_ns.p50);
            let p99 = duration(record.latency_ns.p99);
            let on_device = record.on_device.as_ref().map_or("".into(), OnDevice::to_string);
            format!("{}: {p50} a mini-batch, 99 % within {p99}{on_device}", record.system)
        }));
    }
    if let (true, Some(first)) = (parts.is_empty(), sorted.breakdowns.last()) {
        let (time, product) = (first.microseconds_per_instance * 1e3, percent(first.product));
        parts.push(format!("{}: {} an instance, {product} products", first.system, duration(time)));
    }
    parts.extend([counts, growth].into_iter().filter_map(|part| part(&sorted)));
    parts.extend(times(&sorted));
    for peer in &sorted.peers {
        let ratio = peer.edbatch_instances_per_second / peer.instances_per_second;
        let speed = whole(peer.instances_per_second);
        let (size, prepared) = (peer.case.batch, whole(peer.prepared_instances_per_second));
        parts.push(format!(
            "{} {speed}/s with {size}, {prepared}/s with preparation, ours {ratio:.1} × with {}",
            peer.system, peer.edbatch_batch
        ));
    }
    parts.extend(sorted.soaks.iter().map(ToString::to_string));
    parts.extend(sorted.findings.iter().map(|finding| format!("\n      {finding}")));
    parts.join("; ")
}

/// Summarizes a run in at most 38 lines. Two more lines name the records and the page.
pub fn summary(records: &[Record]) -> String {
    let sorted = Sorted::new(records);
    let main = main_rows(&rows(&sorted));
    let mut result: Vec<String> =
        records.last().map(|record| record.machine.to_string()).into_iter().collect();
    for sentence in sentences(&main, &sorted) {
        result.extend(wrapped(&sentence, WIDTH));
    }
    let title = format!(
        "Instances a second of edbatch: the median of up to {LAPS} laps ± the farthest; and its \
         speed relative to others"
    );
    let table = match main.is_empty() {
        true => String::new(),
        false => speeds(&title, &main[..main.len().min(MAX_ROWS)]).to_string(),
    };
    let parts = [latency(&sorted), counts(&sorted), growth(&sorted)].into_iter().flatten();
    let others = [soaks(&sorted), findings(&sorted)].into_iter().flatten();
    let parts: Vec<String> = parts.chain(times(&sorted)).chain(others).collect();
    let blocks = [result.join("\n"), table.trim_end().into(), parts.join("\n")];
    let blocks: Vec<String> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
    blocks.join("\n\n")
}

fn latency(sorted: &Sorted<'_>) -> Option<String> {
    let own: Vec<&&Throughput> = sorted
        .latencies
        .iter()
        .filter(|r| r.system == System::Edbatch.name() && on_cpu(r))
        .collect();
    let mut sizes: Vec<usize> = own.iter().map(|record| record.case.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let size = |size: &usize| {
        let of_size = || own.iter().filter(|record| record.case.batch == *size);
        let p50: Vec<f64> = of_size().map(|record| record.latency_ns.p50).collect();
        let p99: Vec<f64> = of_size().map(|record| record.latency_ns.p99).collect();
        format!("{size}: {} (99 %: {})", range(&p50, duration), range(&p99, duration))
    };
    let sizes: Vec<String> = sizes.iter().map(size).collect();
    (!sizes.is_empty()).then(|| format!("Latency of mini-batches of {}", sizes.join("; of ")))
}

fn counts(sorted: &Sorted<'_>) -> Option<String> {
    let mut ratios: Vec<(&str, Vec<f64>)> =
        ["depth", "agenda", "fsm-sort", "critical"].map(|policy| (policy, Vec::new())).into();
    for record in &sorted.counts {
        if let Some((_, known)) = ratios.iter_mut().find(|(policy, _)| *policy == record.policy) {
            known.push(record.batches / record.bound.max(1.0));
        }
    }
    ratios.retain(|(_, ratios)| !ratios.is_empty());
    let part = |(policy, ratios): &(&str, Vec<f64>)| {
        format!("{policy} {}", range(ratios, |ratio| format!("{ratio:.2}")))
    };
    let parts: Vec<String> = ratios.iter().map(part).collect();
    (!parts.is_empty()).then(|| format!("Batches over the bound: {}", parts.join("; ")))
}

fn growth(sorted: &Sorted<'_>) -> Option<String> {
    let own: Vec<_> =
        sorted.growths.iter().copied().filter(|record| record.policy == "engine").collect();
    let of_model = groups(&own, |record| record.model.clone()).map(|group| {
        let time = |record: &&crate::record::Growth| {
            let construct = record.construct_ns_per_node.unwrap_or(0.0);
            construct + record.schedule_ns_per_node + record.plan_ns_per_node.unwrap_or(0.0)
        };
        let times: Vec<f64> = group.iter().map(time).collect();
        format!("{} {}", group[0].model, range(&times, duration))
    });
    let parts: Vec<String> = of_model.collect();
    let most = own.iter().map(|record| record.nodes).max()?;
    let most = whole(most as f64);
    Some(format!("Deciding, a node, up to {most} nodes: {}", parts.join("; ")))
}

/// Describes the times of learning, of compiling cells and of PQ-trees.
fn times(sorted: &Sorted<'_>) -> Vec<String> {
    let learning = sorted.learns.iter().map(|learn| learn.seconds * 1e9).collect();
    let cells = sorted.cells.iter().map(|cell| cell.compile_microseconds * 1e3).collect();
    let trees = sorted.trees.iter().map(|tree| tree.ns_per_element).collect();
    let parts: [(&str, Vec<f64>); 3] = [
        ("Learning a policy", learning),
        ("Compiling a cell", cells),
        ("PQ-trees, an element", trees),
    ];
    let measured = parts.into_iter().filter(|(_, times)| !times.is_empty());
    measured.map(|(part, times)| format!("{part}: {}", range(&times, duration))).collect()
}

fn soaks(sorted: &Sorted<'_>) -> Option<String> {
    sorted.soaks.last().map(|soak| format!("Soak: {soak}"))
}

fn findings(sorted: &Sorted<'_>) -> Option<String> {
    let count = |outcome| {
        let found = sorted.findings.iter().filter(|finding| finding.outcome == outcome).count();
        format!("{found} {}", outcome.name())
    };
    let outcomes =
        [Outcome::Measured, Outcome::Passed, Outcome::Failed, Outcome::Skipped, Outcome::Stopped];
    (!sorted.findings.is_empty()).then(|| format!("Device: {}", outcomes.map(count).join(", ")))
}
