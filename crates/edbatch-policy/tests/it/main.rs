//! One test program, a module a subject.

mod appendix;
mod file;
mod frontier;
mod policies;
mod search;
mod support;
