//! A smaller graph with the same schedules.
//!
//! Two nodes of one kind whose arguments are the same nodes become ready at the same time, whatever
//! the policy. So do two nodes whose arguments are such twins, and so on. The quotient merges twins
//! into one node whose weight is their number. Numbers of ready nodes, ratios, longest chains and
//! the bound are the same as in the graph, and so is the number of batches of every order of kinds.
//! Only the [`urgency`](crate::Chains::urgency) differs: a merged node has the largest urgency of
//! its nodes. Arguments are compared as a set, without order and multiplicity.
//!
//! The quotient of a mini-batch of chains is its longest chain, and the quotient of trees has one
//! node for each distinct sub-tree. Learning and search, which run the same graph many times, run
//! on the quotient.
//!
//! *Source*: hash-consing. *Cost*: O(nodes + edges), and a hash table of the distinct nodes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use edbatch_graph::{Kind, NodeId, PlainDag};

use crate::Frontier;

/// Returns the quotient of the graph of `frontier`, before its first batch.
#[must_use]
pub fn quotient(frontier: &Frontier) -> Frontier {
    let mut merged = PlainDag::new(vec![""; frontier.kinds()]);
    let mut known: HashMap<Box<[u32]>, NodeId, BuildHasherDefault<Mix>> = HashMap::default();
    let mut class_of: Vec<NodeId> = Vec::with_capacity(frontier.nodes());
    let mut weights = Vec::new();
    let (mut key, mut names) = (Vec::new(), Vec::new());
    for (node, arguments) in frontier.arguments() {
        key.clear();
        key.extend(arguments.map(|a| class_of[a.index()].0));
        key.sort_unstable();
        key.dedup();
        key.push(frontier.kind(node).0.into());
        let class = match known.get(key.as_slice()) {
            Some(&class) => class,
            None => {
                names.clear();
                names.extend(key[..key.len() - 1].iter().map(|&class| NodeId(class)));
                let class = merged.push(frontier.kind(node), &names).expect(EARLIER);
                known.insert(key.as_slice().into(), class);
                weights.push(0);
                class
            }
        };
        weights[class.index()] += frontier.weight(node);
        class_of.push(class);
    }
    Frontier::weighted(&merged, weights)
}

/// Returns the graph of `frontier` without the removed kinds. No node may read a removed kind.
pub(crate) fn without_kinds(frontier: &Frontier, is_removed: impl Fn(Kind) -> bool) -> Frontier {
    let mut rest = PlainDag::new(vec![""; frontier.kinds()]);
    let mut weights = Vec::new();
    let mut renamed = vec![NodeId(0); frontier.nodes()];
    let mut names = Vec::new();
    for (node, arguments) in frontier.arguments() {
        if !is_removed(frontier.kind(node)) {
            names.clear();
            names.extend(arguments.map(|a| renamed[a.index()]));
            renamed[node.index()] = rest.push(frontier.kind(node), &names).expect(EARLIER);
            weights.push(frontier.weight(node));
        }
    }
    Frontier::weighted(&rest, weights)
}

const EARLIER: &str = "arguments precede their readers, also after merging";

/// A hash for short slices of small numbers. Keys come from graphs, not from attackers.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
