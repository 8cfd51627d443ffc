//! What computes the mini-batches of `infer`: an engine, or the reference.

use edbatch::{Engine, Report, Rows, RunError, Statistics, interpret};
use edbatch_models::{Zoo, ZooInput};
use edbatch_runtime::Parameters;

/// What computes on one thread.
pub(crate) enum Runner {
    /// Batches on a backend.
    Engine(Box<Engine<Zoo>>),
    /// Node by node.
    Reference(Box<Reference>),
}

/// A model for [`interpret`], and what that took so far.
pub(crate) struct Reference {
    model: Zoo,
    parameters: Parameters,
    statistics: Statistics,
}

impl Runner {
    pub(crate) fn reference(model: Zoo, parameters: Parameters) -> Self {
        let statistics = Statistics::default();
        Self::Reference(Box::new(Reference { model, parameters, statistics }))
    }

    /// The same for another thread, with nothing counted yet.
    pub(crate) fn another(&mut self) -> Self {
        match self {
            Self::Engine(engine) => Self::Engine(Box::new(engine.another())),
            Self::Reference(reference) => {
                Self::reference(reference.model.clone(), reference.parameters.clone())
            }
        }
    }

    pub(crate) fn run(
        &mut self,
        inputs: &[ZooInput],
        outputs: &mut Vec<Rows>,
    ) -> Result<(), RunError> {
        match self {
            Self::Engine(engine) => engine.run_into(inputs, outputs),
            Self::Reference(reference) => {
                let interpreted = interpret(&reference.model, &reference.parameters, inputs)?;
                reference.statistics.add(&interpreted.statistics);
                *outputs = interpreted.outputs;
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
