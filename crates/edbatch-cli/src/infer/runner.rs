//! The runner of `infer`'s mini-batches: an engine, or the reference interpreter.

use std::slice;

use edbatch::models::{FolderModel, ZooInput, arg_max};
use edbatch::{
    Engine, InputError, Interpreted, Report, Rows, RunError, RunOptions, Statistics, interpret,
};
use edbatch_runtime::{Parameters, Precision};

/// The results of a mini-batch: for each input its rows or the indices of their largest elements,
/// or its error.
pub(crate) enum Results {
    Rows(Vec<Result<Rows, InputError>>),
    Indices(Vec<Result<Vec<u32>, InputError>>),
}

/// The runner of one thread.
pub(crate) enum Runner {
    /// Batches on a backend.
    Engine(Box<Engine<FolderModel>>),
    /// Node by node.
    Interpreter {
        model: Box<FolderModel>,
        parameters: Parameters,
        precision: Precision,
        statistics: Statistics,
    },
}

impl Runner {
    pub(crate) fn interpreter(
        model: FolderModel,
        parameters: Parameters,
        precision: Precision,
    ) -> Self {
        let (model, statistics) = (Box::new(model), Statistics::default());
        Self::Interpreter { model, parameters, precision, statistics }
    }

    /// Creates a runner for another thread, with empty statistics.
    pub(crate) fn fork(&self) -> Self {
        match self {
            Self::Engine(engine) => Self::Engine(Box::new(engine.fork())),
            Self::Interpreter { model, parameters, precision, .. } => {
                Self::interpreter(FolderModel::clone(model), parameters.clone(), *precision)
            }
        }
    }

    /// Runs a mini-batch into `results`, reusing their memory: the rows or the error of each input.
    pub(crate) fn run_each(
        &mut self,
        inputs: &[ZooInput],
        results: &mut Results,
    ) -> Result<(), RunError> {
        match (self, results) {
            (Self::Engine(engine), Results::Rows(rows)) => {
                engine.run_each_into(inputs, &RunOptions::new(), rows)
            }
            (Self::Engine(engine), Results::Indices(indices)) => {
                engine.run_each_arg_max_into(inputs, &RunOptions::new().only_finite(), indices)
            }
            (Self::Interpreter { model, parameters, precision, statistics }, results) => {
                let each = inputs.iter().map(|input| {
                    match interpret(&**model, parameters, slice::from_ref(input), *precision) {
                        Ok(Interpreted { mut outputs, statistics: took }) => {
                            statistics.add(&took);
                            Ok(Ok(outputs.pop().expect("one output per input")))
                        }
                        Err(RunError::Input { error, .. }) => Ok(Err(error)),
                        Err(error) => Err(error),
                    }
                });
                let each = each.collect::<Result<Vec<_>, _>>()?.into_iter();
                *results = match results {
                    Results::Rows(_) => Results::Rows(each.collect()),
                    Results::Indices(_) => Results::Indices(
                        each.map(|rows| rows.and_then(|rows| largest(&rows))).collect(),
                    ),
                };
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

/// Returns the index of the largest element of each row, if all elements are finite.
fn largest(rows: &Rows) -> Result<Vec<u32>, InputError> {
    let is_finite = |row: &[f32]| row.iter().all(|element| element.is_finite());
    match rows.iter().position(|row| !is_finite(row)) {
        Some(row) => Err(InputError::NotFiniteOutput { row }),
        None => Ok(rows.iter().map(arg_max).collect()),
    }
}
