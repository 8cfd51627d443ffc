//! Pairs of sentences from two line-aligned files, such as a text and its translation.

use std::io::BufRead;
use std::path::Path;

use crate::error::Error;
use crate::lines::{Lines, until_error};
use crate::open::open;
use crate::sentence::words;

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair<T = String> {
    /// The words of the sentence.
    pub source: Vec<T>,
    /// The words of the translation.
    pub target: Vec<T>,
}

impl<T> Pair<T> {
    /// Maps the words, for example to their numbers in two vocabularies.
    pub fn map<U>(&self, source: impl FnMut(&T) -> U, target: impl FnMut(&T) -> U) -> Pair<U> {
        Pair {
            source: self.source.iter().map(source).collect(),
            target: self.target.iter().map(target).collect(),
        }
    }
}

/// Reads all pairs of two files, plain or `.gz`.
pub fn read_pairs(source: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Vec<Pair>, Error> {
    let names = [source.as_ref(), target.as_ref()].map(|path| path.display().to_string());
    parse_pairs((open(source)?, &names[0]), (open(target)?, &names[1])).collect()
}

/// Iterates over the pairs of two readers, each with its file name for error messages. It is an
/// error if the numbers of lines differ. The iterator ends after its first error.
///
/// ```
/// let (english, french) = ("a cat\na dog\n", "un chat\n");
/// let (english, french) = ((english.as_bytes(), "en"), (french.as_bytes(), "fr"));
/// let mut pairs = edbatch_datasets::parse_pairs(english, french);
/// assert_eq!(pairs.next().unwrap()?.target, ["un", "chat"]);
/// let error = pairs.next().unwrap().unwrap_err();
/// let expected = "fr:2:1: expected a line for line 2 of en, got the end of the file";
/// assert_eq!(error.to_string(), expected);
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_pairs<R: BufRead, S: BufRead>(
    source: (R, &str),
    target: (S, &str),
) -> impl Iterator<Item = Result<Pair, Error>> + use<R, S> {
    let mut source = Lines::new(source.0, source.1);
    let mut target = Lines::new(target.0, target.1);
    until_error(move || match (source.next_line()?.map(words), target.next_line()?.map(words)) {
        (None, None) => Ok(None),
        (Some(source), Some(target)) => Ok(Some(Pair { source, target })),
        (Some(_), None) => Err(missing(&target, &source)),
        (None, Some(_)) => Err(missing(&source, &target)),
    })
}

fn missing<A: BufRead, B: BufRead>(short: &Lines<A>, long: &Lines<B>) -> Error {
    short.error_at_end(format!("a line for line {} of {}", long.number(), long.file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_first_file_is_an_error() {
        let pairs: Vec<_> = parse_pairs((&b"a\n"[..], "x"), (&b"b\nc\nd\n"[..], "y")).collect();
        assert_eq!(pairs.len(), 2, "the iterator ends after the error");
        let error = pairs[1].as_ref().unwrap_err().to_string();
        assert_eq!(error, "x:2:1: expected a line for line 2 of y, got the end of the file");
    }

    #[test]
    fn empty_lines_are_empty_sentences() {
        let pairs: Vec<_> =
            parse_pairs((&b"\na|b"[..], "x"), (&b"b \n\n"[..], "y")).map(Result::unwrap).collect();
        assert_eq!((pairs[0].source.len(), pairs[0].target.len()), (0, 1));
        assert_eq!((pairs[1].source[0].as_str(), pairs[1].target.len()), ("a|b", 0));
    }
}
