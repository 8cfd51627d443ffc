//! What computes the mini-batches of `infer`: an engine, or the reference.

use edbatch::{Engine, InputError, Interpreted, Report, Rows, RunError, RunOptions, Statistics};
use edbatch_models::{Zoo, ZooInput};
use edbatch_runtime::Parameters;

/// What computes on one thread.
pub(crate) enum Runner {
    /// Batches on a backend.
    Engine(Box<Engine<Zoo>>),
    /// Node by node.
    Reference(Box<Reference>),
}

/// [`interpret`](edbatch::interpret), or the same with a look at what is not finite.
pub(crate) type Interpret = fn(&Zoo, &Parameters, &[ZooInput]) -> Result<Interpreted, RunError>;

/// A model for the interpreter, and what that took so far.
pub(crate) struct Reference {
    interpret: Interpret,
    model: Zoo,
    parameters: Parameters,
    statistics: Statistics,
}

impl Runner {
    pub(crate) fn reference(interpret: Interpret, model: Zoo, parameters: Parameters) -> Self {
        let statistics = Statistics::default();
        Self::Reference(Box::new(Reference { interpret, model, parameters, statistics }))
    }

    /// A runner for another thread, with empty statistics.
    pub(crate) fn fork(&self) -> Self {
        match self {
            Self::Engine(engine) => Self::Engine(Box::new(engine.fork())),
            Self::Reference(reference) => {
                let Reference { interpret, model, parameters, .. } = &**reference;
                Self::reference(*interpret, model.clone(), parameters.clone())
            }
        }
    }

    /// The rows of each input, or why it has none; `results` of earlier inputs lend their memory.
    pub(crate) fn run_each(
        &mut self,
        inputs: &[ZooInput],
        results: &mut Vec<Result<Rows, InputError>>,
    ) -> Result<(), RunError> {
        match self {
            Self::Engine(engine) => engine.run_each_into(inputs, &RunOptions::new(), results),
            Self::Reference(reference) => {
                results.clear();
                for input in inputs {
                    results.push(reference.run(std::slice::from_ref(input))?);
                }
                Ok(())
            }
        }
    }

    /// What all mini-batches so far took.
    pub(crate) fn took(&self) -> (Statistics, Report) {
        match self {
            Self::Engine(engine) => {
                (*engine.statistics(), engine.report().cloned().unwrap_or_default())
            }
            Self::Reference(reference) => (reference.statistics, Report::default()),
        }
    }
}

impl Reference {
    fn run(&mut self, input: &[ZooInput]) -> Result<Result<Rows, InputError>, RunError> {
        match (self.interpret)(&self.model, &self.parameters, input) {
            Ok(Interpreted { mut outputs, statistics }) => {
                self.statistics.add(&statistics);
                Ok(Ok(outputs.pop().expect("as many outputs as inputs")))
            }
            Err(RunError::Input { error, .. }) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }
}
