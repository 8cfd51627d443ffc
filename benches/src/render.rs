//! Records as text: tables, summaries, documentation, and the HTML page.

pub mod against;
pub mod chart;
pub mod docs;
pub mod headline;
pub mod page;
pub mod palette;
pub mod paper;
pub mod speedups;
pub mod summary;
pub mod table;
pub mod tables;
