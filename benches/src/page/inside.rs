//! Why it is fast: where the time goes, how many batches there are, what learning and cells cost.

use super::section::Section;
use crate::chart::{Axis, Bar, Dot, Dots, Lane, Spacing, Stacked};
use crate::palette::{CELLS, OURS, PAPER, PARTS, PLAIN, of_policy};
use crate::paper_table::PAPER_TABLE;
use crate::record::{Breakdown, Counts, Learn};
use crate::sorted::{Sorted, groups};
use crate::systems::System;
use crate::text::{duration, percent, range, set, whole};
use crate::workload::Failure;

pub(super) fn why(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let own = System::Edbatch.name();
    let own: Vec<&Breakdown> =
        sorted.breakdowns.iter().copied().filter(|record| record.system == own).collect();
    if own.is_empty() {
        return Ok(None);
    }
    let mut plots = Vec::new();
    // The smallest vectors of every model in one plot, the next in another.
    let model = |r: &Breakdown| (r.model.clone(), r.input.clone());
    let models: Vec<&[&Breakdown]> = groups(&own, model).collect();
    for rank in 0..models.iter().map(|records| records.len()).max().unwrap_or(0) {
        let bars = models.iter().filter_map(|records| records.get(rank)).map(|record| Bar {
            name: format!("{} · {}, H {}", record.model, set(&record.input), record.hidden),
            note: duration(record.microseconds_per_instance * 1e3),
            parts: parts(record, 1.0),
        });
        let caption =
            format!("edbatch, mini-batches of {}", models[0][rank.min(models[0].len() - 1)].batch);
        let axis =
            Axis { label: "of the time of an instance", spacing: Spacing::Linear, format: percent };
        let says = format!("Where the time goes: {caption}");
        plots.push((caption, Stacked { says, axis, bars: bars.collect() }.svg()?));
    }
    let mut more = Vec::new();
    let key = |r: &Breakdown| (r.model.clone(), r.input.clone(), r.hidden, r.batch, r.threads);
    for group in groups(&sorted.breakdowns, key).filter(|group| group.len() > 1) {
        let bars = group.iter().map(|record| Bar {
            name: record.system.clone(),
            note: duration(record.microseconds_per_instance * 1e3),
            parts: parts(record, record.microseconds_per_instance),
        });
        let Breakdown { model, input, hidden, batch, .. } = group[0];
        let caption = format!("{model} on {}, H {hidden}, mini-batches of {batch}", set(input));
        let axis = Axis { label: "µs an instance", spacing: Spacing::Linear, format: decimal };
        let says = format!("Time of an instance by system: {caption}");
        more.push((caption, Stacked { says, axis, bars: bars.collect() }.svg()?));
    }
    let products: Vec<f64> = own.iter().map(|record| record.product).collect();
    let deciding: Vec<f64> =
        own.iter().map(|record| record.construct + record.schedule + record.plan).collect();
    Ok(Some(Section {
        id: "why",
        title: "Why is it fast?",
        answer: format!(
            "Matrix products take {} of the time, on packed weights and without copying their \
             operands; building the graph, deciding the order of batches and where values lie \
             takes {}.",
            range(&products, percent),
            range(&deciding, percent),
        ),
        key: PARTS.to_vec(),
        plots,
        more,
        method: "Clocks around the phases of every mini-batch of the rounds above. Gathering, \
                 products and element-wise work are told apart in a pass of their own, since \
                 clocks around each step slow it down; their shares are applied to the rounds.",
        bias: "Shares of the pass with clocks differ a little from those without.",
        command: "cargo xtask bench --only breakdown",
    }))
}

/// The parts of an instance's time, in the order of the palette.
fn parts(record: &Breakdown, whole: f64) -> Vec<(f64, crate::palette::Colour)> {
    let Breakdown { construct, schedule, plan, gather, product, elementwise, .. } = *record;
    let known = [construct, schedule, plan, gather, product, elementwise];
    let other = (1.0 - known.iter().sum::<f64>()).max(0.0);
    let lengths = known.into_iter().chain([other]).map(|share| share.max(0.0) * whole);
    lengths.zip(PARTS.map(|(_, colour)| colour)).collect()
}

