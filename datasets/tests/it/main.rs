//! Tests of readers, writers and generators.

mod fixtures;
mod hostile;
mod real_sets;
mod round_trips;
mod statistics;
