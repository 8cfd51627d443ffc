//! Steps of training at the edges: their gradients, their errors, and where they end.

mod cancelled;
mod differences;
mod not_finite;
mod second_lookups;
mod tied_parameters;
mod together;
