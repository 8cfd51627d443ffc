//! Trees of labels as text, such as `(ant [bee "cat fish" dog])`.
//!
//! A label is quoted if it is empty or contains a blank, a bracket, a double quote or a backslash.
//! In quotes, double quotes and backslashes are escaped with a backslash.

use super::{Labeled, LabeledError};
use crate::text::{ParseError, Token, read};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::hash::Hash;
use core::str::FromStr;

/// The reason why a text is not a tree of labels. `E` is the error of parsing a label.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LabeledParseError<E> {
    /// The text is not a tree.
    Text(ParseError),
    /// A label cannot be parsed.
    Label {
        /// The index of the label, from 0.
        index: usize,
        /// The reason.
        error: E,
    },
    /// A label is repeated.
    Repeated {
        /// The index of the second one, from 0.
        index: usize,
    },
}

impl<T: fmt::Display> fmt::Display for Labeled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.write_text(f, |f, leaf| write_label(f, &self.label(leaf).to_string()))
    }
}

impl<T: fmt::Debug> fmt::Debug for Labeled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Labeled(")?;
        self.tree.write_text(f, |f, leaf| write!(f, "{:?}", self.label(leaf)))?;
        f.write_str(")")
    }
}

fn write_label(f: &mut fmt::Formatter<'_>, label: &str) -> fmt::Result {
    if !label.is_empty() && !label.contains(|part| ends_word(part) || part == '\\') {
        return f.write_str(label);
    }
    f.write_char('"')?;
    for part in label.chars() {
        if matches!(part, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(part)?;
    }
    f.write_char('"')
}

fn ends_word(part: char) -> bool {
    part.is_whitespace() || matches!(part, '(' | ')' | '[' | ']' | '"')
}

impl<T: Eq + Hash + FromStr> FromStr for Labeled<T> {
    type Err = LabeledParseError<T::Err>;

    /// Parses the [displayed](fmt::Display) text. Leaves are numbered from left to right.
    ///
    /// ```
    /// # use pqtree::Labeled;
    /// let text = r#"(ant [bee "cat fish" dog])"#;
    /// let mut tree: Labeled<String> = text.parse()?;
    /// assert_eq!(tree.leaf(&"cat fish".to_string()), Some(2));
    /// assert_eq!(tree.to_string(), text);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = Vec::new();
        let tokens = tokens(text, &mut words).map_err(LabeledParseError::Text)?;
        let tree = read(tokens).map_err(LabeledParseError::Text)?;
        let label = |(index, word): (usize, String)| {
            word.parse().map_err(|error| LabeledParseError::Label { index, error })
        };
        let labels = words.into_iter().enumerate().map(label).collect::<Result<_, _>>()?;
        Self::with_tree(tree, labels).map_err(|error| match error {
            LabeledError::Repeated { index } => LabeledParseError::Repeated { index },
            error => unreachable!("each leaf has one label: {error}"),
        })
    }
}

/// Splits a text into tokens. Appends the labels to `words`; a leaf token is a label's index.
fn tokens(text: &str, words: &mut Vec<String>) -> Result<Vec<Token>, ParseError> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some(&(at, found)) = rest.peek() {
        if let Some(token) = Token::bracket(found, at) {
            tokens.push(token);
        } else if !found.is_whitespace() {
            tokens.push(Token::Leaf(words.len() as u64));
            words.push(match found {
                '"' => quoted(&mut rest).ok_or(ParseError::Unclosed { at })?,
                _ => word(&mut rest),
            });
            continue;
        }
        rest.next();
    }
    Ok(tokens)
}

type Rest<'a> = core::iter::Peekable<core::str::CharIndices<'a>>;

/// Returns the word at the start of a text.
fn word(rest: &mut Rest<'_>) -> String {
    core::iter::from_fn(|| rest.next_if(|&(_, part)| !ends_word(part)))
        .map(|(_, part)| part)
        .collect()
}

/// Returns the quoted label at the start of a text, or `None` without a closing quote.
fn quoted(rest: &mut Rest<'_>) -> Option<String> {
    rest.next();
    let mut label = String::new();
    loop {
        match rest.next()?.1 {
            '"' => return Some(label),
            '\\' => label.push(rest.next()?.1),
            part => label.push(part),
        }
    }
}

impl<E: fmt::Display> fmt::Display for LabeledParseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Label { index, error } => write!(f, "label {index}: {error}"),
            Self::Repeated { index } => LabeledError::Repeated { index: *index }.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for LabeledParseError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Text(error) => Some(error),
            Self::Label { error, .. } => Some(error),
            Self::Repeated { .. } => None,
        }
    }
}
