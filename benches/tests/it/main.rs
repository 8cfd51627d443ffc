//! Everything that is counted, exactly; nothing that is timed.

mod agreement;
mod command;
mod counts;
mod flops;
mod live;
mod paper_table;
mod records;
