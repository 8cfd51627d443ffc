//! The runner of `infer`'s mini-batches: an engine, or the reference interpreter.

use edbatch::{
    Engine, InputError, Interpreted, Report, Rows, RunError, RunOptions, Statistics, interpret,
};
use edbatch_models::{Zoo, ZooInput};
use edbatch_runtime::Parameters;

/// The runner of one thread.
pub(crate) enum Runner {
    /// Batches on a backend.
    Engine(Box<Engine<Zoo>>),
    /// Node by node.
    Interpreter(Box<Interpreter>),
}

/// A model for the interpreter, and its statistics so far.
pub(crate) struct Interpreter {
    model: Zoo,
    parameters: Parameters,
    statistics: Statistics,
}

impl Runner {
    pub(crate) fn interpreter(model: Zoo, parameters: Parameters) -> Self {
        let statistics = Statistics::default();
        Self::Interpreter(Box::new(Interpreter { model, parameters, statistics }))
    }

    /// Creates a runner for another thread, with empty statistics.
    pub(crate) fn fork(&self) -> Self {
        match self {
            Self::Engine(engine) => Self::Engine(Box::new(engine.fork())),
            Self::Interpreter(interpreter) => {
                Self::interpreter(interpreter.model.clone(), interpreter.parameters.clone())
            }
        }
    }

    /// Runs a mini-batch into `results`, reusing their memory: the rows or the error of each input.
    pub(crate) fn run_each(
        &mut self,
        inputs: &[ZooInput],
        results: &mut Vec<Result<Rows, InputError>>,
    ) -> Result<(), RunError> {
        match self {
            Self::Engine(engine) => engine.run_each_into(inputs, &RunOptions::new(), results),
            Self::Interpreter(interpreter) => {
                results.clear();
                for input in inputs {
                    results.push(interpreter.run(std::slice::from_ref(input))?);
                }
                Ok(())
            }
        }
    }

    /// Returns the statistics of all mini-batches so far.
    pub(crate) fn statistics(&self) -> (Statistics, Report) {
        match self {
            Self::Engine(engine) => {
                (*engine.statistics(), engine.report().cloned().unwrap_or_default())
            }
            Self::Interpreter(interpreter) => (interpreter.statistics, Report::default()),
        }
    }
}

impl Interpreter {
    fn run(&mut self, input: &[ZooInput]) -> Result<Result<Rows, InputError>, RunError> {
        match interpret(&self.model, &self.parameters, input) {
            Ok(Interpreted { mut outputs, statistics }) => {
                self.statistics.add(&statistics);
                Ok(Ok(outputs.pop().expect("one output per input")))
            }
            Err(RunError::Input { error, .. }) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }
}
