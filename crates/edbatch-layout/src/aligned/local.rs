//! A snapshot of the part of a tree that a few operands are in, without a look at the rest.
//!
//! Nodes are found from the leaves upwards: one is *complete* if all its children are. A Q-node of
//! which some children are complete gives a run for each stretch of them, as if that were a node of
//! its own: what operands are compared by, the order of the children next to each other, is the
//! same.
//!
//! *Cost*: O(positions), climbing to parents included.

use pqtree::{Kind, NodeId, PqTree};

use super::snapshot::Snapshot;

/// Working memory for snapshots of one tree.
#[derive(Debug)]
pub(super) struct Local {
    snapshot: Snapshot,
    /// How many children of each node are complete.
    complete_children: Vec<u32>,
    /// Whether a node is complete, and not yet put into the snapshot with those above it.
    state: Vec<State>,
    /// The complete nodes, each with its parent.
    complete: Vec<(NodeId, Option<NodeId>)>,
    counted: Vec<NodeId>,
    run: Vec<NodeId>,
    /// Nodes to be put into the snapshot, from right to left and from the top down.
    reversed: Vec<NodeId>,
    to_come: Vec<NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Incomplete,
    Complete,
    Placed,
}

impl Local {
    pub(super) fn new(variables: u32) -> Self {
        Self {
            snapshot: Snapshot::empty(variables),
            complete_children: Vec::new(),
            state: Vec::new(),
            complete: Vec::new(),
            counted: Vec::new(),
            run: Vec::new(),
            reversed: Vec::new(),
            to_come: Vec::new(),
        }
    }

    /// The nodes of the given variables. Places of other variables mean nothing.
    pub(super) fn around<'v>(
        &mut self,
        tree: &PqTree,
        variables: impl Iterator<Item = &'v u32>,
    ) -> &Snapshot {
        self.snapshot.clear();
        self.state.resize(tree.node_bound().max(self.state.len()), State::Incomplete);
        self.complete_children.resize(self.state.len(), 0);
        for &variable in variables {
            self.find_complete(tree, NodeId::of_leaf(variable));
        }
        self.find_complete_parents(tree);
        for place in 0..self.complete.len() {
            let (node, parent) = self.complete[place];
            let is_top = parent.is_none_or(|parent| self.state(parent) == State::Incomplete);
            if is_top && self.state(node) == State::Complete {
                match parent {
                    Some(parent) if tree.kind(parent) == Kind::Q => self.place_run(tree, node),
                    _ => self.place(tree, node),
                }
            }
        }
        for (node, _) in self.complete.drain(..) {
            self.state[node.index()] = State::Incomplete;
        }
        for node in self.counted.drain(..) {
            self.complete_children[node.index()] = 0;
        }
        &self.snapshot
    }

    fn state(&self, node: NodeId) -> State {
        self.state[node.index()]
    }

    fn find_complete(&mut self, tree: &PqTree, node: NodeId) {
        if self.state(node) == State::Incomplete {
            self.state[node.index()] = State::Complete;
            self.complete.push((node, tree.parent(node)));
        }
    }

    fn find_complete_parents(&mut self, tree: &PqTree) {
        let mut next = 0;
        while let Some(&(_, parent)) = self.complete.get(next) {
            next += 1;
            let Some(parent) = parent else { continue };
            let count = &mut self.complete_children[parent.index()];
            if *count == 0 {
                self.counted.push(parent);
            }
            *count += 1;
            if *count == tree.degree(parent) {
                self.find_complete(tree, parent);
            }
        }
    }

    /// Puts the stretch of complete children in which `child` is into the snapshot.
    fn place_run(&mut self, tree: &PqTree, child: NodeId) {
        let mut run = std::mem::take(&mut self.run);
        run.clear();
        let is_complete = |node: &NodeId| self.state(*node) == State::Complete;
        let [mut beyond, _] = tree.siblings(child);
        let mut end = child;
        while let Some(next) = beyond.filter(is_complete) {
            beyond = beside(tree, next, Some(end));
            end = next;
        }
        let (mut at, mut before) = (Some(end), beyond);
        while let Some(node) = at.filter(is_complete) {
            run.push(node);
            (at, before) = (beside(tree, node, before), at);
        }
        run.iter().for_each(|&node| self.place(tree, node));
        if run.len() > 1 {
            self.snapshot.push_run(run.len() as u32);
        }
        self.run = run;
    }

    /// Puts a complete node and all below it into the snapshot.
    fn place(&mut self, tree: &PqTree, top: NodeId) {
        self.to_come.push(top);
        while let Some(node) = self.to_come.pop() {
            self.reversed.push(node);
            if tree.as_leaf(node).is_none() {
                self.to_come.extend(tree.children(node));
            }
        }
        for node in self.reversed.drain(..).rev() {
            self.state[node.index()] = State::Placed;
            self.snapshot.push(tree, node);
        }
    }
}

/// The sibling that is not `before`.
fn beside(tree: &PqTree, node: NodeId, before: Option<NodeId>) -> Option<NodeId> {
    let [a, b] = tree.siblings(node);
    if a == before { b } else { a }
}
