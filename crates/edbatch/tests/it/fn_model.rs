//! A model that is a function, and random weights.

use std::marker::PhantomData;
use std::sync::Arc;

use edbatch::models::{Build, BuildError, Model};
use edbatch_graph::{Kind, Network, Value};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

/// A model whose function makes the calls of an input, without awaits.
#[derive(Clone)]
pub(crate) struct FnModel<I, F> {
    network: Arc<Network>,
    build: F,
    input: PhantomData<fn(&I)>,
}

impl<I, F: Fn(&Build<'_>, &I) -> Result<(), BuildError>> FnModel<I, F> {
    pub(crate) fn new(network: impl Into<Arc<Network>>, build: F) -> Self {
        Self { network: network.into(), build, input: PhantomData }
    }
}

impl<I, F> Model for FnModel<I, F>
where
    I: Sync,
    F: Fn(&Build<'_>, &I) -> Result<(), BuildError> + Sync,
{
    type Input = I;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &I) -> Result<(), BuildError> {
        (self.build)(build, input)
    }
}

/// Returns a model that calls a cell for each word on the last value, from a start, and emits the
/// last value.
pub(crate) fn chain_model(
    network: Network,
    step: Kind,
    start: Value,
) -> impl Model<Input = Vec<u32>> + Clone {
    FnModel::new(network, move |build: &Build<'_>, words: &Vec<u32>| {
        let mut state = start;
        for &word in words {
            state = build.call(step, &[word], &[state])?;
        }
        build.emit(state);
        Ok(())
    })
}

/// Returns a model that emits the value of a cell for each word.
pub(crate) fn word_model(network: Network, word: Kind) -> impl Model<Input = Vec<u32>> + Clone {
    FnModel::new(network, move |build: &Build<'_>, words: &Vec<u32>| {
        for &row in words {
            build.emit(build.call(word, &[row], &[])?);
        }
        Ok(())
    })
}

/// Returns random weights.
pub(crate) fn random(network: &Network, seed: u64) -> Parameters {
    Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(seed))
}
