//! Sentences of words with optional tags, `word|TAG word|TAG …`, one per line, and plain sentences
//! without tags.

use std::io::BufRead;
use std::path::Path;

use crate::error::Error;
use crate::lines::each_line;
use crate::open::open;

/// A sentence: words with optional tags.
///
/// *Invariant.* `tags` and `words` have the same length; [`Sentence::map`] and every reader
/// preserve this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence<T = String> {
    /// The words, or their numbers in a vocabulary.
    pub words: Vec<T>,
    /// The tag of each word, if it has one.
    pub tags: Vec<Option<String>>,
}

/// The format of tagged sentences, for error messages.
pub const SENTENCE_FORMAT: &str =
    "`word|tag word|tag …`, one sentence a line, words separated by spaces";

impl<T> Sentence<T> {
    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Maps the words, for example to their numbers in a vocabulary.
    pub fn map<U>(&self, word: impl FnMut(&T) -> U) -> Sentence<U> {
        Sentence { words: self.words.iter().map(word).collect(), tags: self.tags.clone() }
    }
}

/// Reads all tagged sentences of a file, plain or `.gz`.
pub fn read_sentences(path: impl AsRef<Path>) -> Result<Vec<Sentence>, Error> {
    let name = path.as_ref().display().to_string();
    parse_sentences(open(path)?, &name).collect()
}

/// Iterates over the tagged sentences in `reader`, one per line. A line without words is an empty
/// sentence. `name` is the file name in error messages.
///
/// Words are separated by ASCII spaces only. A tab is an error: files with a word and its tag on
/// each line, in columns, have another format. The tag follows the last `|` of a word; a word
/// without `|`, or with nothing after it, has no tag. A `|` at the beginning is part of the word:
/// `|` alone is a word.
///
/// ```
/// let text = "Paris|I-LOC is|O a|b|X\n\n";
/// let sentences = edbatch_datasets::parse_sentences(text.as_bytes(), "text");
/// let sentences = sentences.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(sentences[0].words, ["Paris", "is", "a|b"]);
/// assert_eq!(sentences[0].tags[0].as_deref(), Some("I-LOC"));
/// assert!(sentences[1].is_empty());
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_sentences<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Sentence, Error>> + use<R> {
    parse_checked_sentences(reader, name, |_| Ok(()))
}

/// Like [`parse_sentences`], but calls `check` with each tag. If it fails with the text that it
/// expected, the sentence is an error at this tag.
pub fn parse_checked_sentences<R: BufRead, C: FnMut(&str) -> Result<(), String>>(
    reader: R,
    name: &str,
    mut check: C,
) -> impl Iterator<Item = Result<Sentence, Error>> + use<R, C> {
    each_line(reader, name, move |lines| {
        let mut sentence = Sentence { words: Vec::new(), tags: Vec::new() };
        for piece in pieces(lines.current()) {
            if piece == "\t" {
                return Err(lines.error_at(piece, format!("{}, without tabs", SENTENCE_FORMAT)));
            }
            let (word, tag) = word_and_tag(piece);
            if let Some(tag) = tag {
                check(tag).map_err(|expected| lines.error_at(tag, expected))?;
            }
            sentence.words.push(word.to_string());
            sentence.tags.push(tag.map(str::to_string));
        }
        Ok(sentence)
    })
}

/// Iterates over the untagged sentences in `reader`, one per line, split at ASCII spaces and tabs.
/// A `|` is an ordinary character. `name` is the file name in error messages.
///
/// ```
/// let text = "what you see\n\nis a|b\n";
/// let sentences = edbatch_datasets::parse_plain(text.as_bytes(), "text");
/// let sentences = sentences.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(sentences, [vec!["what", "you", "see"], vec![], vec!["is", "a|b"]]);
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_plain<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Vec<String>, Error>> + use<R> {
    each_line(reader, name, |lines| Ok(words(lines.current())))
}

/// Splits a line at ASCII spaces and tabs.
pub(crate) fn words(line: &str) -> Vec<String> {
    pieces(line).filter(|&piece| piece != "\t").map(str::to_string).collect()
}

/// Iterates over the pieces of a line: tabs, and the words between spaces and tabs.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = &rest[rest.bytes().position(|byte| byte != b' ')?..];
        let end = match rest.as_bytes()[0] {
            b'\t' => 1,
            _ => rest.bytes().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len()),
        };
        let piece;
        (piece, rest) = rest.split_at(end);
        Some(piece)
    })
}

fn word_and_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once('|') {
        None | Some(("", _)) => (text, None),
        Some((word, "")) => (word, None),
        Some((word, tag)) => (word, Some(tag)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        let sentence = parse_sentences(input.as_bytes(), "in").next().unwrap().unwrap();
        let shown: Vec<String> = sentence
            .words
            .iter()
            .zip(&sentence.tags)
            .map(|(word, tag)| format!("{word}/{}", tag.as_deref().unwrap_or("")))
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn words_split_at_the_last_bar() {
        check("a|X b||Y c|d|Z e", "a/X b|/Y c|d/Z e/");
        check("  a|X  b ", "a/X b/");
        check("a\u{a0}b|X\u{3000}c", "a\u{a0}b/X\u{3000}c");
    }

    #[test]
    fn tabs_separate_plain_words_and_are_errors_in_tagged_sentences() {
        let plain = parse_plain("a\tb  c \t\td\t\n\t \n".as_bytes(), "in");
        let plain: Vec<_> = plain.map(Result::unwrap).collect();
        assert_eq!(plain, [vec!["a", "b", "c", "d"], vec![]]);
        for (line, column) in [("ü|X\tb|Y", 4), ("a\tX", 2), ("\t", 1), ("a b \t", 5)] {
            let error = parse_sentences(line.as_bytes(), "in").next().unwrap().unwrap_err();
            let expected =
                format!("in:1:{column}: expected {}, without tabs, got", SENTENCE_FORMAT);
            assert_eq!(error.to_string(), format!("{expected} \"\\t\""));
        }
    }

    #[test]
    fn a_bar_without_word_or_tag_is_part_of_the_word() {
        check("| || a| |X", "|/ |/ a/ |X/");
    }
}
