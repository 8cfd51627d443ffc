#![no_main]

#[path = "../bodies/network_file.rs"]
mod network_file;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| network_file::run(bytes));
