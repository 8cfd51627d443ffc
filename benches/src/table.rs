//! Text tables with aligned columns.

use std::fmt;

/// Rows of cells under a header; the first columns are text, the rest numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// What stands above.
    pub title: String,
    /// How many columns are text, and begin where the column begins.
    pub text_columns: usize,
    /// The names of the columns.
    pub header: Vec<String>,
    /// As many cells a row as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new<S: Into<String>>(
        title: &str,
        text_columns: usize,
        header: impl IntoIterator<Item = S>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), text_columns, header, rows: Vec::new() }
    }
}

/// Columns as wide as their widest cell, two spaces between them.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = std::iter::once(&self.header).chain(&self.rows);
            cells.map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        writeln!(f, "{}", self.title)?;
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += if column == 0 { "  " } else { "   " };
                line += &match column < self.text_columns {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
