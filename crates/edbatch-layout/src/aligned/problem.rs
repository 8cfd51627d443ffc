//! The problem: batches of operands that want to lie side by side, position by position in one
//! order.

use std::fmt;

/// Variables, and batches that read and write them.
///
/// Any order of the variables is a layout. A batch is served without copies if the variables of
/// each of its operands are neighbours and if all its operands have their positions in the same
/// order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Problem {
    /// How many variables there are.
    pub variables: u32,
    /// The batches, in any order.
    pub batches: Vec<AlignedBatch>,
}

/// Operations that run as one: each is a position.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AlignedBatch {
    /// The operands of the operations, and their results. All have as many positions.
    pub operands: Vec<AlignedOperand>,
}

/// What all positions of a batch have in one role: the left factors, say, or the results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlignedOperand {
    /// The variable of each position.
    pub positions: Vec<u32>,
    /// What a copy of it costs, in bytes.
    pub weight: u64,
}

/// Names an operand: the batch, and the place among its operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperandId {
    /// The batch, from 0.
    pub batch: u32,
    /// The operand of the batch, from 0.
    pub operand: u32,
}

impl AlignedBatch {
    /// Operands that all weigh the same.
    pub fn uniform(operands: impl IntoIterator<Item = Vec<u32>>, weight: u64) -> Self {
        let operands = operands.into_iter().map(|positions| AlignedOperand { positions, weight });
        Self { operands: operands.collect() }
    }
}

impl Problem {
    /// An operand by its name. Panics if there is none.
    #[must_use]
    pub fn operand(&self, id: OperandId) -> &AlignedOperand {
        &self.batches[id.batch as usize].operands[id.operand as usize]
    }

    /// All operands with their names.
    pub fn operands(&self) -> impl Iterator<Item = (OperandId, &AlignedOperand)> {
        (0..).zip(&self.batches).flat_map(|(batch, b)| {
            (0..).zip(&b.operands).map(move |(operand, o)| (OperandId { batch, operand }, o))
        })
    }

    /// Whether every variable that is named exists, and all operands of a batch have as many
    /// positions.
    ///
    /// # Errors
    /// The first operand of which this does not hold.
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
    /// What the operand asks of the order.
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
        match self.repeated() {
            Some(variable) => Form::Repeats(variable),
            None => Form::Distinct,
        }
    }
}

impl AlignedOperand {
    /// A variable that stands in several positions.
    fn repeated(&self) -> Option<u32> {
        if self.positions.len() <= FEW {
            // Faster than sorting, and without memory.
            let mut positions = self.positions.iter().enumerate();
            return positions
                .find(|(i, position)| self.positions[..*i].contains(position))
                .map(|(_, &position)| position);
        }
        let mut sorted = self.positions.clone();
        sorted.sort_unstable();
        sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

/// So many positions are compared each with each.
const FEW: usize = 16;

/// What an operand asks of the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Nothing: it has one position at most.
    Single,
    /// Nothing: all positions read one variable.
    Broadcast,
    /// What no order can give: a variable stands in several positions, but not in all.
    Repeats(u32),
    /// To be neighbours, in the order of the batch.
    Distinct,
}

/// An operand that fits neither its batch nor the variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Which.
    pub at: OperandId,
    /// The positions of the batch, and those of the operand.
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

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.positions, self.variable) {
            ([expected, got], _) if expected != got => {
                write!(f, "{}: expected {expected} positions, got {got}", self.at)
            }
            (_, variable) => write!(f, "{}: there is no variable {variable:?}", self.at),
        }
    }
}

impl std::error::Error for Malformed {}
