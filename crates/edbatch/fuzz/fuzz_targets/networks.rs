#![no_main]

#[path = "../bodies/networks.rs"]
mod networks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| networks::run(bytes));
