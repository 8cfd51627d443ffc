//! The HTML page of a run: one file without links, so that it can be sent.
//!
//! First a screen that answers "how fast is it, against what, on which machine, and why?", then a
//! section for each question; whole tables fold away.

mod fast;
mod first;
mod inside;
mod scaling;
mod section;
mod steady;

use std::fmt::Write;

use crate::palette::dark_rules;
use crate::record::Record;
use crate::report::tables;
use crate::sorted::Sorted;
use crate::table::Table;
use crate::workload::Failure;
use section::Section;

/// The page.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn page(records: &[Record]) -> Result<String, Failure> {
    let sorted = Sorted::new(records);
    let sections: Vec<Section> = [
        fast::speed(&sorted)?,
        inside::why(&sorted)?,
        inside::batches(&sorted)?,
        inside::learning(&sorted)?,
        inside::cells(&sorted)?,
        scaling::pq_trees(&sorted)?,
        scaling::latency(&sorted)?,
        scaling::memory(&sorted)?,
        scaling::growth(&sorted)?,
        fast::peers(&sorted)?,
        steady::soak(&sorted)?,
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" \
         content=\"light dark\">\n<title>ED-Batch, measured</title>\n<style>\n{}\
         @media (prefers-color-scheme: dark) {{\n{}}}\n</style>\n",
        include_str!("page/style.css"),
        dark_rules(),
    );
    page.push_str(&first::screen(records, &sorted, &sections)?);
    for section in &sections {
        section.write(&mut page)?;
    }
    page.push_str("<section id=\"tables\"><h2>All figures</h2>\n");
    for table in tables(records) {
        write_table(&mut page, &table)?;
    }
    page.push_str("</section>\n</main>\n</html>\n");
    Ok(page)
}

/// A table that unfolds, and that scrolls by itself where it is too wide.
pub(crate) fn write_table(page: &mut String, table: &Table) -> std::fmt::Result {
    let (name, explained) =
        table.title.split_once(['.', ':', ';', ',']).unwrap_or((&table.title, ""));
    let (name, explained) = (escaped(name), escaped(explained.trim()));
    write!(page, "<details><summary>{name}</summary>")?;
    if !explained.is_empty() {
        write!(page, "<p>{explained}</p>")?;
    }
    writeln!(page, "<div class=\"wide\" tabindex=\"0\"><table>")?;
    for (index, row) in std::iter::once(&table.header).chain(&table.rows).enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        write!(page, "<tr>")?;
        for (column, cell) in row.iter().enumerate() {
            let class = if column < table.text_columns { " class=\"text\"" } else { "" };
            write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell))?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</table></div></details>")
}

/// Text as HTML; a figure and its unit stay on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for unit in ["%", "×", "ns", "µs", "ms"] {
        text = text.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    }
    text
}
