//! Random problems.

use edbatch_layout::aligned::{AlignedBatch, AlignedOperand, Problem};
use proptest::prelude::*;

/// Up to six variables with small weights; operands may repeat a variable or have one position.
pub(crate) fn small_problem() -> impl Strategy<Value = Problem> {
    (2..=6u32).prop_flat_map(|variables| {
        let batches = proptest::collection::vec(batch(variables), 1..=4);
        batches.prop_map(move |batches| Problem { variables, batches })
    })
}

fn batch(variables: u32) -> impl Strategy<Value = AlignedBatch> {
    (1..=4usize, 1..=3usize).prop_flat_map(move |(positions, operands)| {
        let distinct =
            Just((0..variables).collect::<Vec<_>>()).prop_shuffle().prop_map(move |mut order| {
                order.truncate(positions);
                let length = order.len();
                // With more positions than variables, some variables repeat.
                (0..positions).map(|position| order[position % length]).collect()
            });
        let any = proptest::collection::vec(0..variables, positions);
        let positions = prop_oneof![4 => distinct.boxed(), 1 => any.boxed()];
        let operand = (positions, 1..=5u64)
            .prop_map(|(positions, weight)| AlignedOperand { positions, weight });
        proptest::collection::vec(operand, operands).prop_map(|operands| AlignedBatch { operands })
    })
}

/// A problem with an ideal layout: the operands are ranges of a hidden order, and each batch has
/// its positions in one order.
///
/// `random(k)` returns a number below `k`.
pub(crate) fn feasible_problem(variables: u32, mut random: impl FnMut(u32) -> u32) -> Problem {
    let mut hidden: Vec<u32> = (0..variables).collect();
    shuffle(&mut hidden, &mut random);
    let mut batches = Vec::new();
    for _ in 0..variables / 4 {
        let positions = 2 + random(7.min(variables - 1));
        let mut position_order: Vec<u32> = (0..positions).collect();
        shuffle(&mut position_order, &mut random);
        let operands = (0..3).map(|_| {
            let begin = random(variables - positions + 1);
            position_order.iter().map(|&position| hidden[(begin + position) as usize]).collect()
        });
        batches.push(AlignedBatch::uniform(operands.collect::<Vec<_>>(), 1));
    }
    Problem { variables, batches }
}

/// Reverses the positions of one operand in a tenth of the batches.
pub(crate) fn reverse_some(problem: &mut Problem) {
    let batches = problem.batches.iter_mut().step_by(10);
    batches.for_each(|batch| batch.operands[1].positions.reverse());
}

/// Replaces one variable of one operand in a tenth of the batches.
pub(crate) fn replace_some(problem: &mut Problem, mut random: impl FnMut(u32) -> u32) {
    for batch in problem.batches.iter_mut().step_by(10) {
        let other = random(problem.variables);
        let positions = &mut batch.operands[2].positions;
        if !positions.contains(&other) {
            positions[0] = other;
        }
    }
}

/// Adds to one batch, which has more than two positions, the reverse of an operand: a single
/// conflict.
pub(crate) fn add_reversed(problem: &mut Problem) {
    let mut batches = problem.batches.iter_mut();
    let batch = batches.find(|batch| batch.operands[0].positions.len() > 2);
    let batch = batch.expect("some batch has more than two positions");
    let mut reversed = batch.operands[0].clone();
    reversed.positions.reverse();
    batch.operands.push(reversed);
}

/// The same problem with its variables renumbered, and its batches, operands and positions
/// shuffled.
pub(crate) fn disguise(problem: &Problem, random: &mut impl FnMut(u32) -> u32) -> Problem {
    let mut other = problem.clone();
    let mut names: Vec<u32> = (0..problem.variables).collect();
    shuffle(&mut names, random);
    for batch in &mut other.batches {
        let mut positions: Vec<usize> = (0..batch.operands[0].positions.len()).collect();
        shuffle(&mut positions, random);
        for operand in &mut batch.operands {
            let renamed =
                positions.iter().map(|&position| names[operand.positions[position] as usize]);
            operand.positions = renamed.collect();
        }
        shuffle(&mut batch.operands, random);
    }
    shuffle(&mut other.batches, random);
    other
}

pub(crate) fn shuffle<T>(list: &mut [T], random: &mut impl FnMut(u32) -> u32) {
    for last in (1..list.len()).rev() {
        list.swap(last, random(last as u32 + 1) as usize);
    }
}

/// A 64-bit linear congruential generator of numbers below a bound.
pub(crate) fn stream(mut seed: u64) -> impl FnMut(u32) -> u32 {
    move |bound| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % u64::from(bound)) as u32
    }
}
