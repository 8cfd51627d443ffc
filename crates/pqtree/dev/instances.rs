//! The instances for the crate's published speed, shared by `cargo xtask bench`, the example
//! `figures` and the criterion benches.

use super::families::{Family, Random, generate};
use pqtree::PqTree;

/// A tree, and sets to reduce it by.
pub(crate) struct Instance {
    pub(crate) name: &'static str,
    pub(crate) leaves: usize,
    /// Sets that are reduced before the measurement.
    before: Vec<Vec<u32>>,
    pub(crate) sets: Vec<Vec<u32>>,
}

/// An instance to be made: its name, its number of leaves, and the function that makes its sets.
pub(crate) type Plan = (&'static str, usize, fn(&'static str, usize) -> Instance);

/// For each family an instance of 100,000 leaves, or of other sizes that show more.
pub(crate) const SMALL: [Plan; 16] = [
    ("new", 100_000, created),
    ("fix2", 100_000, fix2),
    ("fix64", 100_000, fix64),
    ("log", 100_000, logarithmic),
    ("uni32", 100_000, uni32),
    ("mat", 10_000, matrix),
    ("neg", 100_000, corrupted),
    ("tree", 100_000, tree),
    ("path", 1000, path),
    ("path", 10_000, path),
    ("path", 100_000, path),
    ("negpath", 1000, refused_on_a_path),
    ("negpath", 10_000, refused_on_a_path),
    ("negpath", 80_000, refused_on_a_path),
    ("negpath", 100_000, refused_on_a_path),
    ("negdeep", 2001, refused_in_nested_nodes),
];

/// Instances of a million leaves.
pub(crate) const LARGE: [Plan; 9] = [
    ("new", 1_000_000, created),
    ("fix2", 1_000_000, fix2),
    ("fix64", 1_000_000, fix64),
    ("log", 1_000_000, logarithmic),
    ("uni32", 1_000_000, uni32),
    ("neg", 1_000_000, corrupted),
    ("tree", 1_000_000, tree),
    ("path", 1_000_000, path),
    ("negpath", 1_000_000, refused_on_a_path),
];

impl Instance {
    /// Returns the tree to reduce, or `None` if making it is part of the measurement.
    pub(crate) fn start(&self) -> Option<PqTree> {
        if self.before.is_empty() {
            return None;
        }
        let mut tree = PqTree::new(self.leaves as u32);
        self.before.iter().for_each(|set| assert!(tree.reduce(set).is_ok()));
        Some(tree)
    }

    /// Returns the number of elements of all sets, or of leaves if there are no sets.
    pub(crate) fn elements(&self) -> usize {
        if self.sets.is_empty() { self.leaves } else { self.sets.iter().map(Vec::len).sum() }
    }

    /// Reduces the tree, which it makes if it is not given. Returns it and the number of accepted
    /// sets.
    pub(crate) fn run(&self, start: Option<PqTree>) -> (PqTree, usize) {
        let mut tree = start.unwrap_or_else(|| PqTree::new(self.leaves as u32));
        let accepted = self.sets.iter().filter(|set| tree.reduce(set).is_ok()).count();
        (tree, accepted)
    }
}

fn instance(name: &'static str, leaves: usize, sets: Vec<Vec<u32>>) -> Instance {
    Instance { name, leaves, before: vec![], sets }
}

fn created(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, vec![])
}

fn fix2(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Fixed(2), leaves, 4 * leaves, 1))
}

fn fix64(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Fixed(64), leaves, 4 * leaves, 1))
}

fn logarithmic(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Logarithmic, leaves, 8 * leaves, 2))
}

fn uni32(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Uniform(32), leaves, 4 * leaves, 4))
}

fn matrix(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Matrix, leaves, 200 * leaves, 6))
}

fn corrupted(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Corrupted, leaves, 8 * leaves, 5))
}

fn tree(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, generate(Family::Tree, leaves, 0, 3))
}

fn shuffled(leaves: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..leaves as u32).collect();
    Random::new(7).shuffle(&mut order);
    order
}

/// The pairs of neighbours in a shuffled order, from one end to the other.
fn path(name: &'static str, leaves: usize) -> Instance {
    instance(name, leaves, shuffled(leaves).windows(2).map(<[u32]>::to_vec).collect())
}

/// A path, then pairs with one leaf between them, which are all refused.
fn refused_on_a_path(name: &'static str, leaves: usize) -> Instance {
    let before = path(name, leaves).sets;
    let sets = shuffled(leaves).windows(3).map(|three| vec![three[0], three[2]]).collect();
    Instance { name, leaves, before, sets }
}

/// Nested Q-nodes, each of a leaf, the inner Q-node and a leaf. Then pairs of leaves from different
/// levels, which are all refused.
fn refused_in_nested_nodes(name: &'static str, leaves: usize) -> Instance {
    let levels = leaves as u32 / 2;
    // Level i has the leaves 2 i and 2 i + 1. The innermost leaf is the last one.
    let mut inner = vec![2 * levels];
    let mut before = Vec::new();
    for level in (0..levels).rev() {
        let [first, last] = [2 * level, 2 * level + 1];
        before.push([&inner[..], &[first]].concat());
        before.push([&inner[..], &[last]].concat());
        inner.extend([first, last]);
    }
    let mut random = Random::new(8);
    let mut pair = || {
        let outer = random.below(levels as usize - 2) as u32;
        let deeper = outer + 2 + random.below((levels - outer - 2) as usize) as u32;
        vec![2 * outer + random.below(2) as u32, 2 * deeper + random.below(2) as u32]
    };
    let sets = (0..100_000).map(|_| pair()).collect();
    Instance { name, leaves, before, sets }
}
