//! Reports the copies of a compiled cell, and the reason for each.

use std::fmt;

use edbatch_graph::{Cell, Network, Var};

use crate::cell_plan::{CellPlan, Moved};
use crate::names::name_of;

/// A memory kernel of a compiled cell: one or more steps that only move data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The operation that causes the copy; `read` for an operation that reads the variable,
    /// `return` for the output row.
    pub operation: String,
    /// The variables that are moved.
    pub variables: Vec<String>,
    /// The number of bytes that the kernel writes for one call.
    pub bytes: u64,
    /// The reason, as text for people.
    pub why: String,
}

/// A step that only moves data: its variable, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    /// The index of the step in the plan.
    pub(crate) step: usize,
    pub(crate) var: Var,
    pub(crate) why: Why,
}

/// The reason for a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The batch with this operation needs its operand contiguous, but the variables are not.
    Gathered(Var),
    /// The batch computes contiguous results, but the variable is stored elsewhere.
    Scattered,
    /// The step that reads the variable writes to the region of scratch that holds it.
    Overwritten,
    /// The variable becomes a part of this concatenation.
    Concatenated(Var),
    /// The variable is broadcast.
    Repeated,
    /// The variable is a matrix whose rows become columns.
    Transposed,
    /// The variable is a constant.
    Constant,
    /// The cell returns the variable, but it is not stored in the output row.
    Returned,
}

/// Returns the memory kernels of a plan. `moves` are its steps that only move data.
pub(crate) fn copied(
    network: &Network,
    cell: &Cell,
    plan: &CellPlan,
    moves: &[Move],
) -> Vec<Copied> {
    let mut kernels: Vec<Copied> = Vec::new();
    let mut before = Moved::default();
    for &Move { step, var, why } in moves {
        // The kernels and bytes up to this step.
        let steps = plan.steps[..=step].to_vec();
        let now = CellPlan { steps, hoisted: None, ..plan.clone() }.moved(1);
        let (name, bytes) = (name_of(network, cell, var), now.bytes - before.bytes);
        if now.kernels > before.kernels {
            let operation = operation(cell, var, why);
            kernels.push(Copied { operation, variables: vec![], bytes: 0, why: why.to_string() });
        }
        let kernel = kernels.last_mut().expect("the first move is a kernel");
        kernel.variables.push(name);
        kernel.bytes += bytes;
        before = now;
    }
    kernels
}

fn operation(cell: &Cell, var: Var, why: Why) -> String {
    match why {
        Why::Gathered(of) | Why::Concatenated(of) => cell.instruction(of).op.to_string(),
        Why::Returned => "return".into(),
        Why::Scattered | Why::Transposed | Why::Constant => cell.instruction(var).op.to_string(),
        Why::Overwritten | Why::Repeated => "read".into(),
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gathered(_) => "not contiguous in the order of the batch",
            Self::Scattered => "computed contiguously, but stored elsewhere",
            Self::Overwritten => "stored in memory that its reader writes",
            Self::Concatenated(_) => "becomes a part of a longer tensor",
            Self::Repeated => "broadcast to the shape of the other operand",
            Self::Transposed => "its rows become columns",
            Self::Constant => "a constant is filled in",
            Self::Returned => "returned, but not stored in the output",
        })
    }
}
