//! Tests of traces. A subscriber affects the spans of all threads, so these tests are a program of
//! their own.

#[cfg(feature = "cuda")]
#[path = "../it/emulated.rs"]
#[allow(dead_code)]
mod emulated;
#[path = "../it/fn_model.rs"]
#[allow(dead_code)]
mod fn_model;
#[cfg(feature = "cuda")]
mod launches;
mod parts;
