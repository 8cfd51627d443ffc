//! Lattices as JSON, one per line:
//! `{"chars": ["一", "节"], "words": [[0, 1, "一节"]], "tags": ["O", "O"]}`.
//!
//! `tags` and `labels` (for each character a number or null) are optional, `words` is not;
//! other members are ignored. An empty line, or one of spaces, is an empty lattice.

use std::io::BufRead;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, quoted};
use crate::lattice::{Label, Lattice, WordArc};
use crate::lines::{Lines, each_line};
use crate::open::open;

/// Reads all lattices of a JSON-lines file, plain or `.gz`.
pub fn read_lattices(path: impl AsRef<Path>) -> Result<Vec<Lattice>, Error> {
    let name = path.as_ref().display().to_string();
    parse_lattices(open(path)?, &name).collect()
}

/// Iterates over the lattices in `reader`, one JSON object per line. `name` is the file name in
/// error messages.
///
/// ```
/// let text = r#"{"chars": ["a", "b"], "words": [[0, 1, "ab"]]}
/// {"chars": ["a", "b"], "words": [[0, 2, "abc"]]}"#;
/// let mut lattices = edbatch_datasets::parse_lattices(text.as_bytes(), "l.jsonl");
/// assert_eq!(lattices.next().unwrap()?.words[0].word, "ab");
/// let error = lattices.next().unwrap().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "l.jsonl:2:33: expected a word with start < end < 2 characters, got start 0, end 2"
/// );
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_lattices<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Lattice, Error>> + use<R> {
    each_line(reader, name, lattice_of_line)
}

/// Like [`parse_lattices`], but calls `check` with each label of [`Lattice::class_labels`]. If it
/// fails with the text that it expected, the lattice is an error at this label.
///
/// ```
/// use edbatch_datasets::{Label, parse_checked_lattices};
///
/// let text = r#"{"chars": ["a", "b"], "words": [], "tags": ["O", "X"]}"#;
/// let check = |label: Label<'_>| match label {
///     Label::Name("O") | Label::Number(0) => Ok(()),
///     _ => Err("\"O\" or 0".to_string()),
/// };
/// let error = parse_checked_lattices(text.as_bytes(), "in", check).next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "in:1:50: expected \"O\" or 0, got \"X\"");
/// ```
pub fn parse_checked_lattices<R: BufRead, C: FnMut(Label<'_>) -> Result<(), String>>(
    reader: R,
    name: &str,
    mut check: C,
) -> impl Iterator<Item = Result<Lattice, Error>> + use<R, C> {
    each_line(reader, name, move |lines| {
        let lattice = lattice_of_line(lines)?;
        for (index, label) in lattice.class_labels().enumerate() {
            let Some(label) = label else { continue };
            if let Err(expected) = check(label) {
                let line = lines.current();
                let byte = offset(line, |raw| {
                    let labels = if lattice.labels.is_empty() { raw.tags } else { raw.labels };
                    let labels: Vec<&RawValue> = serde_json::from_str(labels?.get()).ok()?;
                    labels.get(index).copied()
                });
                let got = match label {
                    Label::Name(name) => quoted(name),
                    Label::Number(number) => number.to_string(),
                };
                return Err(lines.error(byte, expected, got));
            }
        }
        Ok(lattice)
    })
}

#[derive(Deserialize)]
struct JsonLattice {
    chars: Vec<String>,
    words: Vec<(u32, u32, String)>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    labels: Vec<Option<i64>>,
}

fn lattice_of_line<R: BufRead>(lines: &Lines<R>) -> Result<Lattice, Error> {
    let line = lines.current();
    if line.trim_ascii().is_empty() {
        return Ok(Lattice::default());
    }
    let JsonLattice { chars, words, tags, labels } =
        serde_json::from_str(line).map_err(|wrong| json_error(lines, &wrong))?;
    let outside =
        |&(start, end, _): &(u32, u32, String)| end <= start || end as usize >= chars.len();
    if let Some(index) = words.iter().position(outside) {
        let (start, end, _) = words[index];
        let expected = format!("a word with start < end < {} characters", chars.len());
        let byte = offset(line, |raw| raw.words.get(index).copied());
        return Err(lines.error(byte, expected, format!("start {start}, end {end}")));
    }
    let counts = [("tag", tags.len()), ("label", labels.len())];
    if let Some((one, count)) = counts.into_iter().find(|(_, n)| ![0, chars.len()].contains(n)) {
        let expected = format!("no {one} or one for each of {} characters", chars.len());
        let byte = offset(line, |raw| if one == "tag" { raw.tags } else { raw.labels });
        return Err(lines.error(byte, expected, format!("{count} {one}s")));
    }
    let words = words.into_iter().map(|(start, end, word)| WordArc { start, end, word }).collect();
    Ok(Lattice { chars, words, tags, labels })
}

