//! Errors of JSON texts, with their place, what was expected and what was found.

use std::fmt;

/// An error in a text that should be JSON of a certain form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{column}: expected {expected}, got {got}")]
pub struct JsonFault {
    /// The line of the text, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// A description of what was expected there.
    pub expected: String,
    /// A description of the text found there.
    pub got: String,
}

/// The maximum number of bytes of a string as it is written: every byte of a name may be escaped.
const MAX_STRING: usize = 6 * MAX_NAME;

/// The maximum number of bytes of a name.
pub(crate) const MAX_NAME: usize = 256;

impl JsonFault {
    /// An error at a byte of the text.
    pub(crate) fn new(
        text: &str,
        byte: usize,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        let before = &text.as_bytes()[..byte.min(text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // Not continuation bytes.
        let column = before[start..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        Self { line, column, expected: expected.into(), got: shortened(&got.into()) }
    }

    /// Adds the item of the text that has the error.
    #[must_use]
    pub(crate) fn within(mut self, item: &str) -> Self {
        self.got = format!("{} ({item})", self.got);
        self
    }

    /// The error of a part of the text that begins at a byte. `syntax` describes the whole part.
    pub(crate) fn of(text: &str, start: usize, error: &serde_json::Error, syntax: &str) -> Self {
        let part = &text[start..];
        if part.starts_with("version https://git-lfs") {
            let got = "a pointer of Git LFS: run `git lfs pull` to get the file itself";
            return Self::new(text, start, "JSON", got);
        }
        let line = part.split_inclusive('\n').take(error.line().saturating_sub(1));
        let mut byte = line.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        if error.is_eof() {
            byte = part.len();
        }
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        let (expected, got) = split(message).unwrap_or_else(|| {
            let got = match part.as_bytes().get(byte..) {
                None | Some([]) => "the end of the text".to_string(),
                Some(rest) => {
                    // Short, so that the message fits after it.
                    let rest = String::from_utf8_lossy(&rest[..rest.len().min(SHOWN)]);
                    format!("{:?}", rest.chars().take(SHOWN / 4).collect::<String>())
                }
            };
            let expected = if error.is_syntax() { "valid JSON" } else { syntax };
            (expected.to_string(), format!("{got} ({message})"))
        });
        Self::new(text, start + byte, expected, got)
    }
}

/// Splits a message of serde into what was expected and what was found.
fn split(message: &str) -> Option<(String, String)> {
    if let Some(rest) = message.strip_prefix("expected ") {
        let (expected, got) = rest.split_once(GOT)?;
        return Some((expected.into(), got.into()));
    }
    if let Some(member) = message.strip_prefix("missing field ") {
        return Some((format!("the member {member}"), "an object without it".into()));
    }
    if let Some(member) = message.strip_prefix("duplicate field ") {
        return Some((format!("the member {member} once"), "it a second time".into()));
    }
    let (found, expected) = message.rsplit_once(", expected ")?;
    let found = match found.strip_prefix("unknown field ") {
        Some(member) => format!("the unknown member {member}"),
        None => found.split_once(": ").map_or(found, |(_, found)| found).to_string(),
    };
    let expected = match expected {
        "u16" => "a whole number below 2^16",
        "u32" => "a whole number below 2^32",
        "usize" | "u64" => "a whole number of at least 0",
        other => other,
    };
    Some((expected.into(), found))
}

/// Separates the halves of a message of [`mismatch`].
const GOT: &str = ", got ";

/// An error for visitors: [`JsonFault::of`] separates what was expected from what was found.
pub(crate) fn mismatch<E: serde::de::Error>(
    expected: impl fmt::Display,
    got: impl fmt::Display,
) -> E {
    E::custom(format_args!("expected {expected}{GOT}{got}"))
}

/// Returns the text after a byte order mark, which some editors write.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// Checks that no string of the text is longer than a name can be. Messages of serde repeat
/// strings, so that a long string would take several times its size in memory.
pub(crate) fn check_strings(text: &str) -> Result<(), JsonFault> {
    let mut bytes = text.bytes().enumerate();
    while let Some((start, byte)) = bytes.next() {
        if byte != b'"' {
            continue;
        }
        while let Some((at, byte)) = bytes.next()
            && byte != b'"'
        {
            if at - start > MAX_STRING {
                let expected = format!("a name of at most {MAX_NAME} bytes");
                return Err(JsonFault::new(text, start, expected, "a longer one"));
            }
            if byte == b'\\' {
                bytes.next();
            }
        }
    }
    Ok(())
}

/// Parses a number of JSON. Its digits are rounded once, to 32 bits.
pub(crate) fn number_of_text<E: serde::de::Error>(text: &str) -> Result<f32, E> {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    match text.parse::<f32>() {
        Ok(number) if is_number && number.is_finite() => Ok(number),
        Ok(_) if is_number => {
            Err(mismatch("a number in the range of 32-bit floats", shortened(text)))
        }
        _ => Err(mismatch("a number", shortened(text))),
    }
}

/// The maximum number of characters that errors quote.
const SHOWN: usize = 80;

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
