//! Tests of the whole crate from outside, one binary. Text in and text out where a message
//! teaches, properties against the naive thing elsewhere.

mod call;
mod cell;
mod dags;
mod dot;
mod growing;
mod petgraph;
mod schedule;
mod text;
