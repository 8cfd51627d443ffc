//! Plans: mini-batches as plain data that a backend executes.

use std::fmt;

use edbatch_graph::{Kind, RecordId};

/// The steps of a mini-batch over one arena of f32 elements.
///
/// Everything is a number in a flat array, so a plan can be copied to a device unchanged. No tensor
/// is an object at run time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// A step for each batch, in order. A step that runs a prologue precedes the batches that read
    /// its results. The prologue of a table may run in several steps, whose results are
    /// consecutive.
    pub steps: Vec<Step>,
    /// The operands of all steps. A step has one per table port, then one per port, then, if it
    /// runs a [body](Action::Body), one for the prologue's results.
    pub operands: Vec<Operand>,
    /// Lists that operands refer to: offsets of rows in the arena, and ends of [`Operand::Many`].
    pub lists: Vec<u32>,
    /// Lists of offsets that depend on the table rows that the calls read. The rest of the plan
    /// depends on these rows only through the number of distinct ones, and the batches that name
    /// them first.
    pub rows: Vec<u32>,
    /// The entries of `rows` that depend on computed values, in the order of their steps. They are
    /// 0 in the plan; the backend writes them while it runs the plan.
    pub lookups: Vec<Lookup>,
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

/// An offset of a table row that depends on a computed value: `rows[entry] = base + width × i`,
/// where `i` is the index of the value's largest element, as [`Want::ArgMax`] has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// The index of the step that reads the entry. No earlier step does.
    pub step: u32,
    /// The row of the value.
    pub value: ValueRow,
    /// Index into [`Plan::rows`].
    pub entry: u32,
    /// The offset of the first row of the table.
    pub base: u32,
    /// The number of elements from a row of the table to the next.
    pub width: u32,
}

/// The use of a value after its plan has run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Want {
    /// Copy its elements to host memory.
    Elements,
    /// Copy the index of its largest element to host memory.
    ArgMax,
    /// Copy its row to the store of the slot, where later plans find it. The row takes as many
    /// lines of [`LINE`](crate::LINE) elements as in the arena, from this one on.
    Store(u32),
}

/// Several calls of a cell, or of a part of it, that run together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The cell.
    pub cell: Kind,
    /// The part of the cell that runs, and for which calls.
    pub action: Action,
    /// The number of calls: nodes of a batch, or rows that a prologue computes.
    pub calls: u32,
    /// The arena offset of the first output row, in elements. Further rows follow at the stride of
    /// the cell's record, or of the prologue's results.
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
    /// for the values that the calls of several batches read. All operands except this one are
    /// [`Operand::Unread`].
    Hoist,
    /// Runs the [body](crate::Hoisted::body) of the cell for the nodes of a batch. The last operand
    /// locates their prologue results, hoisted or [folded](crate::FoldedTable).
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
    /// Returns true if the step runs a batch of the schedule, and false for a prologue.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.action != Action::Hoist
    }
}

/// The location of one argument of a step's calls. Offsets are in elements, from the start of the
/// arena unless another memory is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Rows of a parameter: call `b` reads the parameter at offset `rows[start + b]`.
    Table {
        /// Index into [`Plan::rows`].
        start: u32,
    },
    /// No location: the step does not read the argument.
    Unread,
    /// Prologue results for distinct rows of a table: call `b` reads at `rows[start + b]`.
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
    /// Any number of rows for each call, such as the children of a tree node. The rows of all calls
    /// are one list, call after call, and each call has an end in it: call `b` reads the rows
    /// `lists[rows + i]` for `i` from the end of call `b - 1` (0 for the first call) up to its own
    /// end, `lists[ends + b]`, exclusive.
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
        self.lookups.clear();
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

    /// Returns the lookups of a step.
    #[must_use]
    pub fn lookups_of(&self, step: usize) -> &[Lookup] {
        let before = |end: usize| self.lookups.partition_point(|own| (own.step as usize) < end);
        &self.lookups[before(step)..before(step + 1)]
    }

    /// Returns the next `calls` entries of [`Plan::lists`] from `start` on.
    #[must_use]
    pub fn list(&self, start: u32, calls: u32) -> &[u32] {
        &self.lists[start as usize..(start + calls) as usize]
    }

    /// Returns the next `calls` entries of [`Plan::rows`] from `start` on.
    #[must_use]
    pub fn rows(&self, start: u32, calls: u32) -> &[u32] {
        &self.rows[start as usize..(start + calls) as usize]
    }
}

/// One line per step: `k1 × 3 -> @96: table [4 1 7], span @0+32, list [0 64 32]`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let rows = |start| self.rows(start, step.calls);
            let hoist = if step.is_batch() { "" } else { " hoisted" };
            write!(f, "{}{hoist} × {} -> @{}:", step.cell, step.calls, step.out)?;
            for (i, operand) in self.operands_of(index).iter().enumerate() {
                f.write_str(if i == 0 { " " } else { ", " })?;
                match *operand {
                    Operand::Table { start } => write!(f, "table {:?}", rows(start))?,
                    Operand::Unread => f.write_str("unread")?,
                    Operand::Hoisted { start } => write!(f, "hoisted {:?}", rows(start))?,
                    Operand::Folded { start } => write!(f, "folded {:?}", rows(start))?,
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
            for &Lookup { value, entry, base, width, .. } in self.lookups_of(index) {
                write!(f, ", rows[{entry}] = {base} + {width} × argmax @{}", value.start)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
