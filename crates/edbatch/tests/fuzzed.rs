//! Runs the fuzz targets of `fuzz/` briefly, without a fuzzer: on the seeds of each target, and on
//! random changes of them.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{CallLists, network_from_json};
use edbatch_testing::cases;

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
#[path = "../fuzz/seeds.rs"]
mod seeds;

use seeds::run;

/// Declares a test for each target, with the number of changes.
macro_rules! targets {
    ($($target:ident: $changes:literal,)*) => {
        $(#[test]
        fn $target() {
            run(stringify!($target), bodies::$target::run, cases($changes));
        })*
    };
}

targets! {
    readers: 256,
    models: 64,
    policies: 256,
    graphs: 256,
    pq_trees: 256,
    layouts: 64,
    network_file: 256,
    call_lists: 256,
}

#[cfg(feature = "cuda")]
targets! { networks: 16, }

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
