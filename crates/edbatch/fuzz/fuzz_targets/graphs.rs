#![no_main]

#[path = "../bodies/graphs.rs"]
mod graphs;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| graphs::run(bytes));
