//! One test program with a module for each subject.

mod appendix;
mod bounds;
mod errors;
mod file;
mod frontier;
mod learning;
mod pair;
mod policies;
mod scheduler;
mod search;
mod supersequence;
mod support;
