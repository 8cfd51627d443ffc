//! In which order a batch lists its nodes: the order in which their results lie in memory.
//!
//! A batch may list its nodes in any order, and writes their rows in that order. Consumers that name
//! them in the same order, and nothing between, read a span instead of a list of rows.
//!
//! *Source*: the paper (§3) lays out what is inside a cell, and leaves the order across batches out
//! as too slow to find for every mini-batch. [`ByConsumers::order`] takes linear time;
//! [`by_pq_tree`] solves the paper's problem on the whole graph, for plans that are reused.

use edbatch_graph::{Dag, Graph, NodeId, Schedule, Source, Value};

use crate::aligned::{Batch, Operand, Problem, Search, plan};
use crate::program::Program;

/// In which order batches list their nodes, and so how results lie in memory.
///
/// It changes no result, bit by bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// As the policy's schedule has them: as they became ready.
    #[default]
    Scheduled,
    /// As their earliest readers name them, in linear time.
    Consumers,
    /// So that as few bytes as possible are read through lists of rows. It takes long: for plans
    /// that are used again.
    PqTree,
}

impl Order {
    /// Puts the nodes of all batches into this order.
    ///
    /// # Panics
    /// If the schedule is not one of the graph, or the graph not one of the program's network.
    pub fn apply(
        self,
        program: &Program,
        graph: &Graph,
        schedule: &mut Schedule,
        by_consumers: &mut ByConsumers,
    ) {
        match self {
            Self::Scheduled => {}
            Self::Consumers => by_consumers.order(graph, schedule),
            Self::PqTree => by_pq_tree(program, graph, schedule, Search::default()),
        }
    }
}

/// Tables that ordering needs, kept from one mini-batch to the next.
#[derive(Clone, Debug, Default)]
pub struct ByConsumers {
    batch_of: Vec<u32>,
    /// Per batch, the last entry of its list; [`NONE`] if it is empty.
    first: Vec<u32>,
    /// A result that is read, and the entry behind it.
    entries: Vec<(NodeId, u32)>,
    placed: Vec<bool>,
    ordered: Vec<NodeId>,
}

const NONE: u32 = u32::MAX;

impl ByConsumers {
    /// Lets every batch list its nodes as its earliest reader names them: by that reader's batch,
    /// then by its port, then by its lane. Nodes that nobody reads come last.
    ///
    /// Batches are ordered from the last to the first, so that when a batch's turn comes the lanes
    /// of all its readers are known. A reader puts what it reads in front of its producer's list,
    /// ports and lanes backwards; a list then begins with the earliest reader's first lane.
    ///
    /// *Cost*: O(nodes + edges), no allocation once the tables have grown.
    ///
    /// # Panics
    /// If the schedule is not one of the graph.
    pub fn order(&mut self, graph: &Graph, schedule: &mut Schedule) {
        self.batch_of.resize(graph.nodes().max(self.batch_of.len()), NONE);
        for (index, batch) in (0..).zip(schedule.batches()) {
            batch.nodes.iter().for_each(|node| self.batch_of[node.index()] = index);
        }
        self.first.clear();
        self.first.resize(schedule.len(), NONE);
        self.entries.clear();
        self.placed.clear();
        self.placed.resize(graph.nodes(), false);
        for index in (0..schedule.len()).rev() {
            self.arrange(index, schedule.nodes_mut(index));
            let batch = schedule.batch(index);
            let cell = &graph.network()[batch.kind];
            let single = cell.ports().len() - usize::from(cell.is_variadic());
            if cell.is_variadic() {
                for &node in batch.nodes.iter().rev() {
                    (single..graph.values(node).len())
                        .rev()
                        .for_each(|position| self.put(graph.value(node, position)));
                }
            }
            for port in (0..single).rev() {
                batch.nodes.iter().rev().for_each(|&node| self.put(graph.value(node, port)));
            }
        }
    }

    /// Puts a value that is read in front of the list of the batch that makes it.
    fn put(&mut self, value: Value) {
        if let Source::Node(node) = value.source() {
            let first = &mut self.first[self.batch_of[node.index()] as usize];
            self.entries.push((node, *first));
            *first = self.entries.len() as u32 - 1;
        }
    }

    /// Puts the nodes of a batch into the order of its list.
    fn arrange(&mut self, batch: usize, nodes: &mut [NodeId]) {
        self.ordered.clear();
        let mut next = self.first[batch];
        while next != NONE && self.ordered.len() < nodes.len() {
            let (node, behind) = self.entries[next as usize];
            if !std::mem::replace(&mut self.placed[node.index()], true) {
                self.ordered.push(node);
            }
            next = behind;
        }
        let unread = nodes.iter().filter(|node| !self.placed[node.index()]);
        self.ordered.extend(unread);
        nodes.copy_from_slice(&self.ordered);
    }
}

/// Orders the nodes of all batches by the paper's Alg. 2 on the whole graph, so that as few bytes as
/// possible are read through lists of rows.
///
/// Variables are the nodes; a batch has its results as one operand, and one operand for every port
/// whose values are results of a single batch. *Cost*: that of [`aligned::plan`](plan), milliseconds
/// for thousands of nodes: for plans that are used again.
///
/// # Panics
/// If the schedule is not one of the graph, or the graph not one of the program's network.
pub fn by_pq_tree(program: &Program, graph: &Graph, schedule: &mut Schedule, search: Search) {
    let mut batch_of = vec![NONE; graph.nodes()];
    for (index, batch) in (0..).zip(schedule.batches()) {
        batch.nodes.iter().for_each(|node| batch_of[node.index()] = index);
    }
    let batches = schedule.batches().map(|batch| {
        let cell = &graph.network()[batch.kind];
        let bytes = |stride: u32| u64::from(stride) * 4 * batch.nodes.len() as u64;
        let lanes = batch.nodes.iter().map(|node| node.0).collect();
        // More than all it could be given up for: a batch writes a span, whatever it reads.
        let weight = bytes(program.cell(batch.kind).output_stride) << 20;
        let mut operands = vec![Operand { lanes, weight }];
        let single = cell.ports().len() - usize::from(cell.is_variadic());
        for (port, declared) in cell.ports()[..single].iter().enumerate() {
            let made = batch.nodes.iter().map(|&node| match graph.value(node, port).source() {
                Source::Node(node) => Some(node.0),
                Source::Given(_) => None,
            });
            let Some(lanes) = made.collect::<Option<Vec<u32>>>() else { continue };
            let producer = |&node: &u32| batch_of[node as usize];
            if lanes.windows(2).all(|pair| producer(&pair[0]) == producer(&pair[1])) {
                let weight = bytes(program.record(declared.record).stride);
                operands.push(Operand { lanes, weight });
            }
        }
        Batch { operands }
    });
    let problem = Problem { variables: graph.nodes() as u32, batches: batches.collect() };
    let mut position = vec![0; graph.nodes()];
    for (place, &node) in (0_u32..).zip(&plan(&problem, search).order) {
        position[node as usize] = place;
    }
    for index in 0..schedule.len() {
        schedule.nodes_mut(index).sort_unstable_by_key(|node| position[node.index()]);
    }
}
