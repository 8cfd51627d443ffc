//! Tests of the public interface.

mod graph_errors;
mod graphs;
