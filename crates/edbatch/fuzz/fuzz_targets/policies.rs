#![no_main]

#[path = "../bodies/policies.rs"]
mod policies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policies::run(bytes));
