//! Problems at random.

use edbatch_layout::aligned::{Batch, Operand, Problem};
use proptest::prelude::*;

/// Up to six variables, repeated ones and single lanes among them, of any small weights.
pub(crate) fn small_problem() -> impl Strategy<Value = Problem> {
    (2..=6u32).prop_flat_map(|variables| {
        let batches = proptest::collection::vec(batch(variables), 1..=4);
        batches.prop_map(move |batches| Problem { variables, batches })
    })
}

fn batch(variables: u32) -> impl Strategy<Value = Batch> {
    (1..=4usize, 1..=3usize).prop_flat_map(move |(lanes, operands)| {
        let distinct =
            Just((0..variables).collect::<Vec<_>>()).prop_shuffle().prop_map(move |mut order| {
                order.truncate(lanes);
                let length = order.len();
                // More lanes than variables: some come again.
                (0..lanes).map(|lane| order[lane % length]).collect()
            });
        let any = proptest::collection::vec(0..variables, lanes);
        let lanes = prop_oneof![4 => distinct.boxed(), 1 => any.boxed()];
        let operand = (lanes, 1..=5u64).prop_map(|(lanes, weight)| Operand { lanes, weight });
        proptest::collection::vec(operand, operands).prop_map(|operands| Batch { operands })
    })
}

/// A problem with an ideal layout: ranges of a hidden order, their lanes in one order a batch.
///
/// `random(k)` gives a number below `k`.
pub(crate) fn feasible_problem(variables: u32, mut random: impl FnMut(u32) -> u32) -> Problem {
    let mut hidden: Vec<u32> = (0..variables).collect();
    shuffle(&mut hidden, &mut random);
    let mut batches = Vec::new();
    for _ in 0..variables / 4 {
        let lanes = 2 + random(7.min(variables - 1));
        let mut lane_order: Vec<u32> = (0..lanes).collect();
        shuffle(&mut lane_order, &mut random);
        let operands = (0..3).map(|_| {
            let begin = random(variables - lanes + 1);
            lane_order.iter().map(|&lane| hidden[(begin + lane) as usize]).collect()
        });
        batches.push(Batch::uniform(operands.collect::<Vec<_>>(), 1));
    }
    Problem { variables, batches }
}

pub(crate) fn shuffle<T>(list: &mut [T], random: &mut impl FnMut(u32) -> u32) {
    for last in (1..list.len()).rev() {
        list.swap(last, random(last as u32 + 1) as usize);
    }
}

/// A stream of numbers below a bound, from a seed: a 64-bit linear congruential generator.
pub(crate) fn stream(mut seed: u64) -> impl FnMut(u32) -> u32 {
    move |bound| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % u64::from(bound)) as u32
    }
}
