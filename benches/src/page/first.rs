//! The first screen.

use std::fmt::Write;

use super::escaped;
use super::inside::decimal;
use super::section::{Section, key};
use crate::chart::{Axis, Dot, Dots, Lane, Spacing};
use crate::headline::{Rival, Row, comparisons, computing, main_rows, rows, why};
use crate::palette::{Colour, OURS, of_rival};
use crate::record::{Record, Throughput};
use crate::rounds::LAPS;
use crate::sorted::Sorted;
use crate::spread::quantile;
use crate::text::{percent, range, set, whole};
use crate::workload::Failure;

/// A lap this far from the median is not the program's doing.
const BUSY: f64 = 0.1;

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
    tiles(&mut page, &rows)?;
    if !rows.is_empty() {
        writeln!(page, "<p>{}</p>", escaped(&why(&rows, sorted)))?;
        writeln!(page, "<p class=\"note\">{}</p>", escaped(&trust(&rows)))?;
    }
    writeln!(page, "<nav aria-label=\"Questions\">")?;
    for Section { id, title, .. } in sections {
        writeln!(page, "<a href=\"#{id}\">{title}</a>")?;
    }
    writeln!(page, "<a href=\"#tables\">All figures</a></nav>\n</div>")?;
    if !rows.is_empty() {
        let caption = "<b>Every system on every workload</b>: what it reaches of one core's peak \
                       arithmetic. Further to the right is faster.";
        writeln!(page, "<figure><figcaption>{caption}</figcaption>")?;
        page.push_str(&key(&systems(&rows)));
        writeln!(page, "{}</figure>", plot(&rows)?)?;
    }
    page.push_str("</div>\n");
    Ok(page)
}

/// The figures that people ask for first, in large type: how fast, and against what.
fn tiles(page: &mut String, rows: &[Row<'_>]) -> std::fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(page, "<ul class=\"tiles\">")?;
    let mut tile = |(figure, colour, text, all): (String, Colour, String, String)| {
        let colour = colour.hex();
        let [figure, text, all] = [figure, text, all].map(|text| escaped(&text));
        write!(page, "<li><b><i style=\"background:{colour}\"></i>{figure}</b>{text}")?;
        writeln!(page, "<small>{all}, by workload</small></li>")
    };
    let times = |ratio: f64| format!("{ratio:.1} ×");
    let peaks: Vec<f64> = rows.iter().map(|row| row.ours.fraction_of_peak).collect();
    let text = format!(
        "of the peak arithmetic of {}, end to end: the median of {} workloads",
        computing(rows),
        rows.len(),
    );
    let mut items = vec![(percent(quantile(&peaks, 0.5)), OURS, text, range(&peaks, percent))];
    for (rival, ratios) in comparisons(rows) {
        let (text, all) = (rival.described().into(), range(&ratios, times));
        items.push((times(quantile(&ratios, 0.5)), of_rival(rival), text, all));
    }
    items.into_iter().try_for_each(&mut tile)?;
    writeln!(page, "</ul>")
}

/// How far to trust the figures.
fn trust(rows: &[Row<'_>]) -> String {
    let spreads: Vec<f64> = rows.iter().map(|row| row.ours.spread).collect();
    let worst = spreads.iter().copied().fold(0.0, f64::max);
    let busy = match worst > BUSY {
        true => " Other work ran on this machine: it is worth measuring again when it is quiet.",
        false => "",
    };
    format!(
        "All contestants took turns in the same run, after their results were compared. Each \
         figure is the median of {LAPS} laps over that run; the farthest lap of ours is {} from \
         it.{busy}",
        range(&spreads, percent),
    )
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
    let rivals = rivals.map(|rival| (rival.explained(), of_rival(rival)));
    rivals.chain([("edbatch", OURS)]).collect()
}

/// A share on an axis: `5 %`.
fn tick(share: f64) -> String {
    format!("{} %", decimal(share * 100.0))
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
        axis: Axis { label: "of the core's peak", spacing: Spacing::Log, format: tick },
        limit: Some((1.0, "the peak")),
        rows: rows.iter().map(lane).collect(),
    };
    plot.svg()
}
