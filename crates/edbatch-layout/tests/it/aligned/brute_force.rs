//! Brute force: the cost of every order of the variables, by definition.

use edbatch_layout::aligned::{AlignedBatch, Problem};

/// Returns the smallest number of bytes that an order copies, and true if some order copies no
/// operand.
pub(crate) fn brute_force(problem: &Problem) -> (u64, bool) {
    let mut order: Vec<u32> = (0..problem.variables).collect();
    let (mut least, mut feasible) = (u64::MAX, false);
    every_order(&mut order, 0, &mut |order| {
        let costs = problem.batches.iter().map(|batch| cost(batch, order));
        let (bytes, copies) = costs.fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        least = least.min(bytes);
        feasible |= copies == 0;
    });
    (least, feasible)
}

fn every_order(order: &mut Vec<u32>, fixed: usize, visit: &mut impl FnMut(&[u32])) {
    if fixed + 1 >= order.len() {
        return visit(order);
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        every_order(order, fixed + 1, visit);
        order.swap(fixed, next);
    }
}

/// The bytes and the number of operands that a batch copies: the minimum over all orders of its
/// positions.
fn cost(batch: &AlignedBatch, order: &[u32]) -> (u64, usize) {
    let Some(positions) = batch.operands.first().map(|operand| operand.positions.len()) else {
        return (0, 0);
    };
    let mut position_order: Vec<u32> = (0..positions as u32).collect();
    let mut least = (u64::MAX, usize::MAX);
    every_order(&mut position_order, 0, &mut |position_order| {
        let copied = batch.operands.iter().filter(|operand| {
            let constant =
                operand.positions.iter().all(|variable| *variable == operand.positions[0]);
            let wanted: Vec<u32> = position_order
                .iter()
                .map(|&position| operand.positions[position as usize])
                .collect();
            !constant && !order.windows(positions).any(|window| window == wanted)
        });
        let costs = copied.fold((0, 0), |sum, operand| (sum.0 + operand.weight, sum.1 + 1));
        least = least.min(costs);
    });
    least
}
