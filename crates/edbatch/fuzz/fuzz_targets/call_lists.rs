#![no_main]

#[path = "../bodies/call_lists.rs"]
mod call_lists;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| call_lists::run(bytes));
