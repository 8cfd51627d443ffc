//! Docs, comments and messages are plain English: a list of stiff phrases stays rare.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

/// Phrases that read like a literal translation. Case does not matter.
const MARKERS: &[&str] = &[
    r"\bso (?:many|much|long|few)\b",
    r"\bbehind\b",
    r"\b(?:that|those) of\b",
    r"\bcan(?:not|'t)? be had\b",
    r"\bis none\b",
    r"\bare none\b",
    r"\bof which\b",
    r"\bof whom\b",
    r"\bbut for\b",
    r"\bno more\b",
    r"\bstands?\b",
    r"\banew\b",
    r"\bin vain\b",
    r"\bnobody\b",
    r"\bwhoever\b",
    r"\bdear(?:er|est)?\b",
    r"; whether\b",
    r"\bon which\b",
    r"\bwhose turn\b",
    r"\bone after the other\b",
    r"\bas many .{1,40} as there are\b",
    r"\bby so much\b",
    r"\bsuch (?:a )?one\b",
    r"\bwhat (?:is|was|has|lies|comes) (?:left|there|said|so)\b",
    r"\bthere it is\b",
    r"\bmeets? the\b",
    r"\bis (?:paid|given up|under way)\b",
    r"\bhow (?:far|long) .{1,30} is\b",
    r"\bcomes? (?:back|in) (?:as|by)\b",
];

/// Words that make a marker plain if they follow it: the marker's beginning, then the words.
const EXCEPTIONS: &[(&str, &str)] =
    &[("so ", r"(?i)^ (?:as|that|so)\b"), ("stand", r"(?i)^ for\b")];

/// Openings that do not name their subject. A question may open this way.
const HEADLESS: &str = r"^(?:What|Whether|Who|How many|How much|So many|As)\b";

/// The largest number of markers in 1,000 words.
const MAX_MARKERS: usize = 1;

static MARKER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("(?i)(?:{})", MARKERS.join("|"))).unwrap());
static PLAIN: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    EXCEPTIONS.iter().map(|(marker, next)| (*marker, Regex::new(next).unwrap())).collect()
});
static HEAD: LazyLock<Regex> = LazyLock::new(|| Regex::new(HEADLESS).unwrap());
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*(//[/!]?)\s?(.*)$").unwrap());
static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.){20,})""#).unwrap());

/// Text for people, taken from one line of a file.
struct Prose<'a> {
    line: usize,
    text: &'a str,
    /// True for the first line of a doc comment.
    opens: bool,
}

/// The prose of a file: Markdown without code blocks and tables, or comments and long strings.
fn prose<'a>(path: &str, text: &'a str) -> Vec<Prose<'a>> {
    let (mut found, mut fenced, mut previous_doc) = (Vec::new(), false, false);
    for (line, text) in (1..).zip(text.split('\n')) {
        if path.ends_with(".md") {
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced && !text.starts_with("    ") && !text.starts_with('|') {
                found.push(Prose { line, text, opens: false });
            }
        } else if let Some(comment) = COMMENT.captures(text) {
            let doc = &comment[1] != "//";
            let text = comment.get(2).unwrap().as_str();
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                found.push(Prose { line, text, opens: doc && !previous_doc });
            }
            previous_doc = doc;
        } else {
            previous_doc = false;
            let strings = STRING.captures_iter(text).map(|string| string.get(1).unwrap().as_str());
            found.extend(strings.map(|text| Prose { line, text, opens: false }));
        }
    }
    found
}

/// Returns the number of markers in a line. They do not overlap.
fn markers(text: &str) -> usize {
    let (mut count, mut start) = (0, 0);
    while let Some(found) = MARKER.find_at(text, start) {
        let (marker, rest) = (found.as_str().to_lowercase(), &text[found.end()..]);
        if PLAIN.iter().any(|(begins, next)| marker.starts_with(begins) && next.is_match(rest)) {
            // A marker begins with an ASCII character.
            start = found.start() + 1;
        } else {
            count += 1;
            start = found.end();
        }
    }
    count
}

/// Returns true if the first line of a doc comment does not name its subject.
fn headless(text: &str) -> bool {
    let opening = HEAD.find(text);
    opening.is_some_and(|found| {
        let sentence = text[found.end()..].split('.').next().unwrap_or_default();
        !sentence.contains('?')
    })
}

/// The figures of a set of files, and the lines that an author should rewrite.
#[derive(Default)]
struct Count {
    words: usize,
    markers: usize,
    /// Number of markers, place and text of each line that has any.
    marked: Vec<(usize, String)>,
    headless: Vec<String>,
}

