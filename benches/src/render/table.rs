//! Tables, in Markdown for the terminal and the documentation, and in HTML for the page.

use std::fmt::{self, Write};
use std::iter::once;

/// Rows of cells below a header. The first columns are text, the rest are numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Title; may be empty.
    pub title: String,
    /// Number of text columns, which are left-aligned.
    pub text_columns: usize,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows with one cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// The name of a column, and a function that formats the cell of a record.
pub type Column<R> = (&'static str, fn(&R) -> String);

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(
        title: &str,
        text_columns: usize,
        header: impl IntoIterator<Item = S>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), text_columns, header, rows: Vec::new() }
    }

    /// A table with a row for each record.
    pub fn of<R>(title: &str, text_columns: usize, columns: &[Column<R>], records: &[&R]) -> Self {
        let row = |record: &&R| columns.iter().map(|(_, cell)| cell(record)).collect();
        let rows = records.iter().map(row).collect();
        Self { rows, ..Self::new(title, text_columns, columns.iter().map(|&(name, _)| name)) }
    }

    /// Writes an HTML table that is collapsed at first, and that scrolls if it is too wide.
    pub(crate) fn write_html(&self, page: &mut String) -> fmt::Result {
        let (name, details) =
            self.title.split_once(['.', ':', ';', ',']).unwrap_or((&self.title, ""));
        let (name, details) = (escaped(name), escaped(details.trim()));
        write!(page, "<details><summary>{name}</summary>")?;
        if !details.is_empty() {
            write!(page, "<p>{details}</p>")?;
        }
        writeln!(page, "<div class=\"wide\" tabindex=\"0\"><table>")?;
        for (index, row) in once(&self.header).chain(&self.rows).enumerate() {
            let tag = if index == 0 { "th" } else { "td" };
            write!(page, "<tr>")?;
            for (column, cell) in row.iter().enumerate() {
                let class = if column < self.text_columns { " class=\"text\"" } else { "" };
                write!(page, "<{tag}{class}>{}</{tag}>", escaped(cell))?;
            }
            writeln!(page, "</tr>")?;
        }
        writeln!(page, "</table></div></details>")
    }
}

/// Markdown. Columns are padded to equal widths; `{:#}` leaves the padding out.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = once(&self.header).chain(&self.rows);
            cells.map(|row| row[column].chars().count()).max().unwrap_or(0).max(3)
        };
        let space = if f.alternate() { "" } else { " " };
        let widths: Vec<usize> = match f.alternate() {
            true => vec![0; self.header.len()],
            false => (0..self.header.len()).map(width).collect(),
        };
        let is_text = |column: usize| column < self.text_columns;
        let rule = |column: usize| match is_text(column) {
            true => "-".repeat(widths[column].max(3)),
            false => "-".repeat(widths[column].max(3) - 1) + ":",
        };
        if !self.title.is_empty() {
            writeln!(f, "{}\n", self.title)?;
        }
        let rule: Vec<String> = (0..self.header.len()).map(rule).collect();
        for row in [&self.header, &rule].into_iter().chain(&self.rows) {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match is_text(column) {
                    true => write!(f, "|{space}{cell:<width$}{space}")?,
                    false => write!(f, "|{space}{cell:>width$}{space}")?,
                }
            }
            writeln!(f, "|")?;
        }
        Ok(())
    }
}

/// Escapes text for HTML, and keeps figures and their units on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for unit in ["%", "×", "ns", "µs", "ms"] {
        text = text.replace(&format!(" {unit}"), &format!("\u{a0}{unit}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn a_table_is_markdown_with_and_without_padding() {
        let table = Table::of(
            "Sizes",
            1,
            &[("name", |name: &String| name.clone()), ("n", |name| name.len().to_string())],
            &[&"four".to_string(), &"0123456789ab".to_string()],
        );
        let padded = "Sizes\n\n| name         |   n |\n| ------------ | --: |\n\
                      | four         |   4 |\n| 0123456789ab |  12 |\n";
        assert_eq!(table.to_string(), padded);
        let compact = "Sizes\n\n|name|n|\n|---|--:|\n|four|4|\n|0123456789ab|12|\n";
        assert_eq!(format!("{table:#}"), compact);
    }
}
