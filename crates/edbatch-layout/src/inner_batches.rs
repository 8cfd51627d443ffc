//! Batches of operations inside a cell, by a plain rule.
//!
//! Operations of one kind, that is with one name and equal shapes, form a batch when they can run
//! at once. Of the kinds that can run, the one runs of which the greatest share of what is left
//! can: a kind all of whose operations are ready loses nothing by running now. Ties go to the
//! operation that was declared first.
//!
//! *Source*: ours; a policy of the `edbatch-policy` crate does the same on [`Cell::dag`] and may
//! give a better schedule. *Cost*: O(operations²).

use edbatch_graph::{Cell, Dag, NodeId, Var};

/// The batches of a cell's operations in the order in which they run.
#[must_use]
pub fn inner_batches(cell: &Cell) -> Vec<Vec<Var>> {
    let (dag, vars) = cell.dag();
    let mut left: Vec<NodeId> = (0..dag.nodes()).map(NodeId::new).collect();
    let mut done = vec![false; dag.nodes()];
    let mut batches = Vec::new();
    while !left.is_empty() {
        let is_ready = |node: &NodeId| dag.arguments(*node).all(|argument| done[argument.index()]);
        let mut ready = vec![0; dag.kinds()];
        let mut remaining = vec![0; dag.kinds()];
        for node in &left {
            remaining[dag.kind(*node).index()] += 1;
            ready[dag.kind(*node).index()] += usize::from(is_ready(node));
        }
        let share = |node: &&NodeId| {
            let kind = dag.kind(**node).index();
            ready[kind] * 1000 / remaining[kind]
        };
        // `max_by_key` takes the last of equals.
        let chosen = left.iter().rev().max_by_key(share).expect("something is left");
        let kind = dag.kind(*chosen);
        let (run, rest): (Vec<NodeId>, Vec<NodeId>) =
            left.iter().partition(|node| dag.kind(**node) == kind && is_ready(node));
        batches.push(run.iter().map(|node| vars[node.index()]).collect());
        run.iter().for_each(|node| done[node.index()] = true);
        left = rest;
    }
    batches
}
