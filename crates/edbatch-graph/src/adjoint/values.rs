//! Values of forward variables in an adjoint: saved by the forward call, or computed again.

use std::collections::BTreeSet;

use super::Derivation;
use crate::{Cell, Instruction, Op, Var};

/// The source of the values of forward variables that an adjoint reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// The forward call's row, which holds the values that are expensive to compute again.
    Saved,
    /// A row of this table, which is table 0 of the adjoint: all values are computed again from it.
    Again { table: u16 },
}

/// Returns true for each variable that an adjoint computes from what it can read without a product,
/// a reduction or a softmax. `returned` has a field for each variable that the cell returns.
pub(super) fn cheap(cell: &Cell, returned: &[Option<u16>]) -> Vec<bool> {
    let mut cheap: Vec<bool> = Vec::with_capacity(returned.len());
    for (Instruction { op, operands, .. }, returned) in cell.instructions().iter().zip(returned) {
        cheap.push(
            is_read(*op)
                || returned.is_some()
                || !is_expensive(*op) && operands.iter().all(|operand| cheap[operand.index()]),
        );
    }
    cheap
}

impl Derivation<'_> {
    /// Returns the adjoint's variable with the value of a forward variable.
    pub(super) fn value(&mut self, var: Var) -> Var {
        if let Some(known) = self.known[var.index()] {
            return known;
        }
        // Operands precede their readers, so values are computed in the order of declaration.
        let (mut missing, mut open) = (BTreeSet::from([var]), vec![var]);
        while let Some(next) = open.pop() {
            if self.is_computed_again(next) {
                for &operand in &self.cell.instruction(next).operands {
                    if self.known[operand.index()].is_none() && missing.insert(operand) {
                        open.push(operand);
                    }
                }
            }
        }
        for &var in &missing {
            let value = self.read_or_compute(var);
            self.known[var.index()] = Some(value);
        }
        self.known[var.index()].expect("just computed")
    }

    fn is_computed_again(&self, var: Var) -> bool {
        let op = self.cell.instruction(var).op;
        match self.values {
            _ if is_read(op) => false,
            Values::Again { .. } => true,
            Values::Saved if self.returned[var.index()].is_some() => false,
            // A function's result is saved instead of the expensive value that it is computed from.
            Values::Saved => self.cheap[var.index()] || !is_expensive(op) && !is_saved(op),
        }
    }

    fn read_or_compute(&mut self, var: Var) -> Var {
        let Instruction { op, operands, shape } = self.cell.instruction(var);
        if self.is_computed_again(var) {
            let known = |operand: &Var| self.known[operand.index()].expect("computed before");
            let operands: Vec<Var> = operands.iter().map(known).collect();
            return self.push(*op, &operands);
        }
        if is_read(*op) {
            let op = match (self.values, *op) {
                (Values::Again { table }, Op::Lookup { table: of }) if of == table => {
                    Op::Lookup { table: 0 }
                }
                _ => *op,
            };
            return self.push_source(op, *shape);
        }
        let field = self.returned[var.index()].unwrap_or_else(|| {
            self.saved.push(var);
            (self.cell.outputs().len() + self.saved.len() - 1) as u16
        });
        self.push_source(Op::Input { port: self.cell.ports().len() as u16, field }, *shape)
    }
}

/// Returns true for operations whose results an adjoint can read although no call saves them.
fn is_read(op: Op) -> bool {
    matches!(op, Op::Input { .. } | Op::Lookup { .. } | Op::Parameter(_) | Op::Constant(_))
}

/// Returns true for operations whose result is saved rather than computed again.
fn is_expensive(op: Op) -> bool {
    matches!(
        op,
        Op::MatMul
            | Op::Dot
            | Op::Reduce { .. }
            | Op::Attention { .. }
            | Op::SoftmaxSum { .. }
            | Op::Normalize(_)
    )
}

fn is_saved(op: Op) -> bool {
    matches!(op, Op::Apply(function) if function.is_saved())
}