pub(super) fn batches(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let mut largest: Vec<&[&Counts]> = Vec::new();
    let model = |r: &Counts| (r.model.clone(), r.input.clone());
    for group in groups(&sorted.counts, model) {
        // Of several sizes the one that is measured for speed, if it is there.
        let sizes = || groups(group, |record| record.batch);
        largest.extend(sizes().find(|records| records[0].batch == Some(64)).or(sizes().last()));
    }
    if largest.is_empty() {
        return Ok(None);
    }
    let mut plots = Vec::new();
    for records in &largest {
        let lane = |record: &&Counts| Lane {
            name: record.policy.clone(),
            note: format!("{:.1}", record.batches),
            dots: vec![Dot {
                at: record.batches / record.bound.max(1.0),
                to: None,
                colour: of_policy(&record.policy),
            }],
        };
        let Counts { model, input, batch, bound, .. } = records[0];
        let size = batch.map_or(String::new(), |batch| format!(", mini-batches of {batch}"));
        let caption = format!("{model} on {}{size}: bound {bound:.1}", set(input));
        let axis = Axis { label: "batches over the bound", spacing: Spacing::Log, format: decimal };
        let plot = Dots {
            says: format!("Batches by policy: {caption}"),
            axis,
            limit: Some((1.0, "the bound")),
            rows: records.iter().map(lane).collect(),
        };
        plots.push((caption, plot.svg()?));
    }
    let ratios = |policy: &str| {
        let of_policy = largest.iter().flat_map(|records| records.iter());
        let of_policy = of_policy.filter(|record| record.policy == policy);
        let ratios: Vec<f64> =
            of_policy.map(|record| record.batches / record.bound.max(1.0)).collect();
        range(&ratios, |ratio| format!("{ratio:.2} ×"))
    };
    let more = plots.split_off(plots.len().min(12));
    Ok(Some(Section {
        id: "batches",
        title: "How many batches?",
        answer: format!(
            "Over a bound that no schedule can beat: agenda needs {}, our default, critical, {}.",
            ratios("agenda"),
            ratios("critical"),
        ),
        key: vec![("ours", OURS), ("the paper's", PAPER), ("Cavs's", CELLS), ("others", PLAIN)],
        plots,
        more,
        method: "Means over mini-batches at equal distances in the set; learned policies have \
                 seen another part of it. Every schedule is checked by a proof that does not \
                 depend on the policy.",
        bias: "The bound may be lower than the best schedule: a distance from it is no proof of \
               waste. Fewer batches are worth more on a GPU than here.",
        command: "cargo xtask bench --only counts",
    }))
}

const WORTH: &str = "batches over critical's";

pub(super) fn learning(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    if sorted.learns.is_empty() {
        return Ok(None);
    }
    let groups: Vec<&[&Learn]> =
        groups(&sorted.learns, |r| (r.model.clone(), r.input.clone(), r.batch)).collect();
    let plot = |says: &str, axis: Axis, of: fn(&Learn) -> f64, note: fn(&[&Learn]) -> String| {
        let rows = groups.iter().map(|group| Lane {
            name: format!("{} · {}", group[0].model, set(&group[0].input)),
            note: note(group),
            dots: group
                .iter()
                .map(|r| Dot { at: of(r), to: None, colour: of_policy(&r.encoding) })
                .collect(),
        });
        let limit = (axis.label == WORTH).then_some((1.0, "critical"));
        Dots { says: says.into(), axis, limit, rows: rows.collect() }.svg()
    };
    let seconds = Axis { label: "time to learn", spacing: Spacing::Log, format: duration };
    let worth = Axis { label: WORTH, spacing: Spacing::Log, format: decimal };
    let spent = |group: &[&Learn]| {
        let times: Vec<f64> = group.iter().map(|learn| learn.seconds * 1e9).collect();
        range(&times, duration)
    };
    let gained = |group: &[&Learn]| {
        let best = group.iter().map(|learn| learn.after).min().unwrap_or(0);
        format!("{} → {best}, bound {}", group[0].before, group[0].bound)
    };
    let plots = vec![
        (
            "What it costs".into(),
            plot("Time to learn a policy, by encoding", seconds, |r| r.seconds * 1e9, spent)?,
        ),
        (
            "What it brings on unseen mini-batches".into(),
            plot(
                "Batches with what was learned, over those of critical",
                worth,
                |r| r.after as f64 / r.before.max(1) as f64,
                gained,
            )?,
        ),
    ];
    let times: Vec<f64> = sorted.learns.iter().map(|learn| learn.seconds * 1e9).collect();
    Ok(Some(Section {
        id: "learning",
        title: "What does learning cost?",
        answer: format!(
            "Once per network, {} on one thread. Our default needs none; on lattices a learned \
             rule saves batches.",
            range(&times, duration),
        ),
        key: vec![("our rule", OURS), ("FSM, sort", PAPER), ("FSM, other encodings", PLAIN)],
        plots,
        more: Vec::new(),
        method: "Q-learning as in the paper on four mini-batches, two others select the episode; \
                 our rule learns a weight for each pair of kinds. What they are worth is counted \
                 on five mini-batches on which nothing was learned or selected.",
        bias: "The paper's times (0.14 to 22 s) were measured on another machine and are not \
               drawn.",
        command: "cargo xtask bench --only learn",
    }))
}

