//! The part `pqtree`: reductions of PQ-trees, in nanoseconds per element of the sets.

use std::hint::black_box;
use std::time::Instant;

use crate::measure::policies::Effort;
use crate::record::PqTrees;
use crate::spread::Spread;
use instances::{Instance, LARGE, Plan, SMALL};

// Shared with the tests and benches of the crate `pqtree`.
#[path = "../../../crates/pqtree/dev/families.rs"]
#[allow(dead_code)]
mod families;
#[path = "../../../crates/pqtree/dev/instances.rs"]
mod instances;

/// Times making trees and reducing them by all sets of each instance.
pub fn pq_trees(effort: Effort, seconds: f64, mut progress: impl FnMut(&str)) -> Vec<PqTrees> {
    let large: &[Plan] = if effort == Effort::Full { &LARGE } else { &[] };
    let plans = SMALL.iter().chain(large);
    let records = plans.map(|&(name, leaves, make)| {
        progress(&format!("{name} of {leaves} leaves"));
        measure(&make(name, leaves), seconds)
    });
    records.collect()
}

fn measure(instance: &Instance, seconds: f64) -> PqTrees {
    let start = instance.start();
    let elements = instance.elements();
    let started = Instant::now();
    let (mut times, mut bytes, mut accepted) = (Vec::new(), 0, 0);
    while times.is_empty() || started.elapsed().as_secs_f64() < seconds {
        let tree = start.clone();
        let began = Instant::now();
        let (tree, count) = black_box(instance.run(black_box(tree)));
        times.push(began.elapsed().as_secs_f64() * 1e9 / elements as f64);
        (bytes, accepted) = (tree.bytes(), count);
    }
    let spread = Spread::of(&times);
    PqTrees {
        family: instance.name.into(),
        leaves: instance.leaves,
        sets: instance.sets.len(),
        accepted,
        elements,
        ns_per_element: spread.median,
        ns_per_element_low: spread.low,
        ns_per_element_high: spread.high,
        repetitions: times.len(),
        bytes,
    }
}
