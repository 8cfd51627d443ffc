//! Every parser on any bytes: the first byte chooses the parser, the rest is its input. In the
//! folder `datasets`:
//!
//!     cargo +nightly fuzz run parsers
#![no_main]

use edbatch_datasets::{
    Error, Vocabulary, parse_arcs, parse_binary_trees, parse_lattices, parse_nary_trees,
    parse_pairs, parse_plain, parse_sentences,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((parser, input)) = bytes.split_first() else { return };
    match parser % 8 {
        0 => check(parse_binary_trees(input, "in")),
        1 => check(parse_nary_trees(input, "in")),
        2 => check(parse_sentences(input, "in")),
        3 => check(parse_plain(input, "in")),
        4 => check(parse_pairs((input, "in"), (&b"a\nb\n"[..], "other"))),
        5 => check(parse_lattices(input, "in")),
        6 => check(parse_arcs(input, "in")),
        _ => check(std::iter::once(Vocabulary::parse(input, "in"))),
    }
});

/// Reads to the end: nothing follows an error, and the error can be shown.
fn check<T>(mut items: impl Iterator<Item = Result<T, Error>>) {
    if let Some(error) = items.by_ref().find_map(Result::err) {
        assert!(error.to_string().contains("expected "));
        assert!(items.next().is_none());
    }
}
