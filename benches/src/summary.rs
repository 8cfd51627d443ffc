//! What the terminal shows: a line as a measurement ends, and at the end what a screen holds.

use crate::headline::{Rival, Row, main_rows, rows, sentences};
use crate::record::{Figures, Record, Throughput};
use crate::rounds::LAPS;
use crate::sorted::{Sorted, groups, on_cpu};
use crate::systems::System;
use crate::table::Table;
use crate::text::{duration, percent, range, set, whole, wrapped};

/// The most rows of a summary's table.
const ROWS: usize = 18;
/// Characters of a line.
const WIDTH: usize = 100;

/// What a step showed, in a line.
#[must_use]
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
            "{}/s ± {}, {} of peak, {} on {mini_batches} mini-batches",
            whole(*instances_per_second),
            percent(*spread),
            percent(*fraction_of_peak),
            if ratios.is_empty() { "alone".into() } else { ratios.join(", ") },
        ));
    }
    if rows.is_empty() {
        let name = |record: &&&Throughput| record.system == System::Edbatch.name();
        let measured = sorted.throughputs.iter().chain(&sorted.latencies);
        let shown = measured.clone().find(name).or(measured.clone().next());
        parts.extend(shown.map(|record| {
            let p50 = duration(record.latency_ns.p50);
            format!(
                "{}: {p50} a mini-batch, 99 % below {}",
                record.system,
                duration(record.latency_ns.p99)
            )
        }));
    }
    if let (true, Some(first)) = (parts.is_empty(), sorted.breakdowns.last()) {
        let (time, product) = (first.microseconds_per_instance * 1e3, percent(first.product));
        parts.push(format!("{}: {} an instance, {product} products", first.system, duration(time)));
    }
    if let Some(first) = sorted.counts.first() {
        let best = sorted.counts.iter().min_by(|a, b| a.batches.total_cmp(&b.batches));
        let best = best.expect("there is a first");
        let (policy, batches) = (&best.policy, best.batches);
        parts.push(format!("{policy} {batches:.1} batches, bound {:.1}", first.bound));
    }
    if !sorted.learns.is_empty() {
        let times: Vec<f64> = sorted.learns.iter().map(|learn| learn.seconds * 1e9).collect();
        parts.push(format!("{} a policy", range(&times, duration)));
    }
    if !sorted.growths.is_empty() {
        let times: Vec<f64> = sorted.growths.iter().map(|r| r.schedule_ns_per_node).collect();
        parts.push(format!("scheduling {} a node", range(&times, duration)));
    }
    if !sorted.cells.is_empty() {
        let times: Vec<f64> = sorted.cells.iter().map(|r| r.compile_microseconds * 1e3).collect();
        parts.push(format!(
            "{} cells, compiled in {}",
            sorted.cells.len(),
            range(&times, duration)
        ));
    }
    if !sorted.trees.is_empty() {
        let times: Vec<f64> = sorted.trees.iter().map(|tree| tree.ns_per_element).collect();
        parts.push(format!("{} an element", range(&times, duration)));
    }
    for peer in &sorted.peers {
        let ratio = peer.edbatch_instances_per_second / peer.instances_per_second;
        parts.push(format!(
            "{} {}/s, ours {ratio:.1} ×",
            peer.system,
            whole(peer.instances_per_second)
        ));
    }
    parts.extend(sorted.soaks.iter().map(ToString::to_string));
    parts.join("; ")
}

/// The end of a run, in at most 38 lines: two more say where records and page lie.
#[must_use]
pub fn summary(records: &[Record]) -> String {
    let sorted = Sorted::new(records);
    let main = main_rows(&rows(&sorted));
    let mut result: Vec<String> =
        records.last().map(|record| record.machine.to_string()).into_iter().collect();
    for sentence in sentences(&main, &sorted) {
        result.extend(wrapped(&sentence, WIDTH));
    }
    let table = if main.is_empty() { String::new() } else { table(&main).to_string() };
    let parts = [latency(&sorted), counts(&sorted), learning(&sorted), growth(&sorted)];
    let parts = parts.into_iter().chain([cells(&sorted), trees(&sorted), soaks(&sorted)]).flatten();
    let parts: Vec<String> = parts.collect();
    let blocks = [result.join("\n"), table.trim_end().into(), parts.join("\n")];
    let blocks: Vec<String> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
    blocks.join("\n\n")
}

fn table(rows: &[Row<'_>]) -> Table {
    let rivals: Vec<Rival> = Rival::ALL
        .into_iter()
        .filter(|&rival| rows.iter().any(|row| row.over(rival).is_some()))
        .collect();
    let title = format!(
        "Instances a second of edbatch, the median of {LAPS} laps ± the farthest; and how many \
         times as fast it is as others"
    );
    let header = ["model", "input", "H", "batch", "inst/s", "±", "of peak"];
    let header = header.map(String::from).into_iter();
    let rivals_named = rivals.iter().map(|rival| format!("× {}", rival.name()));
    let mut table = Table::new(&title, 2, header.chain(rivals_named));
    for row in rows.iter().take(ROWS) {
        let Throughput { model, input, hidden, batch, .. } = row.ours;
        let mut cells =
            vec![model.clone(), set(input).into(), hidden.to_string(), batch.to_string()];
        cells.push(whole(row.ours.instances_per_second));
        cells.push(percent(row.ours.spread));
        cells.push(percent(row.ours.fraction_of_peak));
        let ratio = |rival: &Rival| row.over(*rival).map_or("-".into(), |r| format!("{r:.1}"));
        cells.extend(rivals.iter().map(ratio));
        table.rows.push(cells);
    }
    table
}

fn latency(sorted: &Sorted<'_>) -> Option<String> {
    let own: Vec<&&Throughput> = sorted
        .latencies
        .iter()
        .filter(|r| r.system == System::Edbatch.name() && on_cpu(r))
        .collect();
    let mut sizes: Vec<usize> = own.iter().map(|record| record.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let size = |size: &usize| {
        let of_size = || own.iter().filter(|record| record.batch == *size);
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

fn learning(sorted: &Sorted<'_>) -> Option<String> {
    let times: Vec<f64> = sorted.learns.iter().map(|learn| learn.seconds * 1e9).collect();
    (!times.is_empty()).then(|| format!("Learning a policy: {}", range(&times, duration)))
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

fn cells(sorted: &Sorted<'_>) -> Option<String> {
    let times: Vec<f64> = sorted.cells.iter().map(|r| r.compile_microseconds * 1e3).collect();
    (!times.is_empty()).then(|| format!("Compiling a cell: {}", range(&times, duration)))
}

fn trees(sorted: &Sorted<'_>) -> Option<String> {
    let times: Vec<f64> = sorted.trees.iter().map(|tree| tree.ns_per_element).collect();
    (!times.is_empty()).then(|| format!("PQ-trees, an element: {}", range(&times, duration)))
}

fn soaks(sorted: &Sorted<'_>) -> Option<String> {
    sorted.soaks.last().map(|soak| format!("Soak: {soak}"))
}
