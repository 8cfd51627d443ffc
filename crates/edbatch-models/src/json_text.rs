//! Writes JSON texts: lists and quoted names, with the same white space in all files.

/// Writes a list on one line: `[1, 2]`.
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    joined(items, "", ", ")
}

/// Writes a list with a line for each item, which begins with `indent`.
pub(crate) fn lines(items: impl Iterator<Item = String>, indent: &str) -> String {
    joined(items, &format!("\n{indent}"), &format!(",\n{indent}"))
}

fn joined(items: impl Iterator<Item = String>, first: &str, next: &str) -> String {
    let mut text = String::from("[");
    for (index, item) in items.enumerate() {
        text.push_str(if index == 0 { first } else { next });
        text.push_str(&item);
    }
    text + "]"
}

/// Writes a text in quotes, with escapes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text becomes JSON")
}
