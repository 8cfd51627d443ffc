//! Properties of every reader, for any bytes. A fuzz target of `crates/edbatch/fuzz` checks them
//! too.

use std::io::BufReader;

use edbatch_datasets::{
    Error, Vocabulary, parse_arcs, parse_binary_trees, parse_lattices, parse_nary_trees,
    parse_pairs, parse_plain, parse_sentences,
};

/// Reads `bytes` with every reader and checks every error.
pub(crate) fn read_all(bytes: &[u8]) {
    // A tiny buffer splits lines and characters between reads.
    let reader = || BufReader::with_capacity(3, bytes);
    check_lines(bytes, parse_binary_trees(reader(), "in"));
    check(parse_nary_trees(reader(), "in"));
    check_lines(bytes, parse_sentences(reader(), "in"));
    check_lines(bytes, parse_plain(reader(), "in"));
    check(parse_pairs((reader(), "in"), (&b"a\nb\nc\n"[..], "other")));
    check_lines(bytes, parse_lattices(reader(), "in"));
    check(parse_arcs(reader(), "in"));
    check(std::iter::once(Vocabulary::parse(reader(), "in")));
}

/// Checks that an error has a position and a complete message. Returns the line.
fn place(error: &Error) -> u64 {
    let place = error.position().expect("the input could be opened");
    assert!(place.line > 0 && place.column > 0, "{error}");
    let shown = error.to_string();
    assert!(shown.contains("expected ") && shown.contains("got "), "{shown}");
    place.line
}

/// Checks that the iterator ends after its first error.
fn check<T>(mut items: impl Iterator<Item = Result<T, Error>>) {
    while let Some(item) = items.next() {
        if let Err(error) = item {
            place(&error);
            assert!(items.next().is_none(), "the iterator ends after an error: {error}");
            return;
        }
    }
}

/// Checks that there is an item or an error for each line.
fn check_lines<T>(bytes: &[u8], items: impl Iterator<Item = Result<T, Error>>) {
    let mut lines = 0;
    for (line, item) in (1..).zip(items) {
        lines = line;
        if let Err(error) = item {
            assert!(matches!(error, Error::Format { .. }), "not a format error: {error}");
            assert_eq!(place(&error), line, "{error}");
        }
    }
    let ends = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let last = bytes.last().is_some_and(|&byte| byte != b'\n');
    assert_eq!(lines, ends + u64::from(last), "an item for each line");
}
