//! The runner of `infer`'s mini-batches: an engine, or the reference interpreter.

use std::slice;

use crate::{
    Engine, InputError, Interpreted, Report, Rows, RunError, RunOptions, Statistics, interpret,
};
use edbatch_models::{Zoo, ZooInput};
use edbatch_runtime::{Parameters, Precision};

/// The runner of one thread.
pub(crate) enum Runner {
    /// Batches on a backend.
    Engine(Box<Engine<Zoo>>),
    /// Node by node.
    Interpreter {
        model: Box<Zoo>,
        parameters: Parameters,
        precision: Precision,
        statistics: Statistics,
    },
}

impl Runner {
    pub(crate) fn interpreter(model: Zoo, parameters: Parameters, precision: Precision) -> Self {
        let (model, statistics) = (Box::new(model), Statistics::default());
        Self::Interpreter { model, parameters, precision, statistics }
    }

    /// Creates a runner for another thread, with empty statistics.
    pub(crate) fn fork(&self) -> Self {
        match self {
            Self::Engine(engine) => Self::Engine(Box::new(engine.fork())),
            Self::Interpreter { model, parameters, precision, .. } => {
                Self::interpreter(Zoo::clone(model), parameters.clone(), *precision)
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
            Self::Interpreter { model, parameters, precision, statistics } => {
                results.clear();
                for input in inputs {
                    let input = slice::from_ref(input);
                    results.push(match interpret(&**model, parameters, input, *precision) {
                        Ok(Interpreted { mut outputs, statistics: took }) => {
                            statistics.add(&took);
                            Ok(outputs.pop().expect("one output per input"))
                        }
                        Err(RunError::Input { error, .. }) => Err(error),
                        Err(error) => return Err(error),
                    });
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
            Self::Interpreter { statistics, .. } => (*statistics, Report::default()),
        }
    }
}
