//! One test program, a module a subject.

mod file;
mod frontier;
mod policies;
mod support;