pub(super) fn cells(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    if sorted.cells.is_empty() {
        return Ok(None);
    }
    let printed = |name: &str| PAPER_TABLE.iter().find(|printed| printed.name == name);
    let copies = sorted.cells.iter().map(|cell| {
        let dot = |kernels: usize, colour| Dot { at: kernels as f64, to: None, colour };
        let printed = printed(&cell.cell);
        let paper = printed
            .into_iter()
            .flat_map(|row| [dot(row.declared.kernels, PLAIN), dot(row.planned.kernels, PAPER)]);
        let own = cell.own_rule.planned.memory_kernels;
        let note = printed.map_or(String::new(), |row| {
            format!("{} → {} → {own}", row.declared.kernels, row.planned.kernels)
        });
        let dots = paper.chain([dot(own, OURS)]).collect();
        Lane { name: cell.cell.clone(), note, dots }
    });
    let axis = Axis { label: "passes that only copy", spacing: Spacing::Linear, format: decimal };
    let says = "Memory kernels inside cells: declared and planned in the paper, planned by ours";
    let copies = Dots { says: says.into(), axis, limit: None, rows: copies.collect() };
    let compile = sorted.cells.iter().map(|cell| Lane {
        name: cell.cell.clone(),
        note: duration(cell.compile_microseconds * 1e3),
        dots: vec![Dot { at: cell.compile_microseconds * 1e3, to: None, colour: OURS }],
    });
    let axis = Axis { label: "time to compile", spacing: Spacing::Log, format: duration };
    let says = "Time to compile a cell, layout included";
    let compile = Dots { says: says.into(), axis, limit: None, rows: compile.collect() };
    let own: Vec<f64> =
        sorted.cells.iter().map(|cell| cell.own_rule.planned.memory_kernels as f64).collect();
    let times: Vec<f64> = sorted.cells.iter().map(|cell| cell.compile_microseconds * 1e3).collect();
    Ok(Some(Section {
        id: "cells",
        title: "What do cells copy?",
        answer: format!(
            "Of the seven cells of the paper's table, ours spend {} passes on copying alone; \
             compiling one takes {}.",
            range(&own, whole),
            range(&times, duration),
        ),
        key: vec![("paper, as declared", PLAIN), ("paper, planned", PAPER), ("ours", OURS)],
        plots: vec![("Memory kernels".into(), copies.svg()?), ("Compiling".into(), compile.svg()?)],
        more: Vec::new(),
        method: "Batches of 8 calls at size 64, as in the paper's table. Ours are what our plans \
                 do; the paper's are those that it prints.",
        bias: "The paper's rule of counting is inferred where it prints none; both columns are \
               in the table below.",
        command: "cargo xtask bench --only cells",
    }))
}
/// A figure with as many digits as it needs: `1`, `1.5`, `20`.
pub(super) fn decimal(figure: f64) -> String {
    let text = format!("{figure:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
