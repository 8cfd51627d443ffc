//! The readers of all dataset formats, on any bytes.

#[path = "../../../../datasets/tests/it/hostile/read_all.rs"]
mod read_all;

pub(crate) use read_all::read_all as run;
