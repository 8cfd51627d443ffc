//! A GRU over a lattice of characters and dictionary words, with scores for every character.
//!
//! *Source*: the form that the ED-Batch authors benchmark, with one difference: a state is the mean
//! of its arcs, not their sum.

use std::sync::Arc;

use edbatch_datasets::Lattice;
use edbatch_graph::{CellError, Kind, Network};

use crate::Build;
use crate::cells::{gru, gru_state, linear, logits};
use crate::lattice::Wiring;
use crate::lattice_lstm::LatticeSizes;
use crate::model::{BuildError, Model};

/// A GRU over a lattice of characters and dictionary words, with scores for every character.
#[derive(Clone, Debug)]
pub struct LatticeGru {
    network: Arc<Network>,
    wiring: Wiring,
}

impl LatticeGru {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: LatticeSizes) -> Result<Self, CellError> {
        let LatticeSizes { chars, words, embed, hidden, classes } = sizes;
        let mut network = Network::new();
        let state = gru_state(&mut network, hidden)?;
        let scores = logits(&mut network, classes)?;
        let start = network.initial(state, &["h0"])?;
        let mut arc = |name: &str, rows: usize| -> Result<Kind, CellError> {
            network.cell(name, state, |cell| {
                let x = cell.lookup(name, &format!("{name}_embed.weight"), &[rows, embed]);
                let [h] = cell.many("from", state).mean();
                gru(cell, name, x, h)
            })
        };
        let (char, word) = (arc("char", chars)?, arc("word", words)?);
        let output = network.cell("output", scores, |cell| {
            let [h] = cell.many("arcs", state).mean();
            vec![linear(cell, "out", classes, h)]
        })?;
        Ok(Self { network: Arc::new(network), wiring: Wiring { start, char, word, output } })
    }
}

impl Model for LatticeGru {
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
