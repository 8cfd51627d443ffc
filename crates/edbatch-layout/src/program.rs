//! Compiled networks: the plan of every cell and the layout of every record.

mod fold;
mod training;

use std::sync::Arc;

use edbatch_graph::{Cell, Kind, Network, Port, RecordId, Schedule, Table, TrainingNetwork, Var};

use crate::cell_plan::{Base, CellPlan, CellStep, RowKernel, RowStep};
use crate::compile::{CellStyle, Compiled, compile};
use crate::copied::{Copied, Move, copied};
use crate::inner_batches::inner_batches;
use crate::plan::{CellPart, Step};
use crate::record_layout::{RecordLayout, next_line};
pub use fold::FoldedTable;

/// A compiled network. Made once, when a model is loaded.
#[derive(Clone, Debug)]
pub struct Program {
    network: Arc<Network>,
    records: Vec<RecordLayout>,
    cells: Vec<CellPlan>,
    /// For each cell, the steps of its plan that only move data.
    moves: Vec<Vec<Move>>,
    signatures: Vec<Signature>,
    /// The adjoints, if the program is [for training](Program::for_training).
    training: Option<Arc<TrainingNetwork>>,
}

/// The facts about a cell that planning a mini-batch needs, in few cache lines.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// The distance from one output row to the next, in elements.
    pub(crate) stride: u32,
    /// The argument of the prologue, and the stride of its results in elements. None if the cell
    /// has no prologue or its table is folded.
    pub(crate) hoisted: Option<(Base, u32)>,
    /// The folded table that the cell reads.
    pub(crate) folded: Option<FoldedTable>,
    /// By table port: true if a step outside the prologue reads it.
    pub(crate) tables: Box<[bool]>,
    /// By port that takes one value: the stride of its record in elements.
    pub(crate) ports: Box<[u32]>,
    /// True if the last port takes any number of values.
    pub(crate) is_variadic: bool,
    /// By port: true if a step reads values there, or their number.
    pub(crate) reads: Box<[bool]>,
}

impl Program {
    /// Compiles all cells of a network. Styles with batches inside cells use [`inner_batches`].
    ///
    /// # Errors
    /// If a cell's tensors together have 2³¹ elements or more for a single call, if it has 16,384
    /// operations or more, or if a table or a record has 2³² elements or more.
    pub fn new(network: Arc<Network>, style: CellStyle) -> Result<Self, TooLarge> {
        let records = RecordLayout::all(&network);
        Self::of_cells(network, records, |records, _, cell| {
            let batches = match style {
                CellStyle::Batched | CellStyle::Paper => inner_batches(cell),
                _ => Vec::new(),
            };
            compile(records, cell, style, &batches)
        })
    }

    /// Compiles all cells of a network, with a schedule of each cell's [`Cell::dag`].
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    ///
    /// # Panics
    /// If the number of schedules differs from the number of cells, or if a schedule is not legal.
    pub fn scheduled(
        network: Arc<Network>,
        style: CellStyle,
        schedules: &[Schedule],
    ) -> Result<Self, TooLarge> {
        assert_eq!(schedules.len(), network.cells().len(), "a schedule for each cell");
        let records = RecordLayout::all(&network);
        Self::of_cells(network, records, |records, kind, cell| {
            compile(records, cell, style, &batches_of(cell, &schedules[kind.index()]))
        })
    }

    fn of_cells(
        network: Arc<Network>,
        records: Vec<RecordLayout>,
        compile: impl Fn(&[RecordLayout], Kind, &Cell) -> Compiled,
    ) -> Result<Self, TooLarge> {
        for cell in network.cells() {
            let instructions = cell.instructions().iter().map(|i| i.shape.elements());
            let inputs = cell.ports().iter().map(|port| network.fields(port.record));
            let fields = inputs.flat_map(|record| &record.fields).map(|f| f.shape.elements());
            // An operand may be broadcast once for each of its readers.
            let elements: usize = instructions.chain(fields).map(|n| 3 * (n + 16)).sum();
            if elements >= 1 << 31 || cell.instructions().len() >= 1 << 14 {
                return Err(TooLarge { what: format!("cell {}", cell.name()), elements });
            }
        }
        let tables = network.cells().iter().flat_map(Cell::tables);
        for id in tables.filter_map(|table| table.parameter) {
            let parameter = network.parameter(id);
            if parameter.elements() > u32::MAX as usize {
                let (what, elements) = (format!("table {}", parameter.name), parameter.elements());
                return Err(TooLarge { what, elements });
            }
        }
        for record in network.records() {
            // Fields and rows may be padded to whole cache lines.
            let elements = record.fields.iter().map(|f| next_line(f.shape.elements())).sum();
            if elements > u32::MAX as usize {
                return Err(TooLarge { what: format!("record {}", record.name), elements });
            }
        }
        let (mut cells, mut moves) = (Vec::new(), Vec::new());
        for (kind, cell) in network.cells().iter().enumerate() {
            let compiled = compile(&records, Kind::new(kind), cell);
            cells.push(compiled.plan);
            moves.push(compiled.moves);
        }
        let signature = |(cell, plan)| Signature::new(&records, cell, plan);
        let signatures = network.cells().iter().zip(&cells).map(signature).collect();
        Ok(Self { network, records, cells, moves, signatures, training: None })
    }

