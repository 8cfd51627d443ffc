//! Schedules: the order in which batches run, and a check that it is legal.

use std::fmt;

use crate::{Dag, Kind, NodeId};

/// A sequence of batches. A batch is a kind and the nodes of that kind that run together.
///
/// Stored in flat arrays, whose memory is reused for the next mini-batch. [`check`](Self::check)
/// proves that a schedule is legal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    kinds: Vec<Kind>,
    /// The nodes of batch `b`: `nodes[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
    nodes: Vec<NodeId>,
}

impl Schedule {
    /// Creates a schedule without batches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all batches and keeps the memory.
    pub fn clear(&mut self) {
        self.kinds.clear();
        self.ends.clear();
        self.nodes.clear();
    }

    /// Appends a batch of these nodes.
    pub fn push(&mut self, kind: Kind, nodes: &[NodeId]) {
        self.nodes.extend_from_slice(nodes);
        self.kinds.push(kind);
        self.ends.push(NodeId::new(self.nodes.len()).0);
    }

    /// Returns the number of batches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Returns true if there are no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns the batch with this index.
    ///
    /// # Panics
    /// If it does not exist.
    #[must_use]
    #[inline]
    pub fn batch(&self, index: usize) -> Batch<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Batch { kind: self.kinds[index], nodes: &self.nodes[start..self.ends[index] as usize] }
    }

    /// Returns all batches, in the order in which they run.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = Batch<'_>> + '_ {
        (0..self.len()).map(|index| self.batch(index))
    }

    /// Returns all nodes, in the order in which they run.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the nodes of a batch, to reorder them. Any order is legal.
    ///
    /// # Panics
    /// If the batch does not exist.
    pub fn nodes_mut(&mut self, batch: usize) -> &mut [NodeId] {
        let start = if batch == 0 { 0 } else { self.ends[batch - 1] as usize };
        &mut self.nodes[start..self.ends[batch] as usize]
    }

    /// Proves that the schedule is legal for `dag`: every node runs exactly once, in a batch of
    /// its kind, after all its arguments.
    ///
    /// # Errors
    /// The first violation, in the order of the batches.
    pub fn check(&self, dag: &impl Dag) -> Result<(), ScheduleError> {
        const WAITING: u32 = u32::MAX;
        let mut ran_in = vec![WAITING; dag.nodes()];
        for (index, batch) in self.batches().enumerate() {
            let index = NodeId::new(index).0;
            for &node in batch.nodes {
                let error = |what| Err(ScheduleError { batch: index, node, what });
                if node.index() >= dag.nodes() {
                    return error(Violation::NoSuchNode);
                }
                if ran_in[node.index()] != WAITING {
                    return error(Violation::Twice);
                }
                if dag.kind(node) != batch.kind {
                    return error(Violation::OtherKind { batch: batch.kind, node: dag.kind(node) });
                }
                if let Some(argument) = dag.arguments(node).find(|a| ran_in[a.index()] >= index) {
                    return error(Violation::TooEarly { argument });
                }
                ran_in[node.index()] = index;
            }
        }
        match ran_in.iter().position(|&batch| batch == WAITING) {
            None => Ok(()),
            Some(node) => Err(ScheduleError {
                batch: NodeId::new(self.len()).0,
                node: NodeId::new(node),
                what: Violation::Never,
            }),
        }
    }
}

/// One line per batch: `k1: n3 n4 n7`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for batch in self.batches() {
            write!(f, "{}:", batch.kind)?;
            for node in batch.nodes {
                write!(f, " {node}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A batch of a [`Schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The kind of all its nodes.
    pub kind: Kind,
    /// The nodes, in the order in which their results are stored.
    pub nodes: &'a [NodeId],
}

/// The error of an illegal schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("batch {batch}, node {node}: {what}")]
pub struct ScheduleError {
    /// The index of the batch, or the number of batches if the node never runs.
    pub batch: u32,
    /// The node.
    pub node: NodeId,
    /// The violation.
    pub what: Violation,
}

/// A violation of the rules of a [`Schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// The node is not in the graph.
    #[error("not in the graph")]
    NoSuchNode,
    /// The node runs a second time.
    #[error("runs a second time")]
    Twice,
    /// The node and the batch have different kinds.
    #[error("has kind {node} in a batch of kind {batch}")]
    OtherKind {
        /// The kind of the batch.
        batch: Kind,
        /// The kind of the node.
        node: Kind,
    },
    /// An argument of the node did not run in an earlier batch.
    #[error("runs before its argument {argument}")]
    TooEarly {
        /// The argument.
        argument: NodeId,
    },
    /// The node never runs.
    #[error("never runs")]
    Never,
}
