//! Runs a fuzz target without a fuzzer. Tests of this crate and of edbatch-cli use it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Runs a target on its seeds and on `cases` random changes of them.
pub(crate) fn run(target: &str, body: fn(&[u8]), cases: u32) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edbatch/fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let seeds: Vec<Vec<u8>> = files
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("seed-")))
        .map(|path| fs::read(path).unwrap())
        .collect();
    assert!(!seeds.is_empty(), "{target} has seeds");
    seeds.iter().for_each(|seed| body(seed));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let change =
        (any::<prop::sample::Index>(), 0..8_usize, prop::collection::vec(any::<u8>(), 0..8));
    let changed = (prop::sample::select(seeds), prop::collection::vec(change, 1..4));
    let changed = changed.prop_map(|(mut bytes, changes)| {
        for (at, removed, new) in changes {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, new);
        }
        bytes
    });
    TestRunner::new(config)
        .run(&changed, |bytes| {
            body(&bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{target}: {error}"));
}
