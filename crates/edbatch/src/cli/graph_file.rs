//! Graphs in the text format, plain or `.gz`.

use std::io::Read;
use std::path::Path;

use edbatch_graph::{PlainDag, parse_text};

use super::failure::Failure;

/// The longest text that is read: a few kilobytes of gzip can unpack to more than any memory.
const MOST: u64 = 1 << 30;

/// Reads a graph; an error names file and line.
pub(crate) fn read(file: &Path) -> Result<PlainDag, Failure> {
    let reader = edbatch_datasets::open(file).map_err(Failure::new)?;
    let mut text = String::new();
    let length = reader.take(MOST).read_to_string(&mut text).map_err(|error| {
        let line = text.lines().count() + 1;
        Failure::at(file, format_args!("expected text, got from line {line} on: {error}"))
    })?;
    if length as u64 == MOST {
        return Err(Failure::at(file, format_args!("expected fewer than {MOST} bytes, got more")));
    }
    parse_text(&text).map_err(|error| Failure::at(file, error))
}
