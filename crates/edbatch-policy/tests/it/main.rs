//! One test program, a module a subject.

mod appendix;
mod bounds;
mod file;
mod frontier;
mod learning;
mod pair;
mod policies;
mod scheduler;
mod search;
mod supersequence;
mod support;
