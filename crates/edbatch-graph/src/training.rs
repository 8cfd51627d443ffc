//! Networks with adjoint cells, which compute gradients.
//!
//! The gradient of a cell is a cell. An adjoint call reads what the forward call read and wrote,
//! and the gradients of the forward call's outputs. It computes the gradients of the values that
//! the forward call read (its *contributions*), and the numbers from which the gradients of
//! parameters are summed.

use std::ops::Range;
use std::sync::Arc;

use crate::{Cell, Instruction, Kind, Network, Op, ParameterId, RecordId, Table};

/// A network with a cell for the gradients of each of its cells.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainingNetwork {
    /// The cells, records, parameters and initial values of the original network with the same
    /// numbers, then adjoint cells. Forward cells also return what their adjoints need, see
    /// [`Cell::row`].
    pub network: Arc<Network>,
    /// For each cell of the original network, its adjoint; `None` if nothing needs its gradients.
    pub adjoints: Vec<Option<Adjoint>>,
    /// For each parameter: true if its gradient is needed.
    pub trained: Vec<bool>,
}

/// The adjoint of a forward cell.
///
/// The adjoint cell has the tables and the ports of the forward cell. The next port is `own`, the
/// forward call's row. The last ports, one for each field of the forward cell's record, take any
/// number of gradients of this field.
#[derive(Clone, PartialEq, Debug)]
pub struct Adjoint {
    /// The adjoint cell in [`TrainingNetwork::network`].
    pub cell: Kind,
    /// For each port of the forward cell and each field of the port's record, the field of the
    /// adjoint's record with the gradient of every value at the port. `None` if it is always zero
    /// or not needed, or if the [pair cell](Self::pair) computes it.
    pub contributions: Vec<Vec<Option<u16>>>,
    /// The gradients that differ from value to value at the last port, which takes any number of
    /// values. `None` if no gradient does.
    pub pair: Option<PairAdjoint>,
    /// The parts of parameters' gradients that each call adds.
    pub sums: Vec<ParameterSum>,
    /// For each table of the forward cell, how the gradients of its rows are computed. `None` if
    /// they are not needed.
    pub tables: Vec<Option<RowAdjoint>>,
}

/// The cell that is called for each pair of an adjoint call and a value at its last port.
///
/// Its first port takes the value, its second port the adjoint call's row.
#[derive(Clone, PartialEq, Debug)]
pub struct PairAdjoint {
    /// The cell in [`TrainingNetwork::network`].
    pub cell: Kind,
    /// For each field of the value's record, the field of this cell's record with its whole
    /// gradient. `None` if [`Adjoint::contributions`] has it, or the field has none.
    pub contributions: Vec<Option<u16>>,
}

impl Adjoint {
    /// Returns true if a call contributes to the gradients of values at this port.
    #[must_use]
    pub fn contributes(&self, port: usize) -> bool {
        let is_last = port + 1 == self.contributions.len();
        self.contributions[port].iter().any(Option::is_some) || is_last && self.pair.is_some()
    }
}

/// A part of a parameter's gradient. The gradient is the sum of this part over all calls of a cell.
///
/// `delta`, `x` and `from` are fields of the adjoint's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterSum {
    /// `G[n, k] += Σ δ[p, n] · x[p, k]` for p in `0..pairs`: the gradient of a product.
    Products {
        /// The parameter, a matrix.
        parameter: ParameterId,
        /// The field with `pairs` gradients of the product.
        delta: u16,
        /// The field with `pairs` right factors of the product.
        x: u16,
        /// The number of pairs of a call.
        pairs: u32,
    },
    /// `g += from`, element by element.
    Elements {
        /// The parameter.
        parameter: ParameterId,
        /// The field with its gradient.
        from: u16,
    },
}

impl ParameterSum {
    /// Returns the parameter.
    #[must_use]
    pub fn parameter(&self) -> ParameterId {
        match *self {
            Self::Products { parameter, .. } | Self::Elements { parameter, .. } => parameter,
        }
    }
}

/// The gradients of a table's rows.
///
/// Fields of all adjoint calls with the same row are summed first. Products that depend on the row
/// and on parameters alone are differentiated after that, once for each distinct row.
#[derive(Clone, PartialEq, Debug)]
pub struct RowAdjoint {
    /// The fields of the adjoint's record to be summed over the calls that name the same row.
    pub fields: Range<u16>,
    /// The cell to be called once per distinct row, with the row in its only table and the sums at
    /// its only port. `None` if the sum of the only field is the row's gradient.
    pub cell: Option<Kind>,
    /// The field of that cell's record with the row's gradient, or `None` if the table is not
    /// trained. 0 if there is no cell.
    pub row: Option<u16>,
    /// The parts of parameters' gradients that each call of that cell adds.
    pub sums: Vec<ParameterSum>,
}

/// The parameters and the records whose gradients are needed.
pub(crate) struct Needed {
    pub(crate) parameters: Vec<bool>,
    records: Vec<bool>,
}

impl Needed {
    pub(crate) fn new(
        network: &Network,
        trained: impl Fn(ParameterId) -> bool,
        given: impl Fn(RecordId) -> bool,
    ) -> Self {
        let parameters = (0..network.parameters().len() as u32).map(ParameterId).map(trained);
        let records = (0..network.records().len()).map(|record| given(RecordId(record as u16)));
        let mut needed = Self { parameters: parameters.collect(), records: records.collect() };
        for initial in network.initial_values() {
            if initial.parameters.iter().any(|&parameter| needed.parameter(parameter)) {
                needed.records[usize::from(initial.record.0)] = true;
            }
        }
        // If the gradient of an argument of a call is needed, so is the gradient of its result.
        loop {
            let mut is_complete = true;
            for cell in network.cells() {
                let record = usize::from(cell.record().0);
                if !needed.records[record] && needed.cell(cell) {
                    needed.records[record] = true;
                    is_complete = false;
                }
            }
            if is_complete {
                return needed;
            }
        }
    }

    pub(crate) fn parameter(&self, parameter: ParameterId) -> bool {
        self.parameters[parameter.0 as usize]
    }

    pub(crate) fn table(&self, table: &Table) -> bool {
        table.parameter.is_some_and(|parameter| self.parameter(parameter))
    }

    pub(crate) fn record(&self, record: RecordId) -> bool {
        self.records[usize::from(record.0)]
    }

    /// Returns true if the gradient of a parameter or a value that a cell reads is needed.
    fn cell(&self, cell: &Cell) -> bool {
        let reads = |instruction: &Instruction| match instruction.op {
            Op::Parameter(id) => self.parameter(id),
            _ => false,
        };
        cell.tables().iter().any(|table| self.table(table))
            || cell.ports().iter().any(|port| self.record(port.record))
            || cell.instructions().iter().any(reads)
    }
}
