//! Hostile input: for any bytes, every reader returns items and errors with a position. Readers of
//! one item per line continue after a malformed line; others end.

use std::io::Write;
use std::path::PathBuf;

use edbatch_datasets::{fixtures, lines, read_binary_trees, read_lattices, read_nary_trees};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tempfile::TempDir;

mod read_all;

use read_all::read_all;

/// One of the fixtures, or a small arc file.
fn valid_input() -> impl Strategy<Value = Vec<u8>> {
    use fixtures::text;
    let arcs = "2\n3\n0 5 6\n0\n1 0 7\n2 1 8 0 40\n\n2\n0 1\n0\n1 0 9\n";
    let inputs = [
        text::BINARY_TREES,
        text::NARY_TREES,
        text::SENTENCES,
        text::WEIBO,
        text::BINARY_VOCABULARY,
        arcs,
    ];
    prop::sample::select(inputs.to_vec()).prop_map(|input| input.bytes().take(2000).collect())
}

proptest! {
    #[test]
    fn any_bytes_give_items_or_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn any_brackets_give_items_or_errors(text in "[()ab0-3 |\n\u{a0}]{0,60}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn any_numbers_give_items_or_errors(text in "([0-4] ?|\n|4294967295 ){0,60}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn mutated_input_gives_items_or_errors(
        mut bytes in valid_input(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..6),
    ) {
        for (index, byte, change) in changes {
            let (index, last) = (index.index(bytes.len() + 1), bytes.len() - 1);
            match change {
                0 => bytes.insert(index, byte),
                1 => bytes.truncate(index.max(1)),
                _ => bytes[index.min(last)] = byte,
            }
        }
        read_all(&bytes);
    }
}

#[test]
fn a_truncated_gzip_file_is_an_error() {
    let whole = gzip(fixtures::text::WEIBO.as_bytes());
    for kept in [0, 5, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        let file = Scratch::new("truncated.jsonl.gz", &whole[..kept]);
        match read_lattices(&file.path) {
            Err(error) => assert!(
                error.to_string().contains("expected the rest of the compressed data"),
                "{error}"
            ),
            Ok(read) => {
                assert!(kept == 0 && read.is_empty(), "{kept} bytes gave {} lattices", read.len())
            }
        }
    }
    let file = Scratch::new("whole.jsonl.gz", &whole);
    assert_eq!(read_lattices(&file.path).unwrap(), fixtures::weibo());
}

#[test]
fn a_damaged_gzip_file_is_an_error() {
    let file = Scratch::new("damaged.txt.gz", b"(2 (2 not) (2 gzip))\n");
    let error = read_binary_trees(&file.path).unwrap_err().to_string();
    assert!(error.contains("damaged.txt.gz:1:1: expected more data, got: "), "{error}");
}

#[test]
fn all_gzip_members_are_read() {
    let mut members = gzip(b"(2 a)\n");
    members.extend(gzip(b"(2 b)\n"));
    let file = Scratch::new("members.txt.gz", &members);
    assert_eq!(read_binary_trees(&file.path).unwrap().len(), 2);
}

#[test]
fn a_gzip_bomb_stops_at_the_line_limit() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..80 {
        encoder.write_all(&chunk).unwrap();
    }
    let file = Scratch::new("bomb.txt.gz", &encoder.finish().unwrap());
    let error =
        lines(&file.path).unwrap().find_map(Result::err).expect("a line of 80 MiB").to_string();
    assert!(
        error.ends_with("expected a line of at most 67108864 bytes, got a longer one"),
        "{error}"
    );
}

#[test]
fn errors_name_missing_files() {
    let missing = read_nary_trees("no/such/file").unwrap_err().to_string();
    assert!(missing.starts_with("no/such/file: expected a readable file, got: "), "{missing}");
    assert!(lines(std::env::temp_dir()).is_err());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A file in a folder that is removed after the test.
struct Scratch {
    path: PathBuf,
    _folder: TempDir,
}

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self { path, _folder: folder }
    }
}
