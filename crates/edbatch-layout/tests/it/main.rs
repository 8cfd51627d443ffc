//! Tests of cells' plans and of the aligned-layout planner.

mod aligned;
mod cells;
