//! Programs with adjoint cells.

use std::sync::Arc;

use edbatch_graph::{Adjoint, Kind, TrainingNetwork};

use super::{Program, TooLarge};
use crate::compile::{CellStyle, compile, compile_adjoint};
use crate::record_layout::{LINE, RecordLayout};

impl Program {
    /// Compiles the cells of a network and their adjoints, to train it.
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    pub fn for_training(training: Arc<TrainingNetwork>) -> Result<Self, TooLarge> {
        let network = training.network.clone();
        let forward = training.adjoints.len();
        let mut records = RecordLayout::all(&network);
        // Sums of gradients read the rows of many adjoint calls. If the rows are an odd number of
        // cache lines apart, these reads use all sets of the L1 cache.
        for cell in &network.cells()[forward..] {
            let RecordLayout { stride, .. } = &mut records[usize::from(cell.record().0)];
            if (*stride as usize / LINE).is_multiple_of(2) {
                *stride += LINE as u32;
            }
        }
        let program =
            Self::of_cells(network, records, |records, kind, cell| match kind.index() < forward {
                true => compile(records, cell, CellStyle::Hoisted, &[]),
                false => compile_adjoint(records, cell),
            })?;
        Ok(Self { training: Some(training), ..program })
    }

    /// Returns the network and its adjoints, if the program was compiled [for
    /// training](Self::for_training).
    #[must_use]
    pub fn training(&self) -> Option<&Arc<TrainingNetwork>> {
        self.training.as_ref()
    }

    /// Returns the adjoint of a cell; `None` if nothing needs its gradients, or if the program is
    /// not for training.
    #[must_use]
    pub fn adjoint(&self, kind: Kind) -> Option<&Adjoint> {
        self.training.as_ref()?.adjoints.get(kind.index())?.as_ref()
    }
}
