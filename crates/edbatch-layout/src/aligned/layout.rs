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
    /// Copied to contiguous memory before the batch, or, for its result, to other memory after it.
    Copied,
}

impl Layout {
    /// Creates the layout with this order of the variables. In each batch, only operands that are
    /// contiguous and have their positions in the same order as each other can be used in place
    /// together. The group of such operands with the largest total weight is used in place.
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
        let mut layout = Self {
            order,
            fates: Vec::with_capacity(problem.batches.len()),
            copies: 0,
            bytes: 0,
            feasible: false,
            proved: false,
        };
        for (index, batch) in (0..).zip(&problem.batches) {
            let mut fates = vec![Fate::Copied; batch.operands.len()];
            let mut distinct = Vec::new();
            for (place, operand) in (0..).zip(&batch.operands) {
                match operand.form() {
                    Form::Single => fates[place as usize] = Fate::InPlace,
                    Form::Broadcast => fates[place as usize] = Fate::Broadcast,
                    Form::Repeats => {}
                    Form::Distinct => {
                        distinct.push((place, &operand.positions[..], operand.weight))
                    }
                }
            }
            for place in heaviest_group(distinct, &place_of) {
                fates[place as usize] = Fate::InPlace;
            }
            for (operand, fate) in (0..).zip(&fates) {
                if *fate == Fate::Copied {
                    layout.copies += 1;
                    layout.bytes += problem.operand(OperandId { batch: index, operand }).weight;
                }
            }
            layout.fates.push(fates);
        }
        layout.feasible = layout.copies == 0;
        layout.proved = layout.bytes == 0;
        layout
    }

    /// Returns the way in which an operand is accessed.
    #[must_use]
    pub fn fate(&self, id: OperandId) -> Fate {
        self.fates[id.batch as usize][id.operand as usize]
    }
}

/// Returns the contiguous operands of a batch that are used in place: of the groups with equal
/// orders of positions, the heaviest. Operands are given as index, positions and weight.
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

/// For each position, the offset of its variable from the operand's first one in memory. `None` if
/// the operand is not contiguous.
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
