//! The HTML page of a run: plots, then tables. One file without links, so that it can be sent.

use std::fmt::Write;

use crate::plot::{Bars, Stand};
use crate::record::{Breakdown, Counts, Record, Throughput};
use crate::report::tables;
use crate::table::Table;

/// The page.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn page(records: &[Record]) -> Result<String, Box<dyn std::error::Error>> {
    let mut page = String::from(HEAD);
    for bars in plots(records) {
        writeln!(page, "<figure>{}</figure>", bars.svg()?)?;
    }
    for table in tables(records) {
        write_table(&mut page, &table)?;
    }
    page.push_str("</html>\n");
    Ok(page)
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>ED-Batch, measured</title>
<style>
body { font: 14px sans-serif; margin: 2em auto; max-width: 100em; padding: 0 1em; }
figure { display: inline-block; margin: 0.5em; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { padding: 0.15em 0.8em; text-align: right; border-bottom: 1px solid #ddd; }
.text { text-align: left; }
</style>
<h1>ED-Batch, measured</h1>
<p>Contestants share one runtime, so differences are the methods'. Fractions are of the peak of
the core that was measured in the same run.</p>
";

fn write_table(page: &mut String, table: &Table) -> std::fmt::Result {
    writeln!(page, "<h2>{}</h2>\n<table>", escaped(&table.title))?;
    for (index, row) in std::iter::once(&table.header).chain(&table.rows).enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        write!(page, "<tr>")?;
        for (column, cell) in row.iter().enumerate() {
            let class = if column < table.text_columns { " class=\"text\"" } else { "" };
            write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell))?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</table>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn plots(records: &[Record]) -> Vec<Bars> {
    let (mut counts, mut throughputs, mut breakdowns) = (vec![], vec![], vec![]);
    for record in records {
        match record {
            Record::Counts(record) if record.batch.is_some() => counts.push(record),
            Record::Throughput(record) => throughputs.push(record),
            Record::Breakdown(record) => breakdowns.push(record),
            _ => {}
        }
    }
    let mut plots = Vec::new();
    plots.extend(counts.chunk_by(|a, b| (&a.model, &a.input) == (&b.model, &b.input)).map(batches));
    let same = |a: &&Throughput, b: &&Throughput| {
        (&a.model, &a.input, a.hidden) == (&b.model, &b.input, b.hidden)
    };
    plots.extend(throughputs.chunk_by(same).map(peaks));
    let same = |a: &&Breakdown, b: &&Breakdown| {
        (&a.model, &a.input, a.hidden, a.batch) == (&b.model, &b.input, b.hidden, b.batch)
    };
    plots.extend(breakdowns.chunk_by(same).map(shares));
    plots
}

/// Batches over the bound: a group for each size of mini-batches.
fn batches(records: &[&Counts]) -> Bars {
    let first = records[0];
    let sizes = records.chunk_by(|a, b| a.batch == b.batch);
    Bars {
        title: format!("{} on {}: batches over the lower bound", first.model, first.input),
        axis: "batches / bound".into(),
        series: distinct(records.iter().map(|record| record.policy.as_str())),
        groups: sizes
            .map(|records| {
                let size = records[0].batch.unwrap_or(0);
                let ratio = |record: &&Counts| record.batches / record.bound.max(1.0);
                (format!("mini-batches of {size}"), records.iter().map(ratio).collect())
            })
            .collect(),
        stand: Stand::Beside,
    }
}

/// Fractions of the peak: a group for each size of mini-batches.
fn peaks(records: &[&Throughput]) -> Bars {
    let first = records[0];
    let sizes = records.chunk_by(|a, b| a.batch == b.batch);
    Bars {
        title: format!(
            "{} on {}, hidden {}: fraction of the core's peak",
            first.model, first.input, first.hidden
        ),
        axis: "fraction of peak".into(),
        series: distinct(records.iter().map(|record| record.system.as_str())),
        groups: sizes
            .map(|records| {
                let name = format!("mini-batches of {}", records[0].batch);
                (name, records.iter().map(|record| record.fraction_of_peak).collect())
            })
            .collect(),
        stand: Stand::Beside,
    }
}

/// Where the time of an instance goes: a group for each contestant.
fn shares(records: &[&Breakdown]) -> Bars {
    let first = records[0];
    let parts = ["construct", "schedule", "plan", "gather", "product", "element-wise", "other"];
    Bars {
        title: format!(
            "{} on {}, hidden {}, mini-batches of {}: time of an instance",
            first.model, first.input, first.hidden, first.batch
        ),
        axis: "µs".into(),
        series: parts.map(String::from).into(),
        groups: records
            .iter()
            .map(|record| {
                let Breakdown { construct, schedule, plan, gather, product, elementwise, .. } =
                    record;
                let parts =
                    [construct, schedule, plan, gather, product, elementwise].map(|&part| part);
                let other = 1.0 - parts.iter().sum::<f64>();
                let shares = parts.into_iter().chain([other]);
                let time = record.microseconds_per_instance;
                (record.system.clone(), shares.map(|share| share.max(0.0) * time).collect())
            })
            .collect(),
        stand: Stand::Stacked,
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.iter().any(|known| known == name) {
            distinct.push(name.into());
        }
    }
    distinct
}
