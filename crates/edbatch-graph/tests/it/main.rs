//! Integration tests, in one binary: messages as text, and properties against naive versions.

mod call;
mod cell;
mod cell_parts;
mod dags;
mod growing;
mod petgraph;
mod schedule;
mod text;
