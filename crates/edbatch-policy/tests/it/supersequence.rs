//! Graphs that are hard to batch.
//!
//! *Source*: appendix A.1 of the paper, which proves batching NP-hard by reduction from the
//! shortest common supersequence: a string is a chain of nodes whose kinds are its letters. The
//! kinds of a shortest schedule of several chains are a shortest common supersequence. No
//! polynomial algorithm is known to come within a constant factor.

use edbatch_graph::{Kind, PlainDag};
use rand::{Rng, RngExt};

/// A chain for each string, over kinds `0..kinds`.
pub(crate) fn chains_of(strings: &[Vec<Kind>], kinds: u16) -> PlainDag {
    let mut dag = PlainDag::new((0..kinds).map(|kind| kind.to_string()));
    for string in strings {
        let mut last = None;
        for &letter in string {
            let node = dag.push(letter, last.as_slice());
            last = Some(node.expect("a letter is a kind"));
        }
    }
    dag
}

/// Random strings of the same length.
pub(crate) fn random_strings(
    count: usize,
    length: usize,
    kinds: u16,
    rng: &mut impl Rng,
) -> Vec<Vec<Kind>> {
    let mut string = |_| (0..length).map(|_| Kind(rng.random_range(0..kinds))).collect();
    (0..count).map(&mut string).collect()
}
