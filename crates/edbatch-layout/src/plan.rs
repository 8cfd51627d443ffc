//! Plans: mini-batches as plain data that a backend executes.

use std::fmt;

use edbatch_graph::{Kind, RecordId};

/// The steps of a mini-batch over one arena of f32 elements.
///
/// Everything is a number in a flat array, so a plan can be copied to a device unchanged. No tensor
/// is an object at run time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// A step for each batch, in order. A prologue step precedes each group of batches that needs
    /// hoisted rows.
    pub steps: Vec<Step>,
    /// The operands of all steps: for each step an operand per table, then one per port, and one
    /// more for the [body](Action::Body) of a cell.
    pub operands: Vec<Operand>,
    /// Lists that operands refer to.
    pub lists: Vec<u32>,
    /// Lists of rows of tables, which depend on the rows that the calls name. The rest of the plan
    /// depends only on the graph's topology and its schedule.
    pub rows: Vec<u32>,
    /// The number of elements of the arena.
    pub arena: usize,
    /// The rows of the given values, which the caller writes before the first step.
    pub given: Vec<ValueRow>,
    /// The rows of the values that are used after the last step, and their use.
    pub wanted: Vec<(ValueRow, Want)>,
}

/// The row of a value in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueRow {
    /// The record in the row; [`Program::record`](crate::Program::record) is its layout.
    pub record: RecordId,
    /// The offset of the row in the arena, in elements.
    pub start: u32,
}

/// The use of a value after its plan has run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Want {
    /// Copy its elements to host memory.
    Elements,
    /// Copy the index of its largest element to host memory.
    ArgMax,
    /// Keep it in the backend, as a given value of the next plan.
    Stay,
}

/// A batch, which calls a cell for several nodes; or a prologue for some batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The cell.
    pub cell: Kind,
    /// The part of the cell that runs, and the purpose.
    pub action: Action,
    /// The number of nodes, or of distinct rows.
    pub calls: u32,
    /// The offset of the first output row. The next rows follow at the stride of the record, or of
    /// hoisted rows.
    pub out: u32,
    /// The index of the first operand in [`Plan::operands`].
    pub operands: u32,
}

/// The action of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Runs the cell for the nodes of a batch.
    Call,
    /// Runs the [prologue](crate::Hoisted::prologue) of the cell, for distinct rows of a table or
    /// for the values that the calls of several batches read. Its other operands are unread.
    Hoist,
    /// Runs the [body](crate::Hoisted::body) of the cell for the nodes of a batch. The last operand
    /// names their rows of prologue results, hoisted or folded.
    Body,
}

/// The part of a cell that a step runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellPart {
    /// The whole cell.
    Whole,
    /// Its [prologue](crate::Hoisted::prologue).
    Prologue,
    /// Its [body](crate::Hoisted::body).
    Body,
}

impl Action {
    /// Returns the part of the cell that runs.
    #[must_use]
    pub fn part(self) -> CellPart {
        match self {
            Self::Call => CellPart::Whole,
            Self::Hoist => CellPart::Prologue,
            Self::Body => CellPart::Body,
        }
    }
}

impl Step {
    /// Returns true if both steps run the same part of the same cell.
    #[must_use]
    pub fn same_part(&self, other: &Self) -> bool {
        self.cell == other.cell && self.action.part() == other.action.part()
    }

    /// Returns true if the step runs a batch of the schedule, and false for a prologue.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.action != Action::Hoist
    }
}

/// The location of one argument of a step's calls. Offsets are in elements of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Rows of a parameter: call `b` reads it at offset `rows[start + b]`.
    Table {
        /// Index into [`Plan::rows`].
        start: u32,
    },
    /// No location: another part of the cell reads the argument.
    Unread,
    /// Hoisted rows for distinct rows of a table: call `b` reads at `rows[start + b]`.
    Hoisted {
        /// Index into [`Plan::rows`].
        start: u32,
    },
    /// Rows of a [folded table](crate::FoldedTable): call `b` reads at `rows[start + b]` in the
    /// memory of all folded tables.
    Folded {
        /// Index into [`Plan::rows`].
        start: u32,
    },
    /// Rows at equal distances: call `b` reads at `first + b × stride`.
    Span {
        /// The offset of the first call's row.
        first: u32,
        /// The distance from one call's row to the next; not 0.
        stride: u32,
    },
    /// A list of rows: call `b` reads at `lists[start + b]`.
    List {
        /// Index into [`Plan::lists`].
        start: u32,
    },
    /// Any number of rows for each call: call `b` reads at `lists[rows..][ends[b - 1]..ends[b]]`,
    /// where `ends` is `lists[ends..ends + calls]`, and the first call starts at 0.
    Many {
        /// Index into [`Plan::lists`]: one end per call.
        ends: u32,
        /// Index into [`Plan::lists`]: the rows of all calls.
        rows: u32,
    },
}

impl Plan {
    /// Clears the plan and keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.operands.clear();
        self.lists.clear();
        self.rows.clear();
        self.given.clear();
        self.wanted.clear();
        self.arena = 0;
    }

    /// Returns the operands of a step.
    #[must_use]
    pub fn operands_of(&self, step: usize) -> &[Operand] {
        let start = self.steps[step].operands as usize;
        let end =
            self.steps.get(step + 1).map_or(self.operands.len(), |next| next.operands as usize);
        &self.operands[start..end]
    }

    /// Returns `calls` entries of [`Plan::lists`].
    #[must_use]
    pub fn list(&self, start: u32, calls: u32) -> &[u32] {
        &self.lists[start as usize..(start + calls) as usize]
    }

    /// Returns `calls` entries of [`Plan::rows`].
    #[must_use]
    pub fn rows(&self, start: u32, calls: u32) -> &[u32] {
        &self.rows[start as usize..(start + calls) as usize]
    }
}

/// One line per step: `k1 × 3 -> @96: table [4 1 7], span @0+32, list [0 64 32]`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let hoist = if step.is_batch() { "" } else { " hoisted" };
            write!(f, "{}{hoist} × {} -> @{}:", step.cell, step.calls, step.out)?;
            for (i, operand) in self.operands_of(index).iter().enumerate() {
                f.write_str(if i == 0 { " " } else { ", " })?;
                match *operand {
                    Operand::Table { start } => {
                        write!(f, "table {:?}", self.rows(start, step.calls))?
                    }
                    Operand::Unread => f.write_str("unread")?,
                    Operand::Hoisted { start } => {
                        write!(f, "hoisted {:?}", self.rows(start, step.calls))?
                    }
                    Operand::Folded { start } => {
                        write!(f, "folded {:?}", self.rows(start, step.calls))?
                    }
                    Operand::Span { first, stride } => write!(f, "span @{first}+{stride}")?,
                    Operand::List { start } => {
                        write!(f, "list {:?}", self.list(start, step.calls))?
                    }
                    Operand::Many { ends, rows } => {
                        let ends = self.list(ends, step.calls);
                        let all = ends.last().copied().unwrap_or(0);
                        write!(f, "many {:?} ending {ends:?}", self.list(rows, all))?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
