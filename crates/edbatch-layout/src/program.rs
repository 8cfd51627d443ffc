//! A network, compiled: every cell's plan and every record's layout.

mod fold;

use std::fmt;
use std::sync::Arc;

use edbatch_graph::{Cell, Kind, Network, Port, RecordId, Schedule, Table, Var};

use crate::cell_plan::{Base, CellPlan, CellStep};
use crate::compile::{CellStyle, Compiled, compile};
use crate::copied::{Copied, Move, copied};
use crate::inner_batches::inner_batches;
use crate::plan::{CellPart, Step};
use crate::record_layout::{RecordLayout, next_line};
pub use fold::FoldedTable;

/// Everything that is decided once, when a model is loaded.
#[derive(Clone, Debug)]
pub struct Program {
    network: Arc<Network>,
    records: Vec<RecordLayout>,
    cells: Vec<CellPlan>,
    /// For each cell, the steps of its plan that only move.
    moves: Vec<Vec<Move>>,
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
    /// Compiles all cells of a network. Where the style has batches inside cells, those are
    /// [`inner_batches`].
    ///
    /// # Errors
    /// If a cell's tensors together have 2³¹ elements or more for a single call, if it has 16,384
    /// operations or more, or if a table or a record has 2³² elements or more.
    pub fn new(network: Arc<Network>, style: CellStyle) -> Result<Self, TooLarge> {
        Self::of_batches(network, style, |_, cell| match style {
            CellStyle::Batched | CellStyle::Paper => inner_batches(cell),
            _ => Vec::new(),
        })
    }

    /// The same, with a schedule for the operations of each cell: of its [`Cell::dag`].
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// If there are not as many schedules as cells, or one is not legal.
    pub fn scheduled(
        network: Arc<Network>,
        style: CellStyle,
        schedules: &[Schedule],
    ) -> Result<Self, TooLarge> {
        assert_eq!(schedules.len(), network.cells().len(), "a schedule for each cell");
        Self::of_batches(network, style, |kind, cell| batches_of(cell, &schedules[kind.index()]))
    }

    fn of_batches(
        network: Arc<Network>,
        style: CellStyle,
        batches: impl Fn(Kind, &Cell) -> Vec<Vec<Var>>,
    ) -> Result<Self, TooLarge> {
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
        for record in network.records() {
            // Fields and rows may be padded to whole cache lines.
            let elements = record.fields.iter().map(|f| next_line(f.shape.elements())).sum();
            if elements > u32::MAX as usize {
                return Err(TooLarge { what: format!("record {}", record.name), elements });
            }
        }
        let records = RecordLayout::all(&network);
        let (mut cells, mut moves) = (Vec::new(), Vec::new());
        for (kind, cell) in network.cells().iter().enumerate() {
            let batches = batches(Kind::new(kind), cell);
            let compiled: Compiled = compile(&records, cell, style, &batches);
            cells.push(compiled.plan);
            moves.push(compiled.moves);
        }
        let signature = |(cell, plan)| Signature::new(&records, cell, plan);
        let signatures = network.cells().iter().zip(&cells).map(signature).collect();
        Ok(Self { network, records, cells, moves, signatures })
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

    /// What the plan of a cell copies and why, a memory kernel each: all that
    /// [`CellPlan::moved`] counts.
    #[must_use]
    pub fn copied(&self, kind: Kind) -> Vec<Copied> {
        copied(&self.network, &self.network[kind], self.cell(kind), &self.moves[kind.index()])
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
    pub fn part(&self, kind: Kind, part: CellPart) -> Option<&CellPlan> {
        let cell = self.cell(kind);
        match part {
            CellPart::Whole => Some(cell),
            CellPart::Prologue => cell.hoisted.as_ref().map(|hoisted| &hoisted.prologue),
            CellPart::Body => cell.hoisted.as_ref().map(|hoisted| &hoisted.body),
        }
    }
}

/// Compiles a cell of a program once more, perhaps in another style and with other batches.
#[must_use]
pub fn compile_cell(
    program: &Program,
    kind: Kind,
    style: CellStyle,
    batches: &[Vec<Var>],
) -> CellPlan {
    compile(&program.records, &program.network[kind], style, batches).plan
}

/// The batches of a cell's operations that a schedule of its [`Cell::dag`] makes.
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

/// A cell, a table or a record that cannot be addressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// The cell, the table or the record.
    pub what: String,
    /// Its elements; for a cell, an upper bound on what one call needs.
    pub elements: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, elements } = self;
        write!(
            f,
            "{what} is too large: {elements} elements; expected a table or a record of fewer than \
             2^32, or a cell of fewer than 2^31 elements and 2^14 operations: make it smaller, or \
             divide it"
        )
    }
}

impl std::error::Error for TooLarge {}
