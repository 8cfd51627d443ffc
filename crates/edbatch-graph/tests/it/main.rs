//! Integration tests, in one binary: messages as text, and properties against naive versions.

mod append;
mod call;
mod cell;
mod cell_errors;
mod cell_parts;
mod compose;
mod dags;
mod errors;
mod growing;
mod schedule;
mod text;
