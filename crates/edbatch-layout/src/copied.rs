//! What a compiled cell copies, and why.

use std::fmt;

use edbatch_graph::{Cell, Network, Var};

use crate::cell_plan::{CellPlan, Moved};
use crate::names::name_of;

/// A memory kernel of a compiled cell: one or several of its steps, which only move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The operation that wants it, or what makes it necessary.
    pub operation: String,
    /// The variables that are moved.
    pub variables: Vec<String>,
    /// What the kernel writes, for one call.
    pub bytes: u64,
    /// Why it is there.
    pub why: String,
}

/// A step that only moves: a variable, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    /// Which step of the plan.
    pub(crate) step: usize,
    pub(crate) var: Var,
    pub(crate) why: Why,
}

/// Why something is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The batch of this operation wants an operand side by side, and it does not lie so.
    Gathered(Var),
    /// The batch wrote its results side by side, and they live elsewhere.
    Scattered,
    /// It lies in memory that the step which reads it writes.
    Overwritten,
    /// It is a part of this variable.
    Concatenated(Var),
    /// It has fewer elements than what it is combined with.
    Repeated,
    /// Its rows become columns.
    Transposed,
    /// It is a constant.
    Constant,
    /// The cell returns it, and it does not lie in the output.
    Returned,
}

/// The memory kernels of a plan, of whose moving steps `moves` are.
pub(crate) fn copied(
    network: &Network,
    cell: &Cell,
    plan: &CellPlan,
    moves: &[Move],
) -> Vec<Copied> {
    let mut kernels: Vec<Copied> = Vec::new();
    let mut before = Moved::default();
    for &Move { step, var, why } in moves {
        // As many kernels as the steps so far are counted as.
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
            Self::Gathered(_) => "not side by side, in the order of the batch",
            Self::Scattered => "written side by side, and lives elsewhere",
            Self::Overwritten => "lies in memory that its reader writes",
            Self::Concatenated(_) => "becomes a part of a longer tensor",
            Self::Repeated => "has fewer elements than what it is combined with",
            Self::Transposed => "its rows become columns",
            Self::Constant => "a constant is filled in",
            Self::Returned => "is returned, and lies elsewhere than in the output",
        })
    }
}
