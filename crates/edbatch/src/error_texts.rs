//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use edbatch_models::BuildError;
use edbatch_policy::EmptyTrainingSet;
use edbatch_runtime::{BackendError, ParameterError};

use crate::{EngineError, InputError, LoadError, RunError, TrainError};

fn check<const N: usize>(cases: [(Box<dyn Error>, &str); N]) {
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}

#[test]
fn messages_of_runs_are_complete_without_a_source() {
    let input = InputError::Build(BuildError::Input("no word".into()));
    let memory = BackendError::Memory { what: "the arena", bytes: 2_000_000 };
    let lost = || io::Error::other("lost");
    let gates = || ParameterError::Gates { what: "three gates".into() };
    let sizes = "; that follows from \"hidden\" of config.json, 8";
    check([
        (Box::new(RunError::Input { instance: 3, error: input }), "input 3: no word"),
        (
            Box::new(RunError::from(memory.clone())),
            "out of memory: failed to allocate 2.0 MB for the arena: make mini-batches smaller",
        ),
        (
            Box::new(RunError::from(BackendError::Cancelled)),
            "cancelled: the results are no longer wanted",
        ),
        (
            Box::new(RunError::from(EmptyTrainingSet)),
            "no input calls a cell: expected at least one mini-batch to learn on, got none",
        ),
        (
            Box::new(InputError::NotFiniteOutput { row: 2 }),
            "expected finite results, got a NaN or an infinity in row 2: correct the weights, or \
             find the call that makes it by `interpret_finite`",
        ),
        (
            Box::new(EngineError::from(memory)),
            "out of memory: failed to allocate 2.0 MB for the arena",
        ),
        (
            Box::new(EngineError::ThreadsOfPool { threads: 2, pool: 3 }),
            "the options name 2 threads and a pool of 3: leave one of them out",
        ),
        (
            Box::new(EngineError::CannotStart { threads: 2, error: Arc::new(lost()) }),
            "cannot start 2 threads: lost: use fewer, or allow more memory",
        ),
        (
            Box::new(EngineError::NetworkOfProgram),
            "the program was compiled for another network: compile it for the model's, \
             `Program::new(model.network().clone(), …)`",
        ),
        (
            Box::new(EngineError::ProgramOfBackend),
            "the backend was loaded with another program: load it with a clone of the \
             `Arc<Program>` that the engine gets",
        ),
        (
            Box::new(EngineError::MemoryLimitWithThreads { threads: 2 }),
            "a memory limit needs 1 thread, got 2: run whole mini-batches on an engine per thread \
             (a fork of this one), each with the limit",
        ),
        (
            Box::new(EngineError::FoldedTablesOverLimit { tables: 20, limit: 10 }),
            "folded tables may take 20 bytes, expected at most the memory limit of 10",
        ),
        (
            Box::new(EngineError::FoldedTablesOfBackend),
            "the program of a loaded backend decides which tables are folded: use \
             `Program::fold_tables` before loading",
        ),
        (
            Box::new(EngineError::PrecisionOfBackend),
            "a loaded backend has its own precision: load it with that precision instead",
        ),
        (
            Box::new(LoadError::Unreadable { file: "w".into(), error: lost() }),
            "w: expected a readable file, got: lost",
        ),
        (
            Box::new(LoadError::Weights {
                file: "w".into(),
                error: Box::new(gates()),
                sizes: sizes.into(),
            }),
            "w: three gates; that follows from \"hidden\" of config.json, 8",
        ),
    ]);
}

#[test]
fn messages_of_training_are_complete_without_a_source() {
    check([
        (
            Box::new(TrainError::from(EngineError::Threads { threads: 0 })),
            "expected 1 to 1000 threads, got 0",
        ),
        (
            Box::new(TrainError::from(RunError::from(BackendError::Cancelled))),
            "cancelled: the step was no longer wanted",
        ),
        (
            Box::new(TrainError::Backend),
            "the backend computes no gradients: use the CPU or CUDA, with a program for training",
        ),
        (Box::new(TrainError::Parameters(ParameterError::Gates { what: "gates".into() })), "gates"),
        (
            Box::new(TrainError::Input { input: 1, error: InputError::NotCarried }),
            "input 1: a value from before an await is used after it: carry it across",
        ),
        (
            Box::new(TrainError::Scores { input: 1, row: 2, record: "matrix".into() }),
            "input 1, row 2: expected one vector of scores, got the record matrix",
        ),
        (
            Box::new(TrainError::NotFiniteLoss { input: 1, call: None }),
            "the loss of input 1 is not finite: make the weights or the learning rate smaller",
        ),
        (
            Box::new(TrainError::NotFiniteGradient { parameter: "w".into() }),
            "the gradient of w is not finite: make the weights or the learning rate smaller, or \
             correct the gradients of your own loss",
        ),
        (
            Box::new(TrainError::GradientsOfInputs {
                what: "rows of input 3".into(),
                expected: 2,
                got: 1,
            }),
            "expected gradients of all that `forward` returned: 2 rows of input 3, got 1",
        ),
        (
            Box::new(TrainError::GradientsOfParameters),
            "expected a gradient for each parameter, with its shape",
        ),
        (
            Box::new(TrainError::Option { option: "rate", expected: "above 0", got: -1.5 }),
            "rate: expected above 0, got -1.5",
        ),
        (
            Box::new(TrainError::State { why: "it is empty".into() }),
            "the state is not of this trainer: it is empty",
        ),
    ]);
}

#[test]
fn source_of_a_backend_error_is_kept() {
    #[derive(Debug, thiserror::Error)]
    #[error("the device is lost")]
    struct Lost(#[source] fmt::Error);

    let lost = || BackendError::Other(Arc::new(Lost(fmt::Error)));
    let run = || RunError::from(lost());
    let errors: [Box<dyn Error>; 3] =
        [Box::new(run()), Box::new(EngineError::from(lost())), Box::new(TrainError::from(run()))];
    for error in errors {
        assert_eq!(error.to_string(), "the device is lost");
        assert!(error.source().is_some_and(|source| source.is::<fmt::Error>()));
    }
}
