//! What each cache line of an arena holds while a plan is replayed.

use std::fmt;
use std::ops::Range;

use edbatch_graph::{Kind, NodeId, Source, Value};

use super::Checked;
use crate::record_layout::LINE;

/// What a cache line holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Nothing that was written.
    Free,
    /// A line of the given value of this index.
    Given(usize),
    /// A line of what a node makes.
    Node(NodeId),
    /// A line of what was hoisted from a cell for an argument.
    Hoisted(Kind, Argument),
    /// Nothing yet: it is kept for what is hoisted from a cell when the plan is refilled.
    Kept(Kind),
}

/// What something was hoisted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Argument {
    /// A row of the table that divides the cell.
    Row(u32),
    /// A given value.
    Given(usize),
    /// What a node makes.
    Node(NodeId),
}

impl From<Value> for Owner {
    fn from(value: Value) -> Self {
        match value.source() {
            Source::Node(node) => Self::Node(node),
            Source::Given(index) => Self::Given(index),
        }
    }
}

impl From<Value> for Argument {
    fn from(value: Value) -> Self {
        match value.source() {
            Source::Node(node) => Self::Node(node),
            Source::Given(index) => Self::Given(index),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("nothing"),
            Self::Given(index) => write!(f, "given value {index}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Hoisted(cell, Argument::Row(row)) => {
                write!(f, "what was hoisted from {cell} for row {row}")
            }
            Self::Hoisted(cell, Argument::Given(index)) => {
                write!(f, "what was hoisted from {cell} for given value {index}")
            }
            Self::Hoisted(cell, Argument::Node(node)) => {
                write!(f, "what was hoisted from {cell} for node {node}")
            }
            Self::Kept(cell) => write!(f, "the capacity for what is hoisted from {cell}"),
        }
    }
}

/// A map of an arena.
pub(super) struct Arena {
    elements: u64,
    /// By cache line: whose it is, and which line of that one's row.
    lines: Vec<(Owner, u32)>,
    /// By kind: whether a line of what was hoisted for its table has been written over. Which of
    /// its lines a call reads changes when the plan is refilled.
    spoilt: Vec<bool>,
}

impl Arena {
    /// A free arena, for a program of so many kinds.
    pub(super) fn new(elements: usize, kinds: usize) -> Checked<Self> {
        if elements as u64 > 1 << 32 {
            return Err(format!("an arena of {elements} elements, expected at most 2^32"));
        }
        let lines = vec![(Owner::Free, 0); elements / LINE];
        Ok(Self { elements: elements as u64, lines, spoilt: vec![false; kinds] })
    }

    /// The elements of rows one after the other, if they lie within the arena.
    pub(super) fn rows(&self, first: u32, stride: u32, count: u32) -> Checked<Range<u64>> {
        let (start, elements) = (u64::from(first), u64::from(stride) * u64::from(count));
        if !(first as usize).is_multiple_of(LINE) {
            return Err(format!("a row at {first}, expected the start of a cache line"));
        }
        if start + elements > self.elements {
            let end = start + elements;
            return Err(format!("rows to {end}, beyond the arena of {}", self.elements));
        }
        Ok(start..start + elements)
    }

    /// Whether nothing was written to these elements.
    pub(super) fn is_free(&self, elements: &Range<u64>) -> bool {
        self.lines[lines(elements)].iter().all(|&(owner, _)| owner == Owner::Free)
    }

    /// Writes one row, which lies within the arena.
    pub(super) fn write(&mut self, row: u32, stride: u32, owner: Owner) {
        let range = lines(&(u64::from(row)..u64::from(row) + u64::from(stride)));
        for (index, line) in (0..).zip(&mut self.lines[range]) {
            if let Owner::Kept(kind) | Owner::Hoisted(kind, Argument::Row(_)) = line.0 {
                self.spoilt[kind.index()] = true;
            }
            *line = (owner, index);
        }
    }

    /// Whether a line of what was hoisted for a cell's table has been written over.
    pub(super) fn is_spoilt(&self, kind: Kind) -> bool {
        self.spoilt[kind.index()]
    }

    /// What the line at `row` holds, if it is the first of its row.
    pub(super) fn owner(&self, row: u32) -> Owner {
        match self.lines.get(row as usize / LINE) {
            Some(&(owner, 0)) if (row as usize).is_multiple_of(LINE) => owner,
            _ => Owner::Free,
        }
    }

    /// Whether the whole row of `owner` is at `row`.
    pub(super) fn holds(&self, row: u32, stride: u32, owner: Owner) -> Checked {
        let range = lines(&self.rows(row, stride, 1)?);
        for (index, &(found, line)) in (0..).zip(&self.lines[range]) {
            if (found, line) != (owner, index) {
                return Err(match found == owner {
                    true => format!("expected {owner} at {row}, which is not where it begins"),
                    false => format!("expected {owner} at {row}, found {found}"),
                });
            }
        }
        Ok(())
    }
}

/// The cache lines of elements that begin and end with one.
fn lines(elements: &Range<u64>) -> Range<usize> {
    elements.start as usize / LINE..elements.end as usize / LINE
}
