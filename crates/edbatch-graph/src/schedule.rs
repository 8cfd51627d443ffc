//! The order in which batches run, and an independent proof that it is legal.

use std::fmt;

use crate::{Dag, Kind, NodeId};

/// A sequence of batches; each is a kind and the nodes of it that run together.
///
/// Plain data in flat arrays, so that one schedule's memory serves the next mini-batch. Any
/// schedule can be proved legal by [`check`](Self::check).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    kinds: Vec<Kind>,
    /// Nodes of batch `b`: `nodes[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
    nodes: Vec<NodeId>,
}

impl Schedule {
    /// A schedule without batches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all batches and keeps the memory.
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

    /// Number of batches.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there is no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The batch with this index.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[inline]
    pub fn batch(&self, index: usize) -> Batch<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Batch { kind: self.kinds[index], nodes: &self.nodes[start..self.ends[index] as usize] }
    }

    /// All batches in the order in which they run.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = Batch<'_>> + '_ {
        (0..self.len()).map(|index| self.batch(index))
    }

    /// All nodes in the order in which they run.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The nodes of a batch, to be put in another order: a batch may list its nodes in any.
    ///
    /// # Panics
    /// If there is no such batch.
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

/// One line a batch: `k1: n3 n4 n7`.
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

/// One batch of a [`Schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The kind of all its nodes.
    pub kind: Kind,
    /// The nodes, in the order of their rows.
    pub nodes: &'a [NodeId],
}

/// Where a schedule is illegal, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleError {
    /// Index of the batch.
    pub batch: u32,
    /// The node that is wrong there.
    pub node: NodeId,
    /// What is wrong.
    pub what: Violation,
}

/// What a schedule can do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// The graph has no such node.
    NoSuchNode,
    /// The node ran before.
    Twice,
    /// The node is not of the batch's kind.
    OtherKind {
        /// Kind of the batch.
        batch: Kind,
        /// Kind of the node.
        node: Kind,
    },
    /// An argument of the node has not run in an earlier batch.
    TooEarly {
        /// The argument.
        argument: NodeId,
    },
    /// The schedule ends without the node.
    Never,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, node, what } = self;
        write!(f, "batch {batch}, node {node}: ")?;
        match what {
            Violation::NoSuchNode => write!(f, "the graph has no such node"),
            Violation::Twice => write!(f, "runs a second time"),
            Violation::OtherKind { batch, node } => {
                write!(f, "is of kind {node} in a batch of kind {batch}")
            }
            Violation::TooEarly { argument } => {
                write!(f, "runs before its argument {argument}")
            }
            Violation::Never => write!(f, "never runs"),
        }
    }
}

impl std::error::Error for ScheduleError {}
