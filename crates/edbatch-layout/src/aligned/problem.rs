//! The problem: variables, and batches whose operands should be contiguous in memory, in
//! corresponding orders.

use std::fmt;

/// Variables, and batches that read and write them.
///
/// Any order of the variables is a layout. A batch needs no copies if each of its operands is
/// contiguous, and if the variables of all its operands are in the same order of positions: if, for
/// example, the variable of position 2 comes first in one of them, then it comes first in all.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Problem {
    /// The number of variables.
    pub variables: u32,
    /// The batches, in any order.
    pub batches: Vec<AlignedBatch>,
}

/// Operations that run as one kernel. Each operation is a *position* of the batch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AlignedBatch {
    /// The operands of the operations, and their results. All have the same number of positions.
    pub operands: Vec<AlignedOperand>,
}

/// The variables of a batch in one role: all left factors, for example, or all results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlignedOperand {
    /// The variable of each position.
    pub positions: Vec<u32>,
    /// The cost of copying it, in bytes.
    pub weight: u64,
}

/// The id of an operand: its batch, and its index in the batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperandId {
    /// The index of the batch.
    pub batch: u32,
    /// The index of the operand in the batch.
    pub operand: u32,
}

impl AlignedBatch {
    /// Creates a batch whose operands have equal weights.
    pub fn uniform(operands: impl IntoIterator<Item = Vec<u32>>, weight: u64) -> Self {
        let operands = operands.into_iter().map(|positions| AlignedOperand { positions, weight });
        Self { operands: operands.collect() }
    }
}

impl Problem {
    /// Returns an operand.
    ///
    /// # Panics
    /// If it does not exist.
    #[must_use]
    pub fn operand(&self, id: OperandId) -> &AlignedOperand {
        &self.batches[id.batch as usize].operands[id.operand as usize]
    }

    /// Iterates over all operands with their ids.
    pub fn operands(&self) -> impl Iterator<Item = (OperandId, &AlignedOperand)> {
        (0..).zip(&self.batches).flat_map(|(batch, b)| {
            (0..).zip(&b.operands).map(move |(operand, o)| (OperandId { batch, operand }, o))
        })
    }

    /// Checks that every variable exists, and that the operands of a batch have the same number of
    /// positions.
    ///
    /// # Errors
    /// The first malformed operand.
    pub fn check(&self) -> Result<(), Malformed> {
        for (id, operand) in self.operands() {
            let expected = self.batches[id.batch as usize].operands[0].positions.len();
            let variable = operand.positions.iter().find(|&&v| v >= self.variables).copied();
            if operand.positions.len() != expected || variable.is_some() {
                let positions = [expected, operand.positions.len()];
                return Err(Malformed { at: id, positions, variable });
            }
        }
        Ok(())
    }
}

impl AlignedOperand {
    /// Classifies the operand by the constraint that it puts on the order.
    pub(super) fn form(&self) -> Form {
        let Some((&first, rest)) = self.positions.split_first() else {
            return Form::Single;
        };
        if rest.is_empty() {
            return Form::Single;
        }
        if rest.iter().all(|&variable| variable == first) {
            return Form::Broadcast;
        }
        if self.repeats() { Form::Repeats } else { Form::Distinct }
    }

    /// Returns true if a variable occurs in several positions.
    fn repeats(&self) -> bool {
        if self.positions.len() <= MAX_PAIRWISE {
            // Faster than sorting, and without allocation.
            let mut positions = self.positions.iter().enumerate();
            return positions.any(|(i, position)| self.positions[..i].contains(position));
        }
        let mut sorted = self.positions.clone();
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// The maximum number of positions for which all pairs are compared.
const MAX_PAIRWISE: usize = 16;

/// The constraint that an operand puts on the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// No constraint: it has at most one position.
    Single,
    /// No constraint: all positions read one variable.
    Broadcast,
    /// A constraint that no order satisfies: a variable occurs in several positions, but not in
    /// all.
    Repeats,
    /// The operand must be contiguous, with the same order of positions as the batch's others. Only
    /// such operands are candidates of the search.
    Distinct,
}

/// An operand with a wrong number of positions, or with a variable that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {}", self.fault())]
pub struct Malformed {
    /// The operand.
    pub at: OperandId,
    /// The expected number of positions, and the actual one.
    pub positions: [usize; 2],
    /// A variable that does not exist.
    pub variable: Option<u32>,
}

/// `batch 2, operand 0`
impl fmt::Display for OperandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch {}, operand {}", self.batch, self.operand)
    }
}

impl Malformed {
    fn fault(&self) -> String {
        let [expected, found] = self.positions;
        match self.variable {
            Some(variable) if expected == found => format!("variable {variable} does not exist"),
            _ => format!("expected {expected} positions, found {found}"),
        }
    }
}
