//! A GRU over a lattice of characters and dictionary words, with scores for every character.
//!
//! *Source*: the variant that the ED-Batch authors benchmark, with one difference: the state after
//! a character is the mean of the arcs that end there, not their sum.

use edbatch_datasets::Lattice;
use edbatch_graph::{CellError, Network};

use crate::cells::{gru, gru_state};
use crate::lattice::{LatticeKinds, LatticeSizes, work};
use crate::model::model;

model! {
    /// A GRU over a lattice of characters and dictionary words, with scores for every character.
    pub struct LatticeGru: LatticeKinds, LatticeSizes, Lattice<u32>, work
}

fn declare(network: &mut Network, sizes: LatticeSizes) -> Result<LatticeKinds, CellError> {
    let state = gru_state(network, sizes.hidden)?;
    LatticeKinds::declare(network, sizes, state, ["h0"], gru)
}
