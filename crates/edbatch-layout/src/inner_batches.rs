//! A simple greedy rule for batches of operations inside a cell.
//!
//! Operations with the same name and equal shapes are of one kind; the ready ones form a batch. The
//! kind in which the largest fraction of the remaining operations is ready runs next: a kind whose
//! operations are all ready loses nothing by running now. Ties go to the operation declared first.
//!
//! *Source*: ours; a policy of `edbatch-policy` on [`Cell::dag`] may find a better schedule.
//! *Cost*: O(operations²).

use edbatch_graph::{Cell, Dag, NodeId, Var};

/// Returns the batches of a cell's operations, in the order in which they run.
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
