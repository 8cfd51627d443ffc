//! Tests of all that the benchmark counts, exactly; nothing that it times.

mod agreement;
mod browser;
mod command;
mod counters;
mod counts;
mod flops;
#[cfg(feature = "cuda")]
mod gpu;
mod hostile;
mod killed;
mod live;
mod paper_table;
mod peers;
mod records;
mod sample;
mod screen;
mod soak;
