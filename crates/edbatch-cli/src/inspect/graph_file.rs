//! Graphs in the text format, plain or `.gz`.

use std::io::Read;
use std::path::Path;

use edbatch_graph::{PlainDag, parse_text};

use crate::failure::Failure;
use crate::memory;

/// The maximum length of a text, in bytes: gzip can expand a file to a thousand times its size.
const MAX_BYTES: u64 = 1 << 30;

/// Bytes of memory for each byte of a text: for the graph, and for scheduling it.
const BYTES_PER_BYTE: u64 = 32;

/// Reads a graph. Errors name the file and the line.
pub(crate) fn read(file: &Path) -> Result<PlainDag, Failure> {
    let reader = edbatch_datasets::open(file).map_err(Failure::new)?;
    let mut text = String::new();
    let length = reader.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| {
        let line = text.lines().count() + 1;
        Failure::at(file, format_args!("expected text, got from line {line} on: {error}"))
    })?;
    if length as u64 == MAX_BYTES {
        return Err(Failure::at(
            file,
            format_args!("expected fewer than {MAX_BYTES} bytes, got more"),
        ));
    }
    memory::reserve(&file.display(), BYTES_PER_BYTE * length as u64)?;
    parse_text(&text).map_err(|error| Failure::at(file, error))
}
