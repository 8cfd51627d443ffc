//! Tests of the engine and the trainer with whole networks, and of the rules for the sources.

mod adding;
mod adjoint_rules;
mod architecture;
mod arg_max;
mod bf16;
mod cell_parts;
mod cell_styles;
mod chains;
mod circles;
mod compiled;
mod curves;
#[cfg(feature = "cuda")]
mod device_ahead;
#[cfg(feature = "cuda")]
mod device_edges;
#[cfg(feature = "cuda")]
mod device_training;
mod differences;
mod dropout;
mod edges;
#[cfg(feature = "cuda")]
mod emulated;
mod examples;
mod failures;
mod finite;
mod fn_model;
mod folding;
mod given_rows;
mod goldens;
mod hoisting;
mod learn;
mod limits;
mod mutations;
mod networks;
mod networks_as_data;
mod observed;
mod operations;
mod optimizers;
mod other_weights;
mod outside_backend;
mod packages;
#[cfg(feature = "cuda")]
mod parts;
mod prose;
mod pytorch;
mod random_networks;
mod real_inputs;
mod session_scripts;
mod sessions;
mod showcases;
mod sizes;
mod small;
mod steps;
mod stored_rows;
#[cfg(feature = "cuda")]
mod teams;
mod threads;
mod train;
mod trainer;
mod training;
#[cfg(feature = "cuda")]
mod unit_tiles;
mod walkthrough;
#[cfg(feature = "cuda")]
mod waves;
mod weights;
