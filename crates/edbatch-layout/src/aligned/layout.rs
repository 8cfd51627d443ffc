//! Layouts: an order of the variables, and the operands that must be copied with this order.

use super::problem::{Form, OperandId, Problem};

/// An order of the variables, and for each operand whether it is used in place or copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The variables, in memory order.
    pub order: Vec<u32>,
    /// For each operand of each batch: in place or copied.
    pub fates: Vec<Vec<Fate>>,
    /// The number of operands that are copied.
    pub copies: usize,
    /// The total weight of the copies.
    pub bytes: u64,
    /// True if nothing is copied. [`plan`](super::plan) finds such a layout if one exists.
    pub feasible: bool,
    /// True if it is proved that no order copies fewer bytes.
    pub proved: bool,
}

/// The way in which a batch accesses an operand: in place or by a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// Used in place.
    InPlace,
    /// All positions read one variable, in place.
    Broadcast,
    /// An argument is copied to contiguous memory before the batch, a result elsewhere after it.
    Copied,
}

impl Layout {
    /// Creates the layout with this order of the variables. In each batch, the contiguous operands
    /// are grouped by the order of their positions. Only operands of one group can be used in place
    /// together: the operands of the group with the largest total weight.
    ///
    /// *Cost*: O(positions · log positions).
    ///
    /// # Panics
    /// If `order` is not a permutation of the problem's variables.
    #[must_use]
    pub fn of_order(problem: &Problem, order: Vec<u32>) -> Self {
        let mut place_of = vec![u32::MAX; problem.variables as usize];
        for (place, &variable) in (0..).zip(&order) {
            place_of[variable as usize] = place;
        }
        assert!(
            order.len() == place_of.len() && !place_of.contains(&u32::MAX),
            "not a permutation"
        );
        let (mut fates, mut copies, mut bytes) = (Vec::new(), 0, 0);
        for batch in &problem.batches {
            let mut distinct = Vec::new();
            let operands = (0..).zip(&batch.operands);
            let without_order = operands.map(|(index, operand)| match operand.form() {
                Form::Single => Fate::InPlace,
                Form::Broadcast => Fate::Broadcast,
                Form::Repeats => Fate::Copied,
                Form::Distinct => {
                    distinct.push((index, &operand.positions[..], operand.weight));
                    Fate::Copied
                }
            });
            let mut batch_fates: Vec<Fate> = without_order.collect();
            for index in heaviest_group(distinct, &place_of) {
                batch_fates[index as usize] = Fate::InPlace;
            }
            for (operand, fate) in batch.operands.iter().zip(&batch_fates) {
                if *fate == Fate::Copied {
                    copies += 1;
                    bytes += operand.weight;
                }
            }
            fates.push(batch_fates);
        }
        Self { order, fates, copies, bytes, feasible: copies == 0, proved: bytes == 0 }
    }

    /// Returns the index of each variable in [`order`](Self::order).
    pub(crate) fn places(&self) -> Vec<u32> {
        let mut places = vec![0; self.order.len()];
        for (place, &variable) in (0..).zip(&self.order) {
            places[variable as usize] = place;
        }
        places
    }

    /// Returns the way in which an operand is accessed.
    #[must_use]
    pub fn fate(&self, id: OperandId) -> Fate {
        self.fates[id.batch as usize][id.operand as usize]
    }
}

/// Returns the operands of a batch that are used in place: among the contiguous ones, the heaviest
/// group with the same order of positions. Operands are given as index, positions and weight; all
/// have distinct variables.
pub(super) fn heaviest_group<'a>(
    operands: impl IntoIterator<Item = (u32, &'a [u32], u64)>,
    place_of: &[u32],
) -> Vec<u32> {
    let contiguous = operands.into_iter().filter_map(|(name, positions, weight)| {
        position_offsets(positions, place_of).map(|offsets| (offsets, name, weight))
    });
    let mut contiguous: Vec<_> = contiguous.collect();
    contiguous.sort_unstable();
    let groups = contiguous.chunk_by(|a, b| a.0 == b.0);
    let best = groups.max_by_key(|group| {
        let weight: u64 = group.iter().map(|&(.., weight)| weight).sum();
        (weight, group.len(), std::cmp::Reverse(group[0].1))
    });
    best.unwrap_or_default().iter().map(|&(_, name, _)| name).collect()
}

/// Returns the offset of each position's variable from the start of the operand in memory, or
/// `None` if the operand is not contiguous.
fn position_offsets(positions: &[u32], place_of: &[u32]) -> Option<Vec<u32>> {
    let mut offsets: Vec<u32> =
        positions.iter().map(|&variable| place_of[variable as usize]).collect();
    let first = *offsets.iter().min()?;
    for offset in &mut offsets {
        *offset -= first;
        if *offset as usize >= positions.len() {
            return None;
        }
    }
    Some(offsets)
}
