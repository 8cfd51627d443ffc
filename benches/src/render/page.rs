//! The HTML page of a run: a self-contained file.
//!
//! The first screen answers "how fast is it, compared with what, on which machine, and why?". A
//! section for each question follows. Complete tables are collapsed.

mod fast;
mod first;
mod inside;
mod scaling;
mod section;
mod steady;

use std::fmt;

use crate::record::Record;
use crate::record::sorted::Sorted;
use crate::render::palette::dark_rules;
use crate::render::tables::tables;
use section::Section;

/// Returns the page.
pub fn page(records: &[Record]) -> String {
    write_page(records).expect("writing to a string succeeds")
}

fn write_page(records: &[Record]) -> Result<String, fmt::Error> {
    let sorted = Sorted::new(records);
    let sections: Vec<Section> = [
        fast::speed(&sorted),
        inside::why(&sorted),
        inside::batches(&sorted),
        scaling::latency(&sorted),
        scaling::growth(&sorted),
        fast::peers(&sorted),
        steady::soak(&sorted),
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
        table.write_html(&mut page)?;
    }
    page.push_str("</section>\n</main>\n</html>\n");
    Ok(page)
}
