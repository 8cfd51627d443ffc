//! An LSTM over a lattice of characters and dictionary words, with scores for every character.
//!
//! *Source*: Zhang and Yang, ACL 2018, in the ED-Batch authors' benchmark, with one difference: the
//! state after a character is the mean of the arcs that end there, not their sum.

use edbatch_datasets::Lattice;
use edbatch_graph::{CellError, Network};

use crate::cells::{lstm, lstm_state};
use crate::lattice::{LatticeKinds, LatticeSizes, work};
use crate::model::model;

model! {
    /// An LSTM over a lattice of characters and dictionary words, with scores for every character.
    pub struct LatticeLstm: LatticeKinds, LatticeSizes, Lattice<u32>, work
}

fn declare(network: &mut Network, sizes: LatticeSizes) -> Result<LatticeKinds, CellError> {
    let state = lstm_state(network, sizes.hidden)?;
    LatticeKinds::declare(network, sizes, state, ["h0", "c0"], lstm)
}