impl Count {
    fn add(&mut self, path: &str, text: &str) {
        for Prose { line, text, opens } in prose(path, text) {
            let place = || format!("{path}:{line}: {}", text.trim());
            let found = markers(text);
            self.words += text.split_whitespace().count();
            self.markers += found;
            if found > 0 {
                self.marked.push((found, place()));
            }
            if opens && headless(text) {
                self.headless.push(place());
            }
        }
    }

    /// Returns the figures, or a message with the lines to rewrite, the worst first.
    fn verdict(mut self) -> Result<String, String> {
        let figures = format!(
            "{} markers and {} headless openings in {} words",
            self.markers,
            self.headless.len(),
            self.words
        );
        let stiff = 1000 * self.markers > MAX_MARKERS * self.words;
        if !stiff && self.headless.is_empty() {
            return Ok(figures);
        }
        let mut message = format!(
            "{figures}: expected at most {MAX_MARKERS} marker in 1,000 words, and no headless \
             opening. Rewrite these lines:\n"
        );
        if stiff {
            self.marked.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        } else {
            self.marked.clear();
        }
        for place in self.headless.iter().chain(self.marked.iter().map(|(_, place)| place)).take(60)
        {
            writeln!(message, "{place}").unwrap();
        }
        Err(message)
    }
}

/// The tracked files with prose, or `None` outside of a Git repository.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let names = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let ends = [".rs", ".md", ".h", ".cu"];
    let prose = names.split('\0').filter(|name| ends.iter().any(|end| name.ends_with(end)));
    Some(prose.map(String::from).collect())
}

#[test]
fn docs_comments_and_messages_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(files) = tracked(&root) else {
        return edbatch_testing::skip("this is not a Git repository, so no file is tracked");
    };
    assert!(files.len() > 300, "Git lists only {} files", files.len());
    let mut count = Count::default();
    for path in files {
        // A file may be deleted before Git knows it.
        if let Ok(bytes) = std::fs::read(root.join(&path)) {
            count.add(&path, &String::from_utf8_lossy(&bytes));
        }
    }
    match count.verdict() {
        Ok(figures) => println!("{figures}"),
        Err(message) => panic!("{message}"),
    }
}

fn count(path: &str, text: &str) -> Count {
    let mut count = Count::default();
    count.add(path, text);
    count
}

#[test]
fn markers_are_found_whatever_their_case() {
    assert_eq!(markers("So many rows lie Behind those of the last"), 3);
    assert_eq!(markers("in as many parts as there are threads; whether one meets the end"), 3);
    assert_eq!(markers("how far a run is, and of which kind"), 2);
    assert_eq!(markers("a list of `n` rows after the last"), 0);
}

#[test]
fn markers_are_plain_before_certain_words() {
    assert_eq!(markers("so long as it stands for a row, so much that it fits"), 0);
    assert_eq!(markers("so long ashore, and it stands forward"), 2);
    assert_eq!(markers("so much that of which"), 1);
}

#[test]
fn headless_openings_are_found_unless_they_ask() {
    assert!(headless("What a batch holds."));
    assert!(headless("As [`run`], on one thread. Why?"));
    assert!(!headless("What does a batch hold?"));
    assert!(!headless("Assigns a row."));
    assert!(!headless("The rows, as many as fit."));
}

#[test]
fn source_files_yield_comments_and_long_strings() {
    let source = "/// What it holds,\n/// Whether or not.\nlet behind = \"nobody\";\n\
                  // Who it is.\nfail(\"memory that cannot be had, at all\");\n\
                  /// ```\n/// let anew = 1;\n/// ```\n/// As before.\n";
    let count = count("a.rs", source);
    assert_eq!(count.marked, [(1, "a.rs:5: memory that cannot be had, at all".into())]);
    assert_eq!(count.headless, ["a.rs:1: What it holds,"]);
    assert_eq!(count.words, 3 + 3 + 3 + 7 + 2);
}

#[test]
fn markdown_yields_all_but_code_and_tables() {
    let text = "# What it is\n\n```sh\nanew\n```\n    anew\n| anew |\nanew\n";
    let count = count("a.md", text);
    assert_eq!(count.marked, [(1, "a.md:8: anew".into())]);
    assert_eq!((count.headless.len(), count.words), (0, 5));
}

#[test]
fn a_marker_in_1_000_words_passes_and_two_fail() {
    let plain = "word ".repeat(999);
    assert!(count("a.md", &format!("{plain} anew")).verdict().is_ok());
    let message = count("a.md", &format!("{plain}\nanew nobody")).verdict().unwrap_err();
    assert!(message.contains("2 markers") && message.contains("a.md:2: anew nobody"), "{message}");
}

#[test]
fn a_single_headless_opening_fails() {
    let message = count("a.rs", "/// Whether it is empty.\n").verdict().unwrap_err();
    assert!(message.ends_with("a.rs:1: Whether it is empty.\n"), "{message}");
}
