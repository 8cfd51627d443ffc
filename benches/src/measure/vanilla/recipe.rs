//! The operations of a cell.

use edbatch_graph::Kind;

/// The operations of a cell, in order.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<Operand>,
    pub(super) fields: usize,
}

/// One operation: a call of the vanilla network.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Lookup { kind: Kind, table: u16 },
    Reduce { kind: Kind, port: u16, field: u16 },
    Apply { kind: Kind, operands: Vec<Operand> },
}

/// The source of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Input { port: u16, field: u16 },
    Step(usize),
}
