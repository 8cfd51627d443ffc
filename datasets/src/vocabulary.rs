//! A vocabulary: tokens and their numbers. `<unk>` is always number 0.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::Path;

use crate::error::{Error, quoted};
use crate::lines::Lines;
use crate::open::open;

/// The token that represents all unknown tokens.
pub const UNKNOWN: &str = "<unk>";

/// Tokens numbered from 0. Number 0 is always [`UNKNOWN`].
///
/// ```
/// use edbatch_datasets::Vocabulary;
///
/// let words = Vocabulary::from_tokens("to be or not to be".split(' '));
/// assert_eq!((words.len(), words.id("be"), words.id("question")), (5, 2, 0));
/// assert_eq!((words.token(4), words.token(99)), (Some("not"), None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// Creates a vocabulary that contains only [`UNKNOWN`].
    pub fn new() -> Self {
        let mut vocabulary = Vocabulary { tokens: Vec::new(), ids: HashMap::new() };
        vocabulary.insert(UNKNOWN);
        vocabulary
    }

    /// Creates a vocabulary of [`UNKNOWN`] and the given tokens, in the order of their first
    /// occurrence.
    pub fn from_tokens<S: AsRef<str>>(tokens: impl IntoIterator<Item = S>) -> Self {
        let mut vocabulary = Vocabulary::new();
        for token in tokens {
            vocabulary.insert(token.as_ref());
        }
        vocabulary
    }

    /// Returns the number of `token`, appending it if it is new.
    ///
    /// # Panics
    ///
    /// If the vocabulary has 2³² tokens.
    pub fn insert(&mut self, token: &str) -> u32 {
        if let Some(&id) = self.ids.get(token) {
            return id;
        }
        let id = u32::try_from(self.tokens.len()).expect("a vocabulary has fewer than 2^32 tokens");
        self.tokens.push(token.to_string());
        self.ids.insert(token.to_string(), id);
        id
    }

    /// Returns the number of `token`, or 0 if it is unknown.
    pub fn id(&self, token: &str) -> u32 {
        self.ids.get(token).copied().unwrap_or(0)
    }

    /// Returns true if `token` is in the vocabulary.
    pub fn contains(&self, token: &str) -> bool {
        self.ids.contains_key(token)
    }

    /// Returns the token with number `id`.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// Returns all tokens, by number.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the number of tokens, including [`UNKNOWN`].
    #[expect(clippy::len_without_is_empty, reason = "it always contains <unk>")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Reads a file with one token per line, plain or `.gz`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let name = path.as_ref().display().to_string();
        Vocabulary::parse(open(path)?, &name)
    }

    /// Parses one token per line. The first must be [`UNKNOWN`]; empty and repeated tokens are
    /// errors. `name` is the file name in error messages.
    ///
    /// ```
    /// let text = "<unk>\nthe\nthe\n";
    /// let read = edbatch_datasets::Vocabulary::parse(text.as_bytes(), "vocab.txt");
    /// let expected = "vocab.txt:3:1: expected a new token, \
    ///     got \"the\", which is on line 2 already";
    /// assert_eq!(read.unwrap_err().to_string(), expected);
    /// ```
    pub fn parse(reader: impl BufRead, name: &str) -> Result<Self, Error> {
        let mut lines = Lines::new(reader, name);
        let mut vocabulary = Vocabulary::new();
        let first = "\"<unk>\" in the first line";
        if lines.next_line()?.is_none() {
            return Err(lines.error_at_end(first));
        }
        if lines.current() != UNKNOWN {
            return Err(lines.error(0, first, quoted(lines.current())));
        }
        vocabulary.append(&mut lines, "token")?;
        Ok(vocabulary)
    }

    /// Appends a token for each line. `what` names it in errors.
    fn append<R: BufRead>(&mut self, lines: &mut Lines<R>, what: &str) -> Result<(), Error> {
        while lines.next_line()?.is_some() {
            let token = lines.current();
            if token.is_empty() {
                return Err(lines.error(0, format!("a {what}"), "an empty line"));
            }
            if let Some(&earlier) = self.ids.get(token) {
                let got = format!("{}, which is on line {} already", quoted(token), earlier + 1);
                return Err(lines.error(0, format!("a new {what}"), got));
            }
            self.insert(token);
        }
        Ok(())
    }

    /// Writes one token per line, for [`Vocabulary::parse`].
    ///
    /// A token that is empty or contains a line end is an error of kind `InvalidInput`.
    pub fn write(&self, mut writer: impl Write) -> io::Result<()> {
        for token in &self.tokens {
            crate::write::check_token(token, &['\n', '\r'])?;
            writeln!(writer, "{token}")?;
        }
        Ok(())
    }
}

/// Reads a file with one name per line, plain or `.gz`. Empty and repeated names are errors.
pub fn read_names(path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
    let name = path.as_ref().display().to_string();
    let mut names = Vocabulary { tokens: Vec::new(), ids: HashMap::new() };
    names.append(&mut Lines::new(open(path)?, &name), "name")?;
    Ok(names.tokens)
}

impl Default for Vocabulary {
    fn default() -> Self {
        Vocabulary::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        let got = match Vocabulary::parse(input.as_bytes(), "in") {
            Ok(vocabulary) => vocabulary.tokens().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn vocabularies_are_read() {
        check("<unk>", "<unk>");
        check("<unk>\n<s>\nü\u{a0}\n", "<unk> <s> ü\u{a0}");
    }

    #[test]
    fn errors_have_line_and_column() {
        check("", "in:1:1: expected \"<unk>\" in the first line, got the end of the file");
        check("the\n<unk>\n", "in:1:1: expected \"<unk>\" in the first line, got \"the\"");
        check("<unk>\na\n\nb", "in:3:1: expected a token, got an empty line");
        check(
            "<unk>\na\n<unk>",
            "in:3:1: expected a new token, got \"<unk>\", which is on line 1 already",
        );
    }
}
