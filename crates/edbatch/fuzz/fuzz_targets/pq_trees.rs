#![no_main]

#[path = "../bodies/pq_trees.rs"]
mod pq_trees;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pq_trees::run(bytes));
