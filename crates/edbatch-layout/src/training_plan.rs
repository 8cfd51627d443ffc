//! Plans of a training step: the mini-batch forward, its gradients back, and the sums of
//! parameters' gradients.

use std::fmt;
use std::ops::Range;

use edbatch_graph::Kind;

use crate::plan::Plan;

/// A mini-batch and its gradients, over one arena.
///
/// The backward pass has a step for each batch, in reverse order: the batch's adjoint cell, for the
/// same calls. An adjoint call reads the gradients that the readers of its value computed. Rows of
/// adjoints stay to the end, because the gradients of parameters are summed from them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrainingPlan {
    /// Computes the values. Its arena is large enough for both plans.
    pub forward: Plan,
    /// Computes the gradients, after `forward` in the same arena. It has a given row for the
    /// gradient of each value in [`gradient_of`](Self::gradient_of), and no wanted values.
    pub back: Plan,
    /// For each wanted value of `forward`: the given row of `back` with its gradient, if the loss
    /// depends on it.
    pub gradient_of: Vec<Option<u32>>,
    /// The calls whose adjoints contribute to gradients of parameters, for each cell.
    pub calls: Vec<CallSums>,
    /// The contributions to gradients of given values.
    pub given: Vec<GivenSum>,
    /// The rows that `calls` and `given` sum, as offsets in the arena.
    pub lists: Vec<u32>,
    /// The rows of tables that the calls name.
    pub named: Vec<u32>,
}

/// The adjoint calls of a cell, in the order of the forward calls in the graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSums {
    /// The forward cell.
    pub cell: Kind,
    /// The range of [`TrainingPlan::lists`] with the rows of the adjoint calls.
    pub rows: Range<u32>,
    /// The index in [`TrainingPlan::named`] of the first call's first table row. Each call has a
    /// row for each table of the cell.
    pub named: u32,
}

/// A gradient of a given value: the sum of the contributions of its readers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenSum {
    /// The index of the given value in [`Plan::given`] of `forward`.
    pub given: u32,
    /// The field of its record.
    pub field: u16,
    /// The range of [`TrainingPlan::lists`] with the offsets of output gradients, then of the
    /// contributions of calls, in the order of the calls.
    pub rows: Range<u32>,
    /// The number of output gradients. They have a sum of their own.
    pub outputs: u32,
}

impl TrainingPlan {
    /// Clears the plan and keeps the memory.
    pub fn clear(&mut self) {
        self.forward.clear();
        self.back.clear();
        self.gradient_of.clear();
        self.calls.clear();
        self.given.clear();
        self.lists.clear();
        self.named.clear();
    }

    /// Returns a range of [`lists`](Self::lists).
    #[must_use]
    pub fn list(&self, rows: &Range<u32>) -> &[u32] {
        &self.lists[rows.start as usize..rows.end as usize]
    }
}

/// The steps of both plans, then a line for each sum: `sum k1: [64 96]`.
impl fmt::Display for TrainingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "forward:\n{}back:\n{}", self.forward, self.back)?;
        for CallSums { cell, rows, .. } in &self.calls {
            writeln!(f, "sum {cell}: {:?}", self.list(rows))?;
        }
        for GivenSum { given, field, rows, .. } in &self.given {
            writeln!(f, "sum given value {given}, field {field}: {:?}", self.list(rows))?;
        }
        Ok(())
    }
}
