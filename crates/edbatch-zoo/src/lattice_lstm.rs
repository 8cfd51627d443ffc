//! An LSTM over a lattice of characters and dictionary words, with scores for every character.
//!
//! *Source*: Zhang and Yang, ACL 2018, in the ED-Batch authors' benchmark, with one difference: the
//! state after a character is the mean of the arcs that end there, not their sum.

use std::sync::Arc;

use edbatch_datasets::Lattice;
use edbatch_graph::{CellError, Network};
use edbatch_models::{Build, BuildError, Model};

use crate::cells::{lstm, lstm_state};
use crate::lattice::{LatticeSizes, Wiring};

/// An LSTM over a lattice of characters and dictionary words, with scores for every character.
#[derive(Clone, Debug)]
pub struct LatticeLstm {
    pub(crate) network: Arc<Network>,
    wiring: Wiring,
}

impl LatticeLstm {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: LatticeSizes) -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = lstm_state(&mut network, sizes.hidden)?;
        let wiring = Wiring::declare(&mut network, sizes, state, ["h0", "c0"], lstm)?;
        Ok(Self { network: Arc::new(network), wiring })
    }
}

impl Model for LatticeLstm {
    type Input = Lattice<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn work(&self, input: &Lattice<u32>) -> usize {
        input.len() + input.words.len()
    }

    async fn build(&self, build: &Build<'_>, lattice: &Lattice<u32>) -> Result<(), BuildError> {
        self.wiring.build(build, lattice)
    }
}
