//! The HTML page of a run: one file without links, so that it can be sent.

use std::fmt::Write;

use super::record::{Outcome, Record};
use super::tables::{heading, tables};
use super::verdicts::verdicts;
use crate::page::{escaped, write_table};
use crate::palette::dark_rules;
use crate::workload::Failure;

/// The page.
pub(super) fn page(records: &[Record]) -> Result<String, Failure> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" \
         content=\"light dark\">\n<title>ED-Batch on a GPU</title>\n<style>\n{}\
         @media (prefers-color-scheme: dark) {{\n{}}}\n</style>\n<main>\n<h1>ED-Batch on a \
         GPU</h1>\n",
        include_str!("../page/style.css"),
        dark_rules(),
    );
    if let Some(record) = records.first() {
        for line in heading(&record.on).lines() {
            writeln!(page, "<p class=\"machine\">{}</p>", escaped(line))?;
        }
    }
    let count = |outcome| records.iter().filter(|record| record.outcome == outcome).count();
    writeln!(
        page,
        "<p>{} figures, {} checks passed, {} failed, {} skipped, {} stopped by the clock.</p>",
        count(Outcome::Measured),
        count(Outcome::Passed),
        count(Outcome::Failed),
        count(Outcome::Skipped),
        count(Outcome::Stopped),
    )?;
    let verdicts = verdicts(records);
    if !verdicts.is_empty() {
        writeln!(page, "<section><h2>What follows</h2>")?;
        for verdict in verdicts {
            let [rule, found] = [verdict.rule, &verdict.found].map(escaped);
            let decision = escaped(&verdict.decision);
            writeln!(page, "<p>{rule}.<br><b>{found}: {decision}.</b></p>")?;
        }
        writeln!(page, "</section>")?;
    }
    writeln!(page, "<section><h2>All figures</h2>")?;
    let mut folded = String::new();
    for table in tables(records) {
        write_table(&mut folded, &table)?;
    }
    page.push_str(&folded.replace("<details>", "<details open>"));
    writeln!(page, "</section>\n</main>\n</html>")?;
    Ok(page)
}
