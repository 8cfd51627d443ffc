//! Docs, comments and messages are plain English: a list of stiff phrases stays rare.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

/// A regular expression, in verbose syntax, for phrases that read like a literal translation.
const MARKERS: &str = r"(?ix)
    \bso\ (?:many|much|long|few)\b | \bbehind\b | \b(?:that|those)\ of\b | \bis\ none\b |
    \bcan(?:not|'t)?\ be\ had\b | \bare\ none\b | \bof\ which\b | \bof\ whom\b | \bbut\ for\b |
    \bno\ more\b | \bstands?\b | \banew\b | \bin\ vain\b | \bnobody\b | \bwhoever\b |
    \bdear(?:er|est)?\b | ;\ whether\b | \bon\ which\b | \bwhose\ turn\b |
    \bone\ after\ the\ other\b | \bas\ many\ .{1,40}\ as\ there\ are\b | \bby\ so\ much\b |
    \bsuch\ (?:a\ )?one\b | \bwhat\ (?:is|was|has|lies|comes)\ (?:left|there|said|so)\b |
    \bthere\ it\ is\b | \bmeets?\ the\b | \bis\ (?:paid|given\ up|under\ way)\b |
    \bhow\ (?:far|long)\ .{1,30}\ is\b | \bcomes?\ (?:back|in)\ (?:as|by)\b";

/// Beginnings of phrases that are plain although they contain a marker.
const PLAIN: &str = r"(?i)\bso (?:many|much|long|few) (?:as|that|so)\b|\bstands? for\b";

/// Openings of doc comments that do not name their subject. A question may open this way.
const HEADLESS: &str = r"^(?:What|Whether|Who|How many|How much|So many|As)\b(?:[^.?]*)(?:\.|$)";

static REGEX: LazyLock<[Regex; 5]> = LazyLock::new(|| {
    [MARKERS, PLAIN, HEADLESS, r"^\s*(//[/!]?)\s?(.*)$", r#""((?:[^"\\]|\\.){20,})""#]
        .map(|pattern| Regex::new(pattern).unwrap())
});

/// Returns the prose of a file: each line's number, its text, and whether it opens a doc comment.
/// Prose is Markdown without code blocks and tables, or comments and long strings.
fn prose<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str, bool)> {
    let [.., comment, string] = &*REGEX;
    let (mut found, mut fenced, mut previous_doc) = (Vec::new(), false, false);
    for (number, line) in (1..).zip(text.split('\n')) {
        let is_markdown = path.ends_with(".md");
        let comment = comment.captures(line).filter(|_| !is_markdown);
        let text = comment.as_ref().map_or(line, |comment| comment.get(2).unwrap().as_str());
        let is_doc = comment.as_ref().is_some_and(|comment| &comment[1] != "//");
        if comment.is_none() && !is_markdown {
            let strings = string.captures_iter(line).map(|string| string.get(1).unwrap().as_str());
            found.extend(strings.map(|text| (number, text, false)));
        } else if text.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !(is_markdown && (text.starts_with("    ") || text.starts_with('|'))) {
            found.push((number, text, is_doc && !previous_doc));
        }
        previous_doc = is_doc;
    }
    found
}

fn markers(text: &str) -> usize {
    let [marker, plain, ..] = &*REGEX;
    marker.find_iter(&plain.replace_all(text, "")).count()
}

/// The words, the lines with markers, and the headless openings of some files.
#[derive(Default)]
struct Count {
    words: usize,
    marked: Vec<(usize, String)>,
    headless: Vec<String>,
}

impl Count {
    fn add(&mut self, path: &str, text: &str) {
        for (number, text, opens) in prose(path, text) {
            self.words += text.split_whitespace().count();
            let place = format!("{path}:{number}: {}", text.trim());
            if opens && REGEX[2].is_match(text) {
                self.headless.push(place.clone());
            }
            match markers(text) {
                0 => {}
                found => self.marked.push((found, place)),
            }
        }
    }

    /// Returns an error with the lines to rewrite, the worst first, if there are more than 1 marker
    /// in 1,000 words or any headless opening.
    fn verdict(mut self) -> Result<(), String> {
        let markers: usize = self.marked.iter().map(|(found, _)| found).sum();
        if 1000 * markers <= self.words && self.headless.is_empty() {
            return Ok(());
        }
        self.marked.sort_by_key(|&(found, _)| std::cmp::Reverse(found));
        let lines = self.headless.iter().chain(self.marked.iter().map(|(_, place)| place));
        let lines: Vec<&str> = lines.map(String::as_str).take(60).collect();
        let (headless, words) = (self.headless.len(), self.words);
        Err(format!(
            "{markers} markers and {headless} headless openings in {words} words, expected at most \
             1 marker in 1,000 words and no headless opening. Rewrite these lines:\n{}",
            lines.join("\n")
        ))
    }
}

fn count(path: &str, text: &str) -> Count {
    let mut count = Count::default();
    count.add(path, text);
    count
}

#[test]
fn docs_comments_and_messages_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        return edbatch_testing::skip("this is not a Git repository, so no file is tracked");
    };
    let names = String::from_utf8(listed.stdout).unwrap();
    let ends = [".rs", ".md", ".h", ".cu"];
    let mut count = Count::default();
    for path in names.split('\0').filter(|name| ends.iter().any(|end| name.ends_with(end))) {
        // A file may be deleted before Git knows it.
        if let Ok(bytes) = std::fs::read(root.join(path)) {
            count.add(path, &String::from_utf8_lossy(&bytes));
        }
    }
    assert!(count.words > 100_000, "only {} words were found", count.words);
    count.verdict().unwrap_or_else(|message| panic!("{message}"));
}

#[test]
fn stiff_phrases_are_counted() {
    assert_eq!(markers("So many rows lie Behind those of the last"), 3);
    assert_eq!(markers("in as many parts as there are threads; whether one meets the end"), 3);
    assert_eq!(markers("so long as it stands for a row, so much that it fits"), 0);
    assert_eq!(markers("so long ashore, and it stands forward"), 2);
    let source = "/// What it holds,\n/// Whether or not.\nlet behind = \"nobody\";\n\
                  // Who it is.\nfail(\"memory that cannot be had, at all\");\n\
                  /// ```\n/// let anew = 1;\n/// ```\n/// As before.\n\n/// What is it?\n";
    let source = count("a.rs", source);
    assert_eq!(source.marked, [(1, "a.rs:5: memory that cannot be had, at all".into())]);
    assert_eq!(source.headless, ["a.rs:1: What it holds,"]);
    assert_eq!(source.words, 3 + 3 + 3 + 7 + 2 + 3);
    let markdown = count("a.md", "# What it is\n\n```sh\nanew\n```\n    anew\n| anew |\nanew\n");
    assert_eq!((markdown.marked.len(), markdown.headless.len(), markdown.words), (1, 0, 5));
}

#[test]
fn two_markers_in_1_000_words_fail_and_so_does_a_headless_opening() {
    let plain = "word ".repeat(999);
    assert!(count("a.md", &format!("{plain} anew")).verdict().is_ok());
    let message = count("a.md", &format!("{plain}\nanew nobody")).verdict().unwrap_err();
    assert!(message.contains("2 markers") && message.ends_with("anew nobody"), "{message}");
    let message = count("a.rs", "/// Whether it is empty.\n").verdict().unwrap_err();
    assert!(message.ends_with("a.rs:1: Whether it is empty."), "{message}");
}
