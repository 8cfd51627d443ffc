//! Traces of operations on a tree and on slow models of it: `cargo +nightly fuzz run trace`, in
//! `crates/pqtree`.
#![no_main]

#[path = "../../dev/model.rs"]
mod model;
#[path = "../../dev/reference.rs"]
mod reference;
#[path = "../../dev/trace.rs"]
mod trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace::run(bytes);
});
