//! Tests the aligned-layout planner against brute force, known answers and the paper's figures.

mod brute_force;
mod figures;
mod generate;
mod planned;
mod text;
