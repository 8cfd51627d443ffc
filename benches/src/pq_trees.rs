//! The part `pqtree`: reductions of PQ-trees, in nanoseconds per element of the sets.

use std::hint::black_box;
use std::time::Instant;

use pqtree::PqTree;

use crate::policies::Effort;
use crate::record::PqTrees;
use crate::spread::Spread;
use families::{Family, generate};

// The generator that the crate's own tests and benches share.
#[path = "../../crates/pqtree/dev/families.rs"]
#[allow(dead_code)]
mod families;

/// Name, family, leaves, and how many elements the sets have together; a tree has its own.
type Instance = (&'static str, Family, usize, usize);

const SMALL: [Instance; 4] = [
    ("fix64", Family::Fixed(64), 100_000, 400_000),
    ("log", Family::Logarithmic, 100_000, 800_000),
    ("uni32", Family::Uniform(32), 100_000, 400_000),
    ("tree", Family::Tree, 100_000, 0),
];
const LARGE: [Instance; 1] = [("tree", Family::Tree, 1_000_000, 0)];

/// Makes trees and reduces them by all sets of an instance, several times.
pub fn pq_trees(effort: Effort, seconds: f64, mut progress: impl FnMut(&str)) -> Vec<PqTrees> {
    let large: &[Instance] = if effort == Effort::Full { &LARGE } else { &[] };
    let records = SMALL.iter().chain(large).map(|&(name, family, leaves, budget)| {
        progress(&format!("{name} of {leaves} leaves"));
        let sets = generate(family, leaves, budget, 1);
        let elements: usize = sets.iter().map(Vec::len).sum();
        let started = Instant::now();
        let (mut times, mut bytes) = (Vec::new(), 0);
        while times.is_empty() || started.elapsed().as_secs_f64() < seconds {
            let began = Instant::now();
            let mut tree = PqTree::new(leaves as u32);
            for set in &sets {
                black_box(tree.reduce(set).is_ok());
            }
            times.push(began.elapsed().as_secs_f64() * 1e9 / elements as f64);
            bytes = tree.bytes();
        }
        let spread = Spread::of(&times);
        PqTrees {
            family: name.into(),
            leaves,
            sets: sets.len(),
            elements,
            ns_per_element: spread.median,
            ns_per_element_low: spread.low,
            ns_per_element_high: spread.high,
            repetitions: times.len(),
            bytes,
        }
    });
    records.collect()
}
