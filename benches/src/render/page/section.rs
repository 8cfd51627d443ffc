//! A question with its answer, plots and method.

use std::fmt::Write;

use crate::render::palette::Colour;
use crate::render::table::escaped;

/// A section of the page.
#[derive(Default)]
pub(super) struct Section {
    /// Name in links.
    pub(super) id: &'static str,
    /// The question.
    pub(super) title: &'static str,
    /// The answer.
    pub(super) answer: String,
    /// Colours and their meaning.
    pub(super) key: Vec<(&'static str, Colour)>,
    /// Captions and plots.
    pub(super) plots: Vec<(String, String)>,
    /// Captions and plots that are collapsed at first.
    pub(super) more: Vec<(String, String)>,
    /// The method.
    pub(super) method: &'static str,
    /// Limitations of the figures.
    pub(super) bias: &'static str,
    /// The command that repeats the measurement.
    pub(super) command: &'static str,
}

impl Section {
    pub(super) fn write(&self, page: &mut String) -> std::fmt::Result {
        let Self { id, title, .. } = self;
        writeln!(page, "<section id=\"{id}\"><h2>{title}</h2>")?;
        writeln!(page, "<p>{}</p>", escaped(&self.answer))?;
        page.push_str(&key(&self.key));
        multiples(page, &self.plots)?;
        if !self.more.is_empty() {
            writeln!(page, "<details><summary>{} more plots</summary>", self.more.len())?;
            multiples(page, &self.more)?;
            writeln!(page, "</details>")?;
        }
        writeln!(
            page,
            "<dl><dt>Method</dt><dd>{}</dd><dt>Bias</dt><dd>{}</dd><dt>Command</dt>\
             <dd><code>{}</code></dd></dl></section>",
            escaped(self.method),
            escaped(self.bias),
            self.command,
        )
    }
}

/// Returns the HTML that explains colours.
pub(super) fn key(entries: &[(&str, Colour)]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let entry = |(name, colour): &(&str, Colour)| {
        format!("<span><i style=\"background:{}\"></i>{}</span>", colour.hex(), escaped(name))
    };
    let entries: String = entries.iter().map(entry).collect();
    format!("<div class=\"key\">{entries}</div>\n")
}

fn multiples(page: &mut String, plots: &[(String, String)]) -> std::fmt::Result {
    writeln!(page, "<div class=\"multiples\">")?;
    for (caption, svg) in plots {
        let caption = escaped(caption);
        writeln!(page, "<figure><figcaption><b>{caption}</b></figcaption>{svg}</figure>")?;
    }
    writeln!(page, "</div>")
}
