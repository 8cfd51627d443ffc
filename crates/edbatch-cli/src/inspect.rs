//! Commands that show what the engine does: cells, kernels, schedules and gradients.

pub(crate) mod cells;
pub(crate) mod compile;
pub(crate) mod gradients;
pub(crate) mod graph_file;
pub(crate) mod schedule;
