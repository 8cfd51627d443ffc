//! Text and tables for notebooks: escaped, of bounded size, without scripts.

use std::fmt::Write;

/// The maximum number of bytes of a picture or a table.
const MAX_BYTES: usize = 200_000;

/// Escapes a text for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// Returns a text in a fixed-width font, without its end if it is long.
pub(crate) fn text(text: &str) -> String {
    // Escaping makes a byte six bytes at most.
    let max = MAX_BYTES / 6 - 100;
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let rest = match text.len() - end {
        0 => String::new(),
        rest => format!("\n… {rest} more bytes: print it with str()"),
    };
    format!("<pre>{}{rest}</pre>", escape(&text[..end]))
}

/// Returns a table with a header, and with as many rows as its size allows.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<table><tr>");
    for name in header {
        write!(html, "<th>{}</th>", escape(name)).expect("memory takes every write");
    }
    html.push_str("</tr>");
    for (index, row) in rows.iter().enumerate() {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        if html.len() + cells.len() > MAX_BYTES / 2 {
            let rest = rows.len() - index;
            write!(html, "<tr><td>… {rest} more</td></tr>").expect("memory takes every write");
            break;
        }
        write!(html, "<tr>{cells}</tr>").expect("memory takes every write");
    }
    html + "</table>"
}
