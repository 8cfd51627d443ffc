//! Runs the fuzz targets of `fuzz/` briefly, without a fuzzer: on the seeds of each target, and on
//! random changes of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use edbatch_models::{CallLists, network_from_json};
use edbatch_testing::cases;
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
    run("readers", bodies::readers::run, cases(256));
}

#[test]
fn models() {
    run("models", bodies::models::run, cases(64));
}

#[test]
fn policies() {
    run("policies", bodies::policies::run, cases(256));
}

#[test]
fn graphs() {
    run("graphs", bodies::graphs::run, cases(256));
}

#[test]
fn pq_trees() {
    run("pq_trees", bodies::pq_trees::run, cases(256));
}

#[test]
fn layouts() {
    run("layouts", bodies::layouts::run, cases(64));
}

#[test]
fn network_file() {
    run("network_file", bodies::network_file::run, cases(256));
}

#[test]
fn call_lists() {
    run("call_lists", bodies::call_lists::run, cases(256));
}

#[test]
#[ignore = "takes minutes"]
fn a_million_changed_networks_and_call_lists() {
    run("network_file", bodies::network_file::run, 1_000_000);
    run("call_lists", bodies::call_lists::run, 1_000_000);
    assert_peak_memory(256 << 20);
}

/// Texts of 64 MiB that repeat one item in a place of a network, or of a line of call lists. Prints
/// how long it takes to accept or refuse each.
#[test]
#[ignore = "takes a minute"]
fn files_of_the_maximum_size() {
    let read = |what: &str, text: &str| {
        assert!(text.len() <= 64 << 20);
        let started = Instant::now();
        let error = match what {
            "network" => network_from_json(text).err(),
            _ => lists().read(text).err(),
        };
        let seconds = started.elapsed().as_secs_f64();
        println!("{what}: {seconds:.2} s, {}", error.map_or("accepted".into(), |e| e.to_string()));
        seconds
    };
    let network = include_str!("../fuzz/corpus/network_file/seed-tree");
    let calls = r#"{"give":[["state",[0,0]]],"calls":[["leaf",1],["sum",0,[0,1]]],"emit":[1,2]}"#;
    for (what, text) in [("network", network), ("calls", calls)] {
        // Each place after a punctuation mark, and the start.
        let places = text.match_indices(['[', '{', ',', ':', '"', ']', '}']);
        let places: Vec<usize> = places.map(|(at, _)| at + 1).collect();
        let step = places.len().div_ceil(12);
        let mut longest = 0.0f64;
        for &place in places.iter().step_by(step) {
            for item in ["[", "{\"a\":", "0,", "\"a\",", "[0],", "{},", " ", "9", "\\u0041", "é"] {
                let repeated = item.repeat(((64 << 20) - text.len()) / item.len());
                let (before, after) = text.split_at(place);
                longest = longest.max(read(what, &[before, &repeated, after].concat()));
            }
        }
        println!("{what}: at most {longest:.2} s");
    }
}

/// The reader of the fuzz target's call lists.
fn lists() -> CallLists {
    CallLists::new(Arc::new(network_from_json(bodies::call_lists::NETWORK).unwrap()))
}

/// Checks the peak of this process's resident memory, on Linux.
fn assert_peak_memory(limit: u64) {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()).expect("a peak in KiB");
    let peak = kib.parse::<u64>().unwrap() << 10;
    println!("peak memory: {} MB", peak / 1_000_000);
    assert!(peak <= limit, "{peak} bytes, expected at most {limit}");
}

#[cfg(feature = "cli")]
#[test]
fn marks() {
    run("marks", bodies::marks::run, cases(256));
}

#[cfg(feature = "cuda")]
#[test]
fn networks() {
    run("networks", bodies::networks::run, cases(16));
}
