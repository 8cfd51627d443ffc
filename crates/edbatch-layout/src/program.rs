//! A network, compiled: every cell's plan and every record's layout.

mod fold;

use std::fmt;
use std::sync::Arc;

use edbatch_graph::{Cell, Kind, Network, Port, RecordId, Table};

use crate::cell_plan::{Base, CellPlan, CellStep};
use crate::compile::{CellStyle, compile};
use crate::plan::{Part, Step};
use crate::record_layout::RecordLayout;
pub use fold::FoldedTable;

/// Everything that is decided once, when a model is loaded.
#[derive(Clone, Debug)]
pub struct Program {
    network: Arc<Network>,
    records: Vec<RecordLayout>,
    cells: Vec<CellPlan>,
    signatures: Vec<Signature>,
}

/// What planning a mini-batch asks of a cell, in few cache lines.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Elements from one row of output to the next.
    pub(crate) stride: u32,
    /// What divides the cell, and elements from one row of its prologue's results to the next;
    /// unless its table is folded.
    pub(crate) hoisted: Option<(Base, u32)>,
    /// The folded table that the cell reads, if it does.
    pub(crate) folded: Option<FoldedTable>,
    /// By table port: whether a call reads the row that it names there; what was hoisted does not
    /// count.
    pub(crate) tables: Box<[bool]>,
    /// By port that takes one value: elements from one row of such values to the next.
    pub(crate) ports: Box<[u32]>,
    /// Whether there is another port, which takes any number.
    pub(crate) is_variadic: bool,
}

impl Program {
    /// Compiles all cells of a network.
    ///
    /// # Errors
    /// If a cell's tensors together have 2³¹ elements or more for a single call, if it has 16,384
    /// operations or more, or if a table has 2³² elements or more.
    pub fn new(network: Arc<Network>, style: CellStyle) -> Result<Self, TooLarge> {
        for cell in network.cells() {
            let instructions = cell.instructions().iter().map(|i| i.shape.elements());
            let inputs = cell.ports().iter().map(|port| network.fields(port.record));
            let fields = inputs.flat_map(|record| &record.fields).map(|f| f.shape.elements());
            // An operand may be repeated once for each of its users.
            let elements: usize = instructions.chain(fields).map(|n| 3 * (n + 16)).sum();
            if elements >= 1 << 31 || cell.instructions().len() >= 1 << 14 {
                return Err(TooLarge { what: format!("cell {}", cell.name()), elements });
            }
        }
        for table in network.cells().iter().flat_map(Cell::tables) {
            let parameter = network.parameter(table.parameter);
            if parameter.elements() > u32::MAX as usize {
                let (what, elements) = (format!("table {}", parameter.name), parameter.elements());
                return Err(TooLarge { what, elements });
            }
        }
        let records = RecordLayout::all(&network);
        let cells = network.cells().iter().map(|cell| compile(&records, cell, style));
        let cells: Vec<CellPlan> = cells.collect();
        let signature = |(cell, plan)| Signature::new(&records, cell, plan);
        let signatures = network.cells().iter().zip(&cells).map(signature).collect();
        Ok(Self { network, records, cells, signatures })
    }

    /// The network that was compiled.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// How a record lies in memory.
    #[must_use]
    pub fn record(&self, record: RecordId) -> &RecordLayout {
        &self.records[usize::from(record.0)]
    }

    /// Elements of one row of a table.
    #[must_use]
    pub fn table_width(&self, table: &Table) -> u32 {
        let dims = &self.network.parameter(table.parameter).dims;
        dims[1..].iter().product::<usize>() as u32
    }

    /// Whether a call of a cell reads the row that it names at a table port; what was hoisted does
    /// not count.
    pub(crate) fn reads_table(&self, kind: Kind, table: usize) -> bool {
        self.signature(kind).tables[table]
    }

    /// What planning asks of a cell.
    #[inline]
    pub(crate) fn signature(&self, kind: Kind) -> &Signature {
        &self.signatures[kind.index()]
    }

    /// The plans of all cells; a cell's index is its kind.
    #[must_use]
    pub fn cells(&self) -> &[CellPlan] {
        &self.cells
    }

    /// The plan of a cell.
    #[must_use]
    pub fn cell(&self, kind: Kind) -> &CellPlan {
        &self.cells[kind.index()]
    }

    /// What a step of a plan carries out: a cell or one of its parts.
    ///
    /// # Panics
    /// If the step is of a part that its cell does not have.
    #[must_use]
    pub fn carried_out(&self, step: &Step) -> &CellPlan {
        let part = self.part(step.cell, step.action.part());
        part.expect("a step of a part of an undivided cell")
    }

    /// A part of a cell, if the cell has it.
    #[must_use]
    pub fn part(&self, kind: Kind, part: Part) -> Option<&CellPlan> {
        let cell = self.cell(kind);
        match part {
            Part::Whole => Some(cell),
            Part::Prologue => cell.hoisted.as_ref().map(|hoisted| &hoisted.prologue),
            Part::Body => cell.hoisted.as_ref().map(|hoisted| &hoisted.body),
        }
    }
}

impl Signature {
    fn new(records: &[RecordLayout], cell: &Cell, plan: &CellPlan) -> Self {
        let hoisted = plan.hoisted.as_ref();
        // A cell that is divided by a table always runs in its two parts.
        let divided = hoisted.filter(|hoisted| hoisted.table().is_some());
        let steps = divided.map_or(&plan.steps, |hoisted| &hoisted.body.steps);
        let reads = |table: usize| {
            let mut read = steps.iter().flat_map(CellStep::reads);
            read.any(|(place, _)| place.base == Base::Table(table as u16))
        };
        let single = cell.ports().len() - usize::from(cell.is_variadic());
        let stride = |port: &Port| records[usize::from(port.record.0)].stride;
        let mut signature = Self {
            stride: plan.output_stride,
            hoisted: None,
            folded: None,
            tables: (0..cell.tables().len()).map(reads).collect(),
            ports: cell.ports()[..single].iter().map(stride).collect(),
            is_variadic: cell.is_variadic(),
        };
        signature.fold(plan, None);
        signature
    }

    /// Decides whether the cell reads a folded table; then nothing is hoisted for it.
    fn fold(&mut self, plan: &CellPlan, folded: Option<FoldedTable>) {
        let hoisted = plan.hoisted.as_ref().filter(|_| folded.is_none());
        self.hoisted = hoisted.map(|hoisted| (hoisted.from, hoisted.prologue.output_stride));
        self.folded = folded;
    }
}

/// A cell or a table that cannot be addressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// The cell or the table.
    pub what: String,
    /// Its elements; for a cell, an upper bound on what one call needs.
    pub elements: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, elements } = self;
        write!(
            f,
            "{what} is too large: {elements} elements; expected a table of fewer than 2^32, or a \
             cell of fewer than 2^31 elements and 2^14 operations"
        )
    }
}

impl std::error::Error for TooLarge {}
