//! Exhaustive search for a shortest schedule of a small graph.
//!
//! Breadth-first search over the sets of completed nodes, without bound, lemma or heuristic. The
//! other policies are tested against it.
//!
//! *Cost*: exponential. A set of nodes is a mask of 128 bits.

use std::collections::HashMap;

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

/// Returns a shortest schedule of a graph of at most 128 nodes. If there are several, returns the
/// first in the order of kinds. Even much smaller graphs take too long if they have many kinds.
///
/// # Panics
/// If the graph has more than 128 nodes.
#[must_use]
pub fn exhaustive(dag: &impl Dag) -> Schedule {
    exhaustive_within(dag, usize::MAX).expect("the number of sets fits in memory")
}

/// Like [`exhaustive`], but returns `None` if it has to visit more than `max_sets` sets of nodes.
///
/// # Panics
/// If the graph has more than 128 nodes.
#[must_use]
pub fn exhaustive_within(dag: &impl Dag, max_sets: usize) -> Option<Schedule> {
    assert!(dag.nodes() <= 128, "exhaustive search takes at most 128 nodes, got {}", dag.nodes());
    let all = if dag.nodes() == 0 { 0 } else { u128::MAX >> (128 - dag.nodes()) };
    let needs: Vec<u128> = (0..dag.nodes())
        .map(|v| dag.arguments(NodeId::new(v)).fold(0, |set, a| set | 1 << a.index()))
        .collect();
    // For each set, the set and the kind of batch from which it was reached.
    let mut from = HashMap::from([(0, (0, Kind(0)))]);
    let mut level = vec![0];
    while !from.contains_key(&all) {
        let mut next = Vec::new();
        for &ran in &level {
            for (kind, batch) in batches(dag, &needs, ran) {
                from.entry(ran | batch).or_insert_with(|| {
                    next.push(ran | batch);
                    (ran, kind)
                });
            }
        }
        if from.len() > max_sets {
            return None;
        }
        level = next;
    }
    Some(backtrack(&from, all))
}

/// The batches that can follow the completed nodes `ran`, by kind.
fn batches(dag: &impl Dag, needs: &[u128], ran: u128) -> Vec<(Kind, u128)> {
    let mut batches = vec![0; dag.kinds()];
    for (node, needs) in needs.iter().enumerate() {
        if ran & 1 << node == 0 && needs & !ran == 0 {
            batches[dag.kind(NodeId::new(node)).index()] |= 1 << node;
        }
    }
    let named = batches.into_iter().enumerate().map(|(kind, batch)| (Kind::new(kind), batch));
    named.filter(|&(_, batch)| batch != 0).collect()
}

fn backtrack(from: &HashMap<u128, (u128, Kind)>, mut set: u128) -> Schedule {
    let mut batches = Vec::new();
    while set != 0 {
        let (before, kind) = from[&set];
        batches.push((kind, set & !before));
        set = before;
    }
    let mut schedule = Schedule::new();
    for (kind, batch) in batches.into_iter().rev() {
        let nodes: Vec<_> = (0..128).filter(|&v| batch & 1 << v != 0).map(NodeId::new).collect();
        schedule.push(kind, &nodes);
    }
    schedule
}
