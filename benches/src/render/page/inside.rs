//! Sections of the time by phase, of batches, of learning and of cells.

use super::section::Section;
use crate::measure::systems::System;
use crate::paper::PAPER_TABLE;
use crate::record::sorted::{Sorted, groups};
use crate::record::{Breakdown, Case, Counts, Learn};
use crate::render::chart::{Axis, Bar, Dot, Dots, Lane, Stacked};
use crate::render::palette::{CELLS, OURS, PAPER, PARTS, PLAIN, of_policy};
use crate::text::{duration, percent, range, set, whole};

pub(super) fn why(sorted: &Sorted<'_>) -> Option<Section> {
    let own = System::Edbatch.name();
    let own: Vec<&Breakdown> = sorted
        .breakdowns
        .iter()
        .copied()
        .filter(|r| r.system == own && r.case.backend != "cuda")
        .collect();
    if own.is_empty() {
        return None;
    }
    let mut plots = Vec::new();
    // One plot for the smallest vectors of all models, one for the next size, and so on.
    let model = |r: &Breakdown| (r.case.model.clone(), r.case.input.clone());
    let models: Vec<&[&Breakdown]> = groups(&own, model).collect();
    for rank in 0..models.iter().map(|records| records.len()).max().unwrap_or(0) {
        let bars = models.iter().filter_map(|records| records.get(rank)).map(|record| Bar {
            name: format!(
                "{} · {}, H {}",
                record.case.model,
                set(&record.case.input),
                record.case.hidden
            ),
            note: duration(record.microseconds_per_instance * 1e3),
            parts: parts(record, 1.0),
        });
        let caption = format!(
            "edbatch, mini-batches of {}",
            models[0][rank.min(models[0].len() - 1)].case.batch
        );
        let axis = Axis::linear("of the time of an instance", percent);
        let label = format!("Where the time goes: {caption}");
        plots.push((caption, Stacked { label, axis, bars: bars.collect() }.svg()));
    }
    let mut more = Vec::new();
    let key = |r: &Breakdown| {
        (r.case.model.clone(), r.case.input.clone(), r.case.hidden, r.case.batch, r.case.threads)
    };
    for group in groups(&sorted.breakdowns, key).filter(|group| group.len() > 1) {
        let bars = group.iter().map(|record| Bar {
            name: record.system.clone(),
            note: duration(record.microseconds_per_instance * 1e3),
            parts: parts(record, record.microseconds_per_instance),
        });
        let Case { model, input, hidden, batch, .. } = &group[0].case;
        let caption = format!("{model} on {}, H {hidden}, mini-batches of {batch}", set(input));
        let axis = Axis::linear("µs an instance", decimal);
        let label = format!("Time of an instance by system: {caption}");
        more.push((caption, Stacked { label, axis, bars: bars.collect() }.svg()));
    }
    let products: Vec<f64> = own.iter().map(|record| record.product).collect();
    let deciding: Vec<f64> =
        own.iter().map(|record| record.construct + record.schedule + record.plan).collect();
    Some(Section {
        id: "why",
        title: "Why is it fast?",
        answer: format!(
            "Matrix products take {} of the time, with packed weights and without copies of \
             operands. Construction, scheduling and planning take {}.",
            range(&products, percent),
            range(&deciding, percent),
        ),
        key: PARTS.to_vec(),
        plots,
        more,
        method: "The phases of each mini-batch are timed in the rounds above. Gathers, products \
                 and element-wise work are timed in a separate pass, since a clock around each \
                 step slows it down. Their shares are applied to the rounds.",
        bias: "Timing each step changes the shares slightly.",
        command: "cargo xtask bench --only breakdown",
    })
}

/// Returns the phases of an instance's time, in the order of the palette.
fn parts(record: &Breakdown, whole: f64) -> Vec<(f64, crate::render::palette::Colour)> {
    let Breakdown { construct, schedule, plan, gather, product, elementwise, .. } = *record;
    let known = [construct, schedule, plan, gather, product, elementwise];
    let other = (1.0 - known.iter().sum::<f64>()).max(0.0);
    let lengths = known.into_iter().chain([other]).map(|share| share.max(0.0) * whole);
    lengths.zip(PARTS.map(|(_, colour)| colour)).collect()
}

pub(super) fn batches(sorted: &Sorted<'_>) -> Option<Section> {
    let mut largest: Vec<&[&Counts]> = Vec::new();
    let model = |r: &Counts| (r.model.clone(), r.input.clone());
    for group in groups(&sorted.counts, model) {
        // The size whose speed is measured, if there is one.
        let sizes = || groups(group, |record| record.batch);
        largest.extend(sizes().find(|records| records[0].batch == Some(64)).or(sizes().last()));
    }
    if largest.is_empty() {
        return None;
    }
    let mut plots = Vec::new();
    for records in &largest {
        let lane = |record: &&Counts| Lane {
            name: record.policy.clone(),
            note: format!("{:.1}", record.batches),
            dots: vec![Dot::new(record.batches / record.bound.max(1.0), of_policy(&record.policy))],
        };
        let Counts { model, input, batch, bound, .. } = records[0];
        let size = batch.map_or(String::new(), |batch| format!(", mini-batches of {batch}"));
        let caption = format!("{model} on {}{size}: bound {bound:.1}", set(input));
        let axis = Axis::log("batches over the bound", decimal);
        let plot = Dots {
            label: format!("Batches by policy: {caption}"),
            axis,
            limit: Some((1.0, "the bound")),
            rows: records.iter().map(lane).collect(),
        };
        plots.push((caption, plot.svg()));
    }
    let ratios = |policy: &str| {
        let of_policy = largest.iter().flat_map(|records| records.iter());
        let of_policy = of_policy.filter(|record| record.policy == policy);
        let ratios: Vec<f64> =
            of_policy.map(|record| record.batches / record.bound.max(1.0)).collect();
        range(&ratios, |ratio| format!("{ratio:.2} ×"))
    };
    let more = plots.split_off(plots.len().min(12));
    Some(Section {
        id: "batches",
        title: "How many batches?",
        answer: format!(
            "Relative to a lower bound: agenda needs {}, our default, critical, {}.",
            ratios("agenda"),
            ratios("critical"),
        ),
        key: vec![("ours", OURS), ("the paper's", PAPER), ("Cavs's", CELLS), ("others", PLAIN)],
        plots,
        more,
        method: "Means over evenly spaced mini-batches of the set. Learned policies have seen a \
                 different part of it. An independent checker accepts every schedule.",
        bias: "The best schedule may need more batches than the bound. Fewer batches matter more \
               on a GPU than here.",
        command: "cargo xtask bench --only counts",
    })
}