    /// Returns the network that was compiled.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Returns the layout of a record.
    #[must_use]
    pub fn record(&self, record: RecordId) -> &RecordLayout {
        &self.records[usize::from(record.0)]
    }

    /// Returns the number of elements of a table's row; 1 for an index port.
    #[must_use]
    pub fn table_width(&self, table: &Table) -> u32 {
        let Some(parameter) = table.parameter else { return 1 };
        let dims = &self.network.parameter(parameter).dims;
        dims[1..].iter().product::<usize>() as u32
    }

    /// Returns true if a step of the cell outside its prologue reads this table port.
    pub(crate) fn reads_table(&self, kind: Kind, table: usize) -> bool {
        self.signature(kind).tables[table]
    }

    /// Returns the facts about a cell that planning needs.
    #[inline]
    pub(crate) fn signature(&self, kind: Kind) -> &Signature {
        &self.signatures[kind.index()]
    }

    /// Returns the plans of all cells, indexed by kind.
    #[must_use]
    pub fn cells(&self) -> &[CellPlan] {
        &self.cells
    }

    /// Returns the plan of a cell.
    #[must_use]
    pub fn cell(&self, kind: Kind) -> &CellPlan {
        &self.cells[kind.index()]
    }

    /// Returns the copies of a cell's plan and their reasons, one entry for each memory kernel that
    /// [`CellPlan::moved`] counts.
    #[must_use]
    pub fn copied(&self, kind: Kind) -> Vec<Copied> {
        copied(&self.network, &self.network[kind], self.cell(kind), &self.moves[kind.index()])
    }

    /// Returns the cell, or the part of a cell, that a step of a plan runs.
    ///
    /// # Panics
    /// If the cell does not have that part.
    #[must_use]
    pub fn carried_out(&self, step: &Step) -> &CellPlan {
        let part = self.part(step.cell, step.action.part());
        part.expect("a step runs a prologue or a body of an undivided cell")
    }

    /// Returns a part of a cell, if the cell has it.
    #[must_use]
    pub fn part(&self, kind: Kind, part: CellPart) -> Option<&CellPlan> {
        let cell = self.cell(kind);
        match part {
            CellPart::Whole => Some(cell),
            CellPart::Prologue => cell.hoisted.as_ref().map(|hoisted| &hoisted.prologue),
            CellPart::Body => cell.hoisted.as_ref().map(|hoisted| &hoisted.body),
        }
    }
}

/// Compiles a cell of a program again, in any style and with any batches.
#[must_use]
pub fn compile_cell(
    program: &Program,
    kind: Kind,
    style: CellStyle,
    batches: &[Vec<Var>],
) -> CellPlan {
    compile(&program.records, &program.network[kind], style, batches).plan
}

/// Returns the batches of a cell's operations in a schedule of its [`Cell::dag`].
///
/// # Panics
/// If the schedule is not legal.
#[must_use]
pub fn batches_of(cell: &Cell, schedule: &Schedule) -> Vec<Vec<Var>> {
    let (dag, vars) = cell.dag();
    if let Err(error) = schedule.check(&dag) {
        panic!("the schedule of cell {}: {error}", cell.name());
    }
    let batches = schedule.batches().filter(|batch| !batch.nodes.is_empty());
    batches.map(|batch| batch.nodes.iter().map(|node| vars[node.index()]).collect()).collect()
}

impl Signature {
    fn new(records: &[RecordLayout], cell: &Cell, plan: &CellPlan) -> Self {
        let hoisted = plan.hoisted.as_ref();
        // A cell whose prologue reads a table always runs in two parts.
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
            reads: (0..cell.ports().len()).map(|port| reads_port(plan, port)).collect(),
        };
        signature.fold(plan, None);
        signature
    }

    /// Sets the folded table that the cell reads, if any. Mini-batches then do not run its
    /// prologue.
    fn fold(&mut self, plan: &CellPlan, folded: Option<FoldedTable>) {
        let hoisted = plan.hoisted.as_ref().filter(|_| folded.is_none());
        self.hoisted = hoisted.map(|hoisted| (hoisted.from, hoisted.prologue.output_stride));
        self.folded = folded;
    }
}

/// Returns true if a step of a cell reads values at this port, or their number.
fn reads_port(plan: &CellPlan, port: usize) -> bool {
    plan.steps.iter().any(|step| match *step {
        CellStep::Rows(RowStep { kernel: RowKernel::Share(counted), .. })
            if usize::from(counted) == port =>
        {
            true
        }
        _ => step.reads().iter().any(|(place, _)| place.base == Base::Port(port as u16)),
    })
}

/// A cell, a table or a record with too many elements to address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{what} is too large: {elements} elements; expected fewer than 2^32 for a table or a record, \
     fewer than 2^31 and fewer than 2^14 operations for a cell: make it smaller or split it"
)]
pub struct TooLarge {
    /// The cell, the table or the record.
    pub what: String,
    /// The number of elements; for a cell, an upper bound on the elements that one call needs.
    pub elements: usize,
}
