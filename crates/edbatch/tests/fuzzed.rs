//! Runs the fuzz targets of `fuzz/` briefly, without a fuzzer: on the seeds of each target, and on
//! random changes of them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;

/// Runs a target on its seeds and on `cases` random changes of them.
fn run(target: &str, body: fn(&[u8]), cases: u32) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
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

#[test]
fn readers() {
    run("readers", bodies::readers::run, 256);
}

#[test]
fn models() {
    run("models", bodies::models::run, 64);
}

#[test]
fn policies() {
    run("policies", bodies::policies::run, 256);
}

#[test]
fn graphs() {
    run("graphs", bodies::graphs::run, 256);
}

#[test]
fn pq_trees() {
    run("pq_trees", bodies::pq_trees::run, 256);
}

#[test]
fn layouts() {
    run("layouts", bodies::layouts::run, 64);
}

#[test]
fn network_file() {
    run("network_file", bodies::network_file::run, 256);
}

#[test]
fn call_lists() {
    run("call_lists", bodies::call_lists::run, 256);
}

#[test]
#[ignore = "takes a minute"]
fn a_million_changed_networks_and_call_lists() {
    run("network_file", bodies::network_file::run, 1_000_000);
    run("call_lists", bodies::call_lists::run, 1_000_000);
}

#[cfg(feature = "cli")]
#[test]
fn marks() {
    run("marks", bodies::marks::run, 256);
}

#[cfg(feature = "cuda")]
#[test]
fn networks() {
    run("networks", bodies::networks::run, 16);
}
