#![no_main]

#[path = "../bodies/c_sessions.rs"]
mod c_sessions;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| c_sessions::run(bytes));