const WORTH: &str = "batches relative to critical";

pub(super) fn learning(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.learns.is_empty() {
        return None;
    }
    let groups: Vec<&[&Learn]> =
        groups(&sorted.learns, |r| (r.model.clone(), r.input.clone(), r.batch)).collect();
    let plot = |label: &str, axis: Axis, of: fn(&Learn) -> f64, note: fn(&[&Learn]) -> String| {
        let rows = groups.iter().map(|group| Lane {
            name: format!("{} · {}", group[0].model, set(&group[0].input)),
            note: note(group),
            dots: group.iter().map(|r| Dot::new(of(r), of_policy(&r.encoding))).collect(),
        });
        let limit = (axis.label == WORTH).then_some((1.0, "critical"));
        Dots { label: label.into(), axis, limit, rows: rows.collect() }.svg()
    };
    let seconds = Axis::log("time to learn", duration);
    let worth = Axis::log(WORTH, decimal);
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
            "Cost".into(),
            plot("Time to learn a policy, by encoding", seconds, |r| r.seconds * 1e9, spent),
        ),
        (
            "Benefit on unseen mini-batches".into(),
            plot(
                "Batches of learned policies relative to critical",
                worth,
                |r| r.after as f64 / r.before.max(1) as f64,
                gained,
            ),
        ),
    ];
    let times: Vec<f64> = sorted.learns.iter().map(|learn| learn.seconds * 1e9).collect();
    Some(Section {
        id: "learning",
        title: "What does learning cost?",
        answer: format!(
            "{} on one thread, once per network. Our default needs no learning; on lattices a \
             learned rule saves batches.",
            range(&times, duration),
        ),
        key: vec![("our rule", OURS), ("FSM, sort", PAPER), ("FSM, other encodings", PLAIN)],
        plots,
        method: "Q-learning as in the paper on four mini-batches; two others select the episode. \
                 Our rule learns a weight for each pair of kinds. Batches are counted on five \
                 mini-batches used neither for learning nor for selection.",
        bias: "The paper's times (0.14 to 22 s) come from another machine and are not drawn.",
        command: "cargo xtask bench --only learn",
        ..Section::default()
    })
}

pub(super) fn cells(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.cells.is_empty() {
        return None;
    }
    let printed = |name: &str| PAPER_TABLE.iter().find(|printed| printed.0 == name);
    let copies = sorted.cells.iter().map(|cell| {
        let dot = |kernels: u64, colour| Dot::new(kernels as f64, colour);
        let printed = printed(&cell.cell);
        let paper =
            printed.into_iter().flat_map(|row| [dot(row.1[0], PLAIN), dot(row.2[0], PAPER)]);
        let own = cell.own_rule.planned.memory_kernels as u64;
        let note =
            printed.map_or(String::new(), |row| format!("{} → {} → {own}", row.1[0], row.2[0]));
        let dots = paper.chain([dot(own, OURS)]).collect();
        Lane { name: cell.cell.clone(), note, dots }
    });
    let axis = Axis::linear("kernels that only copy", decimal);
    let label = "Memory kernels inside cells: declared and planned in the paper, planned by ours";
    let copies = Dots { label: label.into(), axis, limit: None, rows: copies.collect() };
    let compile = sorted.cells.iter().map(|cell| Lane {
        name: cell.cell.clone(),
        note: duration(cell.compile_microseconds * 1e3),
        dots: vec![Dot::new(cell.compile_microseconds * 1e3, OURS)],
    });
    let axis = Axis::log("time to compile", duration);
    let label = "Time to compile a cell, layout included";
    let compile = Dots { label: label.into(), axis, limit: None, rows: compile.collect() };
    let own: Vec<f64> =
        sorted.cells.iter().map(|cell| cell.own_rule.planned.memory_kernels as f64).collect();
    let times: Vec<f64> = sorted.cells.iter().map(|cell| cell.compile_microseconds * 1e3).collect();
    Some(Section {
        id: "cells",
        title: "What do cells copy?",
        answer: format!(
            "Our plans of the seven cells in the paper's table have {} kernels that only copy. \
             Compiling a cell takes {}.",
            range(&own, whole),
            range(&times, duration),
        ),
        key: vec![("paper, as declared", PLAIN), ("paper, planned", PAPER), ("ours", OURS)],
        plots: vec![("Memory kernels".into(), copies.svg()), ("Compiling".into(), compile.svg())],
        method: "Batches of 8 calls at size 64, as in the paper's table. The figures of the paper \
                 are those it prints.",
        bias: "The paper does not state its rule for counting, so the table below has figures by \
               an inferred rule too.",
        command: "cargo xtask bench --only cells",
        ..Section::default()
    })
}
/// Formats a figure without trailing zeros: `1`, `1.5`, `20`.
pub(super) fn decimal(figure: f64) -> String {
    let text = format!("{figure:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
