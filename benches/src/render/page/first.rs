//! The first screen.

use std::fmt::{self, Write};

use super::inside::decimal;
use super::section::{Section, key};
use crate::measure::rounds::LAPS;
use crate::record::sorted::Sorted;
use crate::record::{Record, Throughput};
use crate::render::chart::{Axis, Dot, Dots, Lane};
use crate::render::headline::{Rival, Row, comparisons, computing, main_rows, rows, why};
use crate::render::palette::{Colour, OURS, of_rival};
use crate::render::table::escaped;
use crate::spread::quantile;
use crate::text::{percent, range, set, whole};

/// Spread above which the machine is reported as busy with other work.
const BUSY: f64 = 0.1;

/// Returns the first screen: the machine, the results, and one plot.
pub(super) fn screen(
    records: &[Record],
    sorted: &Sorted<'_>,
    sections: &[Section],
) -> Result<String, fmt::Error> {
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
        let caption = "<b>Every system on every workload</b>: the fraction of one core's peak. \
                       Further to the right is faster.";
        writeln!(page, "<figure><figcaption>{caption}</figcaption>")?;
        page.push_str(&key(&systems(&rows)));
        writeln!(page, "{}</figure>", plot(&rows))?;
    }
    page.push_str("</div>\n");
    Ok(page)
}

/// Writes the main figures in large type: the speed, and the ratios to rivals.
fn tiles(page: &mut String, rows: &[Row<'_>]) -> fmt::Result {
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
        "of the peak of {}, end to end: the median of {} workloads",
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

/// Describes the spread of the figures.
fn trust(rows: &[Row<'_>]) -> String {
    let spreads: Vec<f64> = rows.iter().map(|row| row.ours.spread).collect();
    let worst = spreads.iter().copied().fold(0.0, f64::max);
    let busy = match worst > BUSY {
        true => " Other work ran on this machine; measure again when it is idle.",
        false => "",
    };
    format!(
        "All systems took turns in the same run, after a comparison of their results. Each \
         figure is the median of {LAPS} laps over that run; our farthest lap differs from it by \
         {}.{busy}",
        range(&spreads, percent),
    )
}

/// Describes the measurement in two sentences.
fn measured(rows: &[Row<'_>]) -> String {
    let idea = "Automatic batching of neural networks over trees, sentences and lattices, whose \
                graph differs from input to input.";
    let Some(first) = rows.first() else { return idea.into() };
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.ours.case.hidden).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let inputs = match first.ours.case.input.starts_with("generated") {
        true => "generated inputs similar to the real sets",
        false => "real sets",
    };
    format!(
        "{idea} Measured from parsed inputs to results on the host, on {inputs}, with vectors of \
         {} elements and mini-batches of {}.",
        sizes.join(" or "),
        first.ours.case.batch,
    )
}

/// Returns the systems in the plot, with their colours.
pub(super) fn systems(rows: &[Row<'_>]) -> Vec<(&'static str, crate::render::palette::Colour)> {
    let measured = |rival: &Rival| rows.iter().any(|row| row.over(*rival).is_some());
    let rivals = Rival::ALL.into_iter().filter(measured);
    let rivals = rivals.map(|rival| (rival.explained(), of_rival(rival)));
    rivals.chain([("edbatch", OURS)]).collect()
}

/// Formats a share on an axis: `5 %`.
fn tick(share: f64) -> String {
    format!("{} %", decimal(share * 100.0))
}

fn plot(rows: &[Row<'_>]) -> String {
    let lane = |row: &Row<'_>| {
        let Throughput { case, fraction_of_peak, instances_per_second, .. } = row.ours;
        let dot = Dot::new;
        let others =
            row.others.iter().map(|&(rival, speed)| dot(fraction_of_peak * speed, of_rival(rival)));
        let speed = format!("{} · {}/s", percent(*fraction_of_peak), whole(*instances_per_second));
        Lane {
            name: format!("{} · {}", case.model, set(&case.input)),
            note: speed,
            dots: others.chain([dot(*fraction_of_peak, OURS)]).collect(),
        }
    };
    let plot = Dots {
        label: "Speed of every system on every workload as a share of the core's peak".into(),
        axis: Axis::log("of the core's peak", tick),
        limit: Some((1.0, "the peak")),
        rows: rows.iter().map(lane).collect(),
    };
    plot.svg()
}
