//! What a model is: a network, and how one input becomes calls of its cells.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use edbatch_graph::{CallError, Network};

use crate::{Build, GiveError};

/// A model: cells, declared once, and the wiring of one instance.
///
/// Wiring is straight-line code for a single input; the engine does all batching. Where the next
/// step depends on a computed value, it awaits the value ([`Build::fetch`]). Several threads may
/// wire inputs at once.
pub trait Model: Sync {
    /// One instance, as the model reads it: a tree or a sentence of ids.
    type Input: Sync;

    /// The cells, parameters and initial values.
    fn network(&self) -> &Arc<Network>;

    /// How much work an input is relative to others: its number of words or nodes, say. Where
    /// several threads divide a mini-batch, each gets about as much of this.
    fn work(&self, _: &Self::Input) -> usize {
        1
    }

    /// The bytes of an input's values, for a model whose values are so large that a mini-batch's do
    /// not stay in the cache and whose products are fast without a batch, as products of matrices
    /// are: the engine then runs a few inputs at a time. By default 0: all inputs share batches.
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

/// Why an input could not be wired.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A call does not fit its cell.
    Call(CallError),
    /// A row of the caller's own does not fit its record.
    Give(GiveError),
    /// The input is not one for this model; the text says what was expected.
    Input(String),
}

impl From<GiveError> for BuildError {
    fn from(error: GiveError) -> Self {
        Self::Give(error)
    }
}

impl From<CallError> for BuildError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Give(error) => error.fmt(f),
            Self::Input(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for BuildError {}
