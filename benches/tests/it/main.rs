//! Exact tests of everything that the benchmark counts. Nothing that it times is tested.

mod agreement;
mod browser;
mod command;
mod counters;
mod counts;
mod flops;
mod gpu;
mod hostile;
mod killed;
mod live;
mod peers;
mod records;
mod run;
mod sample;
mod screen;
mod soak;