fn json_error<R: BufRead>(lines: &Lines<R>, wrong: &serde_json::Error) -> Error {
    let message = wrong.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let line = lines.current();
    let byte = if wrong.is_eof() { line.len() } else { wrong.column().saturating_sub(1) };
    let got = match line.get(byte..) {
        Some("") => "the end of the line".to_string(),
        rest => quoted(rest.unwrap_or("")),
    };
    let expected = "{\"chars\": [\"一\", …], \"words\": [[start, end, \"word\"], …]}";
    lines.error(byte, expected, format!("{got} ({message})"))
}

/// The members of a lattice as slices of its line.
#[derive(Deserialize)]
struct RawLattice<'a> {
    #[serde(borrow)]
    words: Vec<&'a RawValue>,
    #[serde(borrow)]
    tags: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

/// Returns the offset of a part of a line. Parses the line again; called only for error messages.
fn offset(line: &str, part: impl FnOnce(RawLattice<'_>) -> Option<&RawValue>) -> usize {
    let part = serde_json::from_str(line).ok().and_then(part);
    part.map_or(0, |part| part.get().as_ptr() as usize - line.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[&str]) {
        let show = |lattice: Result<Lattice, Error>| match lattice {
            Ok(lattice) => format!(
                "{} chars {} words {} tags",
                lattice.len(),
                lattice.words.len(),
                lattice.tags.len()
            ),
            Err(error) => error.to_string(),
        };
        let got: Vec<String> = parse_lattices(input.as_bytes(), "in").map(show).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn lattices_are_read() {
        check("\n{\"chars\":[],\"words\":[]}\n \t\n", &["0 chars 0 words 0 tags"; 3]);
        check(
            r#"{"id": 7, "tags": ["O", "O"], "words": [[0, 1, "ab"]], "chars": ["a", "b"]}"#,
            &["2 chars 1 words 2 tags"],
        );
    }

    #[test]
    fn words_must_be_inside_the_lattice() {
        let expected = "expected a word with start < end < 3 characters, got start";
        let error = |place: &str, word: &str| format!("in:1:{place}: {expected} {word}");
        check(
            r#"{"chars":["ü","b","c"],"words":[[0,1,"üb"],[2,3,"x"]]}"#,
            &[&error("44", "2, end 3")],
        );
        check(r#"{"words":[[1,1,"b"]],"chars":["ü","b","c"]}"#, &[&error("11", "1, end 1")]);
        check(r#"{"words":[[2,1,"b"]],"chars":["ü","b","c"]}"#, &[&error("11", "2, end 1")]);
    }

    #[test]
    fn tags_must_match_the_number_of_characters() {
        check(
            r#"{"chars":["a","b"],"tags":["O"],"words":[]}"#,
            &["in:1:27: expected no tag or one for each of 2 characters, got 1 tags"],
        );
    }

    #[test]
    fn errors_have_line_and_column() {
        for (line, part) in [
            ("{\"chars\":[]}", "missing field `words`"),
            ("{\"chars\":[1],\"words\":[]}", "in:1:11: "),
            ("{\"chars\":[],\"words\":[[-1,2,\"\"]]}", "`-1`"),
            ("{\"chars\":[],\"words\":[[4294967296,2,\"\"]]}", "`4294967296`"),
            ("[", "end of the line"),
            ("{\"chars\":[],\"words\":[]} x", "in:1:25: "),
        ] {
            let error =
                parse_lattices(line.as_bytes(), "in").next().unwrap().unwrap_err().to_string();
            assert!(error.starts_with("in:1:") && error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn deeply_nested_json_is_an_error() {
        let line = format!("{{\"chars\":[],\"words\":[],\"x\":{}", "[".repeat(100_000));
        assert!(parse_lattices(line.as_bytes(), "in").next().unwrap().is_err());
    }
}
