//! An LSTM over a lattice of characters and dictionary words, with scores for every character.
//!
//! *Source*: Zhang and Yang, ACL 2018, in the form that the ED-Batch authors benchmark, with one
//! difference: a state is the mean of its arcs, not their sum.

use std::sync::Arc;

use edbatch_datasets::Lattice;
use edbatch_graph::{CellError, Kind, Network};

use crate::Build;
use crate::cells::{linear, logits, lstm, lstm_state};
use crate::lattice::Wiring;
use crate::model::{BuildError, Model};

/// An LSTM over a lattice of characters and dictionary words, with scores for every character.
#[derive(Clone, Debug)]
pub struct LatticeLstm {
    network: Arc<Network>,
    wiring: Wiring,
}

/// The sizes of a lattice model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatticeSizes {
    /// Number of characters.
    pub chars: usize,
    /// Number of words.
    pub words: usize,
    /// Elements of an embedding.
    pub embed: usize,
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

impl LatticeLstm {
    /// Declares the cells.
    ///
    /// # Errors
    /// If a size is zero or too large.
    pub fn new(sizes: LatticeSizes) -> Result<Self, CellError> {
        let LatticeSizes { chars, words, embed, hidden, classes } = sizes;
        let mut network = Network::new();
        let state = lstm_state(&mut network, hidden)?;
        let scores = logits(&mut network, classes)?;
        let start = network.initial(state, &["h0", "c0"])?;
        let mut arc = |name: &str, rows: usize| -> Result<Kind, CellError> {
            network.cell(name, state, |cell| {
                let x = cell.lookup(name, &format!("{name}_embed.weight"), &[rows, embed]);
                lstm(cell, name, x, cell.many("from", state).mean())
            })
        };
        let (char, word) = (arc("char", chars)?, arc("word", words)?);
        let output = network.cell("output", scores, |cell| {
            let [h, _] = cell.many("arcs", state).mean();
            vec![linear(cell, "out", classes, h)]
        })?;
        Ok(Self { network: Arc::new(network), wiring: Wiring { start, char, word, output } })
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
