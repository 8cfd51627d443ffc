//! Page sections: time by phase, and numbers of batches.

use super::section::Section;
use crate::measure::systems::System;
use crate::record::sorted::{Sorted, groups};
use crate::record::{Breakdown, Case, Counts};
use crate::render::chart::{Axis, Bar, Dot, Dots, Lane, Stacked};
use crate::render::palette::{CELLS, OURS, PAPER, PARTS, PLAIN, of_policy};
use crate::text::{duration, percent, range, set};

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
    let key = |r: &Breakdown| Case { backend: String::new(), ..r.case.clone() };
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
        // Mini-batches of 64, the default for measuring speed; else the last size.
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

/// Formats a figure without trailing zeros: `1`, `1.5`, `20`.
pub(super) fn decimal(figure: f64) -> String {
    let text = format!("{figure:.2}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
