//! The aligned-layout planner against brute force, against answers, and against its own claims.

mod brute_force;
mod figures;
mod generate;
mod planned;
mod text;
