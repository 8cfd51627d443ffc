#![no_main]

#[path = "../bodies/layouts.rs"]
mod layouts;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| layouts::run(bytes));
