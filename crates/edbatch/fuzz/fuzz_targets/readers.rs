#![no_main]

#[path = "../bodies/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| readers::run(bytes));
