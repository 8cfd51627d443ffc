//! The first screen.

use std::fmt::Write;

use super::escaped;
use super::section::{Section, key};
use crate::chart::{Axis, Dot, Dots, Lane, Spacing};
use crate::headline::{Rival, Row, main_rows, rows, sentences};
use crate::palette::{OURS, of_rival};
use crate::record::{Record, Throughput};
use crate::sorted::Sorted;
use crate::text::{percent, set, whole};
use crate::workload::Failure;

/// What was measured, where, the result, and one plot.
pub(super) fn screen(
    records: &[Record],
    sorted: &Sorted<'_>,
    sections: &[Section],
) -> Result<String, Failure> {
    let rows = main_rows(&rows(sorted));
    let mut page = String::from("<main>\n<div class=\"first\">\n<div>\n");
    page.push_str("<h1>ED-Batch, measured</h1>\n");
    if let Some(record) = records.last() {
        writeln!(page, "<p class=\"machine\">{}</p>", escaped(&record.machine.to_string()))?;
    }
    writeln!(page, "<p>{}</p>", escaped(&measured(&rows)))?;
    writeln!(page, "<ul class=\"result\">")?;
    for sentence in sentences(&rows, sorted) {
        writeln!(page, "<li>{}</li>", escaped(&sentence))?;
    }
    writeln!(page, "</ul>\n<nav aria-label=\"Questions\">")?;
    for Section { id, title, .. } in sections {
        writeln!(page, "<a href=\"#{id}\">{title}</a>")?;
    }
    writeln!(page, "<a href=\"#tables\">All figures</a></nav>\n</div>")?;
    if !rows.is_empty() {
        let caption = "<b>Speed against the bound</b>: what one core reaches of the arithmetic \
                       that it could do";
        writeln!(page, "<figure><figcaption>{caption}</figcaption>")?;
        page.push_str(&key(&systems(&rows)));
        writeln!(page, "{}</figure>", plot(&rows)?)?;
    }
    page.push_str("</div>\n");
    Ok(page)
}

/// What was measured, in a sentence.
fn measured(rows: &[Row<'_>]) -> String {
    let idea = "Networks over trees, sentences and lattices, whose graph differs from input to \
                input, batched automatically.";
    let Some(first) = rows.first() else { return idea.into() };
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.ours.hidden).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let inputs = match first.ours.input.starts_with("generated") {
        true => "generated inputs with the statistics of the real sets",
        false => "the sets named",
    };
    format!(
        "{idea} Measured: from parsed inputs to results on the host, {inputs}, vectors of {} \
         elements, mini-batches of {}.",
        sizes.join(" or "),
        first.ours.batch,
    )
}

/// The systems that have dots.
pub(super) fn systems(rows: &[Row<'_>]) -> Vec<(&'static str, crate::palette::Colour)> {
    let measured = |rival: &Rival| rows.iter().any(|row| row.over(*rival).is_some());
    let rivals = Rival::ALL.into_iter().filter(measured);
    let rivals = rivals.map(|rival| (rival.name(), of_rival(rival)));
    rivals.chain([("edbatch", OURS)]).collect()
}

fn plot(rows: &[Row<'_>]) -> Result<String, Failure> {
    let lane = |row: &Row<'_>| {
        let Throughput { model, input, fraction_of_peak, instances_per_second, .. } = row.ours;
        let dot = |at, colour| Dot { at, to: None, colour };
        let others =
            row.others.iter().map(|&(rival, speed)| dot(fraction_of_peak * speed, of_rival(rival)));
        let speed = format!("{} · {}/s", percent(*fraction_of_peak), whole(*instances_per_second));
        Lane {
            name: format!("{model} · {}", set(input)),
            note: speed,
            dots: others.chain([dot(*fraction_of_peak, OURS)]).collect(),
        }
    };
    let plot = Dots {
        says: "Speed of every system on every workload as a share of the core's peak".into(),
        axis: Axis { label: "of the core's peak", spacing: Spacing::Log, format: percent },
        limit: Some((1.0, "the bound")),
        rows: rows.iter().map(lane).collect(),
    };
    plot.svg()
}
