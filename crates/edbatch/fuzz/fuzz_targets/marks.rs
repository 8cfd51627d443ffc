#![no_main]

#[path = "../bodies/marks.rs"]
mod marks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| marks::run(bytes));
