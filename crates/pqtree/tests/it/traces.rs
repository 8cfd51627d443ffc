//! Traces of operations against slow models. `PQTREE_TRACE_SECONDS` sets the length of the long
//! run.

use crate::families;
use crate::trace::{self, Covered};
use std::time::{Duration, Instant};

fn random_trace(seed: u64, leaves: u8) -> Covered {
    let mut random = families::Random::new(seed);
    let length = 1 + random.below(1 << (5 + seed % 6));
    let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    trace::run(&[&[leaves], bytes.as_slice()].concat())
}

/// Runs every operation many times on trees of 8 to 80 leaves, with each outcome.
#[test]
fn operations_on_8_to_80_leaves_agree_with_the_models() {
    let mut covered = Covered::new();
    let traces = if cfg!(miri) { 4 } else { 400 };
    for seed in 0..traces {
        for (name, count) in random_trace(seed, 8 + (seed % 73) as u8) {
            *covered.entry(name).or_default() += count;
        }
    }
    println!("{covered:?}");
    let common = [
        "reduced",
        "implied",
        "refused",
        "ask",
        "minimal conflict",
        "no conflict",
        "open",
        "roll back",
        "commit",
        "attempt",
        "reduce several",
        "intersect",
        "intersect refused",
        "project",
        "from orders",
        "insert",
        "insert under a node",
        "remove",
        "replace",
        "orders",
        "again",
        "bad leaves",
    ];
    for name in common {
        let enough = covered.get(name).is_some_and(|&count| count >= 20);
        assert!(enough || cfg!(miri), "{name}: {covered:?}");
    }
}

#[test]
fn agree_with_the_models_for_long() {
    let seconds =
        std::env::var("PQTREE_TRACE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        random_trace(count, (count % 81) as u8);
        count += 1;
    }
    println!("{count} traces without a difference");
}
