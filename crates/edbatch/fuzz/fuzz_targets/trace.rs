//! Traces of operations on a PQ-tree and on slow models of it.
#![no_main]

#[path = "../../../pqtree/dev/model.rs"]
mod model;
#[path = "../../../pqtree/dev/reference.rs"]
mod reference;
#[path = "../../../pqtree/dev/trace.rs"]
mod trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    trace::run(bytes);
});
