#![no_main]

#[path = "../bodies/models.rs"]
mod models;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| models::run(bytes));
