//! The trait of models: a network, and the wiring of one input.

use std::future::Future;
use std::sync::Arc;

use edbatch_graph::{CallError, Network};

use crate::{Build, GiveError};

/// A model: the cells, declared once, and the wiring of one input.
///
/// Wiring is straight-line code for a single input; the engine does all batching. If the next step
/// depends on a computed value, the code awaits it ([`Build::fetch`]). Several threads may wire
/// inputs at the same time.
pub trait Model: Sync {
    /// The input, such as a tree or a sentence of token numbers.
    type Input: Sync;

    /// Returns the cells, parameters and initial values.
    fn network(&self) -> &Arc<Network>;

    /// Returns the relative cost of an input, for example its number of words or nodes. A
    /// mini-batch is divided so that each thread gets about the same total cost.
    fn work(&self, _: &Self::Input) -> usize {
        1
    }

    /// Returns the bytes of an input's values, or 0 (the default) to batch all inputs together.
    ///
    /// With a nonzero size, the engine runs only a few inputs at a time, so that their values stay
    /// in the cache. This is faster for models with large values and matrix-matrix products, which
    /// need no batching.
    fn bytes(&self, _: &Self::Input) -> usize {
        0
    }

    /// Calls cells for one input and emits its outputs, in order.
    fn build(
        &self,
        build: &Build<'_>,
        input: &Self::Input,
    ) -> impl Future<Output = Result<(), BuildError>>;
}

/// The class of each row that an input emits, or `None` for rows without a target.
pub type Targets = Vec<Option<u32>>;

/// An error while wiring an input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The arguments of a call do not match its cell.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The elements of a value that the model gives do not match its record.
    #[error(transparent)]
    Give(#[from] GiveError),
    /// The input is invalid for this model; the text says what was expected.
    #[error("{0}")]
    Input(String),
}
