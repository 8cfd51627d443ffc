//! The Python package `edbatch`: the names of the Rust library with Python's manners.
//!
//! Networks and cells are in `network.rs` and below, call lists in `call_list.rs`, the wiring of
//! inputs in `build.rs` and `model.rs`, engines in `engine.rs`, values that outlive a run in
//! `session.rs`.
#![deny(unsafe_code)]

mod arrays;
mod borrowed;
mod build;
mod call_list;
mod cell;
mod command;
mod engine;
mod errors;
mod exclusive;
mod folder;
mod from_arrays;
mod graphs;
mod html;
mod inputs;
mod ints;
mod mini_batch;
mod model;
mod network;
mod operand;
mod optimizer;
mod options;
mod packed;
mod record;
mod report;
mod session;
mod shapes;
mod signals;
mod state_dict;
mod stream;
mod tensor;
mod train_outcome;
mod trainer;
mod values;
mod weights;

use pyo3::prelude::*;

// Free-threaded CPython is untested, so it enables its global lock for this module.
#[pymodule(gil_used = true)]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::{
        build::{Awaitable, Build},
        call_list::CallList,
        cell::{Cell, CellBuilder},
        command::run_command,
        engine::Engine,
        errors::{CallError, CellError, DeviceError, FileError, WeightsError},
        folder::{load, save},
        graphs::_dags,
        network::Network,
        optimizer::{Group, Optimizer, ada_grad, adam, adam_w, rms_prop, sgd},
        record::Record,
        report::{Graph, Outcome, Report, Schedule, Statistics},
        session::{Session, SessionStatistics},
        tensor::Tensor,
        train_outcome::TrainReport,
        trainer::Trainer,
        trainer::device::{adopt, backward_from, decide, forward_into, gradient_rows},
        values::{Index, Values},
        weights::Weights,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
