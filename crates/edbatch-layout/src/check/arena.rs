//! The contents of each cache line of an arena while a plan is replayed.

use std::fmt;
use std::ops::Range;

use edbatch_graph::{Kind, NodeId, Source};

use super::Checked;
use crate::record_layout::LINE;

/// The contents of a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Nothing was written.
    Free,
    /// A line of the record of a node, or of a given value.
    Value(Source),
    /// A line of the results of a cell's prologue for this argument.
    Hoisted(Kind, Argument),
    /// A line of the output gradient with this number.
    Output(usize),
    /// A line of the row of a node's adjoint call.
    Adjoint(NodeId),
    /// A line of a row that the pair cell writes. There is one such row for each argument of a
    /// node's adjoint call.
    Pair(NodeId, u32),
}

/// The argument of a prologue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Argument {
    /// The index of a table row.
    Row(u32),
    /// The table row of the argmax of a record.
    ArgMax(Source),
    /// The record of a node, or of a given value.
    Value(Source),
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(f, "table row {row}"),
            Self::ArgMax(source) => write!(f, "the row of the argmax of {}", Self::Value(*source)),
            Self::Value(Source::Given(index)) => write!(f, "given value {index}"),
            Self::Value(Source::Node(node)) => write!(f, "node {node}"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("nothing"),
            Self::Value(source) => Argument::Value(*source).fmt(f),
            Self::Output(number) => write!(f, "output gradient {number}"),
            Self::Adjoint(node) => write!(f, "the adjoint of node {node}"),
            Self::Pair(node, argument) => {
                write!(f, "the adjoint of argument {argument} of node {node}")
            }
            Self::Hoisted(cell, argument) => {
                write!(f, "the hoisted row of {cell} for {argument}")
            }
        }
    }
}

/// A map of an arena: the contents of each cache line.
pub(super) struct Arena {
    elements: u64,
    /// By cache line: its owner, and the index of the line in the owner's row.
    lines: Vec<(Owner, u32)>,
}

impl Arena {
    /// Creates an arena to which nothing was written.
    pub(super) fn new(elements: usize) -> Checked<Self> {
        if elements as u64 > 1 << 32 {
            return Err(format!("an arena of {elements} elements, expected at most 2^32"));
        }
        let lines = vec![(Owner::Free, 0); elements / LINE];
        Ok(Self { elements: elements as u64, lines })
    }

    /// Returns the elements of `count` consecutive rows. Fails if they exceed the arena.
    pub(super) fn rows(&self, first: u32, stride: u32, count: u32) -> Checked<Range<u64>> {
        let (start, elements) = (u64::from(first), u64::from(stride) * u64::from(count));
        if !(first as usize).is_multiple_of(LINE) {
            return Err(format!("a row at {first}, expected the start of a cache line"));
        }
        if start + elements > self.elements {
            let end = start + elements;
            return Err(format!("rows up to {end}, beyond the arena of {}", self.elements));
        }
        Ok(start..start + elements)
    }

    /// Returns true if nothing was written to these elements.
    pub(super) fn is_free(&self, elements: &Range<u64>) -> bool {
        self.lines[lines(elements)].iter().all(|&(owner, _)| owner == Owner::Free)
    }

    /// Records that the row at `row`, which is within the arena, now belongs to `owner`.
    pub(super) fn write(&mut self, row: u32, stride: u32, owner: Owner) {
        let range = lines(&(u64::from(row)..u64::from(row) + u64::from(stride)));
        for (index, line) in (0..).zip(&mut self.lines[range]) {
            *line = (owner, index);
        }
    }

    /// Returns the owner of the line at `row` if it is the first line of the owner's row, else
    /// `Free`.
    pub(super) fn owner(&self, row: u32) -> Owner {
        match self.lines.get(row as usize / LINE) {
            Some(&(owner, 0)) if (row as usize).is_multiple_of(LINE) => owner,
            _ => Owner::Free,
        }
    }

    /// Checks that the whole row of `owner` is at `row`.
    pub(super) fn holds(&self, row: u32, stride: u32, owner: Owner) -> Checked {
        let range = lines(&self.rows(row, stride, 1)?);
        for (index, &(found, line)) in (0..).zip(&self.lines[range]) {
            if (found, line) != (owner, index) {
                return Err(match found == owner {
                    true => format!("expected {owner} at {row}, found a later line of it"),
                    false => format!("expected {owner} at {row}, found {found}"),
                });
            }
        }
        Ok(())
    }
}

/// Returns the cache lines of elements that begin and end at line boundaries.
fn lines(elements: &Range<u64>) -> Range<usize> {
    elements.start as usize / LINE..elements.end as usize / LINE
}
