//! A planned mini-batch: plain data that a backend carries out.

use std::fmt;

use edbatch_graph::{Kind, RecordId};

/// The steps of a mini-batch over one arena of f32 elements.
///
/// Everything is a number in a flat array, so that a plan can be copied to a device as it is.
/// No tensor is an object at run time.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// A step for each batch, in order, and one before each group of batches for which something is
    /// hoisted.
    pub steps: Vec<Step>,
    /// The operands of all steps: per step an operand per table, then one per port, and for the
    /// [body](Action::Body) of a cell one more.
    pub operands: Vec<Operand>,
    /// Lists that operands refer to.
    pub lists: Vec<u32>,
    /// Lists that depend on the rows of tables which the calls name; everything else follows from
    /// the graph's topology and its schedule.
    pub rows: Vec<u32>,
    /// Elements of the arena.
    pub arena: usize,
    /// By step: the first wave after those of all steps that it reads, where steps may run
    /// side by side ([`Planner::for_waves`](crate::Planner::for_waves)); else empty.
    pub waves: Vec<u32>,
    /// The rows of the given values, which are there before the first step.
    pub given: Vec<ValueRow>,
    /// The rows of the values that are used after the last step, and what for.
    pub wanted: Vec<(ValueRow, Want)>,
}

/// Where a value lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueRow {
    /// What the row holds; [`Program::record`](crate::Program::record) says where in it.
    pub record: RecordId,
    /// Where the row begins in the arena, in elements.
    pub start: u32,
}

/// What a value is wanted for, once its plan has run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Want {
    /// Its elements, in the host's memory.
    Elements,
    /// The index of its greatest element, in the host's memory.
    ArgMax,
    /// To stay with the backend, as a given value of the plan that it runs next.
    Stay,
}

/// A batch, a cell called for several nodes at once; or the hoisted part of some batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which cell.
    pub cell: Kind,
    /// What of it.
    pub action: Action,
    /// For how many nodes, or distinct rows.
    pub calls: u32,
    /// Where the first output row begins; the others follow at the record's stride, or at that of
    /// hoisted rows.
    pub out: u32,
    /// Index of the first operand in [`Plan::operands`].
    pub operands: u32,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Calls the cell for the nodes of a batch.
    Call,
    /// Computes the [prologue](crate::Hoisted::prologue) of the cell, for distinct rows of a table
    /// or for the values that the calls of several batches read. Its other operands are unread.
    Hoist {
        /// For how many rows there is memory.
        capacity: u32,
    },
    /// Calls the [body](crate::Hoisted::body) of the cell for the nodes of a batch. The last
    /// operand is where they find their rows of the prologue's results, hoisted or folded.
    Body,
}

/// The part of a cell that a step carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellPart {
    /// All of it.
    Whole,
    /// Its [prologue](crate::Hoisted::prologue).
    Prologue,
    /// Its [body](crate::Hoisted::body).
    Body,
}

impl Action {
    /// The part of the cell that is carried out.
    #[must_use]
    pub fn part(self) -> CellPart {
        match self {
            Self::Call => CellPart::Whole,
            Self::Hoist { .. } => CellPart::Prologue,
            Self::Body => CellPart::Body,
        }
    }
}

impl Step {
    /// Whether the step carries out the same part of the same cell as another.
    #[must_use]
    pub fn same_part(&self, other: &Self) -> bool {
        self.cell == other.cell && self.action.part() == other.action.part()
    }

    /// Whether the step runs a batch of the schedule; otherwise it prepares some.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        !matches!(self.action, Action::Hoist { .. })
    }
}

/// Where the calls of a step find one of their arguments. Offsets are in elements of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Rows of a parameter: call `b` reads it from element `rows[start + b]` on.
    Table {
        /// Into [`Plan::rows`].
        start: u32,
    },
    /// Nothing: another part of the cell reads it.
    Unread,
    /// Rows of results for distinct rows of a table: call `b` reads at `rows[start + b]`.
    Hoisted {
        /// Into [`Plan::rows`].
        start: u32,
    },
    /// Rows of a [folded table](crate::FoldedTable): call `b` reads at `rows[start + b]` of the
    /// memory of all folded tables.
    Folded {
        /// Into [`Plan::rows`].
        start: u32,
    },
    /// Rows at equal distances: call `b` reads at `first + b × stride`.
    Span {
        /// Where the first call's row begins.
        first: u32,
        /// From one call's row to the next, not 0.
        stride: u32,
    },
    /// Rows anywhere: call `b` reads at `lists[start + b]`.
    List {
        /// Into [`Plan::lists`].
        start: u32,
    },
    /// Any number of rows a call: call `b` reads at `lists[rows..][ends[b - 1]..ends[b]]`, where
    /// `ends` is `lists[ends..ends + calls]` and counts from 0.
    Many {
        /// Into [`Plan::lists`]: one end per call.
        ends: u32,
        /// Into [`Plan::lists`]: the rows of all calls.
        rows: u32,
    },
}

/// A copy into a plan that was as large before allocates nothing: [`Clone::clone_from`].
impl Clone for Plan {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        // By name, so that a new field is not forgotten.
        let Self { steps, operands, lists, rows, arena, waves, given, wanted } = source;
        self.steps.clone_from(steps);
        self.operands.clone_from(operands);
        self.lists.clone_from(lists);
        self.rows.clone_from(rows);
        self.arena = *arena;
        self.waves.clone_from(waves);
        self.given.clone_from(given);
        self.wanted.clone_from(wanted);
    }
}

impl Plan {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.operands.clear();
        self.lists.clear();
        self.rows.clear();
        self.waves.clear();
        self.given.clear();
        self.wanted.clear();
        self.arena = 0;
    }

    /// The operands of a step, as its [`Action`] says.
    #[must_use]
    pub fn operands_of(&self, step: usize) -> &[Operand] {
        let start = self.steps[step].operands as usize;
        let end =
            self.steps.get(step + 1).map_or(self.operands.len(), |next| next.operands as usize);
        &self.operands[start..end]
    }

    /// `calls` numbers of [`Plan::lists`].
    #[must_use]
    pub fn list(&self, start: u32, calls: u32) -> &[u32] {
        &self.lists[start as usize..(start + calls) as usize]
    }

    /// `calls` numbers of [`Plan::rows`].
    #[must_use]
    pub fn rows(&self, start: u32, calls: u32) -> &[u32] {
        &self.rows[start as usize..(start + calls) as usize]
    }
}

/// One line a step: `k1 × 3 -> @96: table [4 1 7], span @0+32, list [0 64 32]`.
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
