//! The terms of gradients: which calls the loss depends on, who reads their values, and the rows
//! from which the gradients of parameters and of given values are summed.

use edbatch_graph::{Dag, Graph, Kind, NodeId, Source, Value};

use super::places::{Place, Places};
use crate::plan::Want;
use crate::planner::MiniBatch;
use crate::training_plan::{CallSums, GivenSum, TrainingPlan};

/// Facts about the backward pass. Values are numbered: nodes first, then given values.
#[derive(Clone, Debug, Default)]
pub(in crate::planner) struct Back {
    places: Places,
    /// By node: true if the loss depends on it, and its cell has an adjoint.
    live: Vec<bool>,
    /// By batch: true if a call is live. Then the adjoints of all its calls run, live or not.
    pub(super) returns: Vec<bool>,
    /// By node: the row of its adjoint call.
    pub(super) row_of: Vec<u32>,
    /// By node: the row of the first of its calls of the pair cell, if its cell has one.
    pub(super) pairs_of: Vec<u32>,
    /// By value: the end of its entries in `readers`.
    ends: Vec<u32>,
    /// The live calls that read each value, last calls first, with the index of the argument.
    readers: Vec<(NodeId, u32)>,
    /// By value: the end of its entries in `outputs`.
    output_ends: Vec<u32>,
    /// The rows of output gradients of each value.
    outputs: Vec<u32>,
}

impl Back {
    /// Finds the nodes that the loss depends on, and their readers.
    pub(super) fn find_live(
        &mut self,
        &MiniBatch { program, graph, schedule, wanted }: &MiniBatch<'_>,
        has_gradient: &[bool],
    ) {
        let nodes = graph.nodes();
        self.places.find(program);
        self.live.clear();
        self.live.resize(nodes, false);
        self.row_of.resize(nodes, 0);
        self.pairs_of.resize(nodes, 0);
        self.returns.clear();
        for ((value, _), _) in wanted.iter().zip(has_gradient).filter(|(_, gradient)| **gradient) {
            if let Source::Node(node) = value.source() {
                self.live[node.index()] = true;
            }
        }
        self.ends.clear();
        self.ends.resize(nodes + graph.given().len() + 1, 0);
        for node in (0..nodes).rev() {
            let kind = graph.kind(NodeId::new(node));
            self.live[node] &= program.adjoint(kind).is_some();
            if self.live[node] {
                for (value, _) in self.places.contributions(graph, NodeId::new(node), kind) {
                    self.ends[index_of(graph, value) + 1] += 1;
                    if let Source::Node(argument) = value.source() {
                        self.live[argument.index()] = true;
                    }
                }
            }
        }
        running_sums(&mut self.ends);
        self.readers.clear();
        self.readers.resize(self.ends[self.ends.len() - 1] as usize, (NodeId::new(0), 0));
        for node in (0..nodes).rev().filter(|&node| self.live[node]).map(NodeId::new) {
            for (value, argument) in self.places.contributions(graph, node, graph.kind(node)) {
                let next = &mut self.ends[index_of(graph, value)];
                self.readers[*next as usize] = (node, argument);
                *next += 1;
            }
        }
        let is_live = |node: &NodeId| self.live[node.index()];
        self.returns.extend(schedule.batches().map(|batch| batch.nodes.iter().any(is_live)));
    }

    /// Lists the rows of output gradients by value.
    pub(super) fn list_outputs(
        &mut self,
        graph: &Graph,
        wanted: &[(Value, Want)],
        plan: &TrainingPlan,
    ) {
        self.output_ends.clear();
        self.output_ends.resize(graph.nodes() + graph.given().len() + 1, 0);
        let rows = wanted.iter().zip(&plan.gradient_of);
        let rows = rows.filter_map(|(&(value, _), row)| Some((index_of(graph, value), (*row)?)));
        rows.clone().for_each(|(value, _)| self.output_ends[value + 1] += 1);
        running_sums(&mut self.output_ends);
        self.outputs.clear();
        self.outputs.resize(self.output_ends[self.output_ends.len() - 1] as usize, 0);
        for (value, row) in rows {
            let next = &mut self.output_ends[value];
            self.outputs[*next as usize] = plan.back.given[row as usize].start;
            *next += 1;
        }
    }

    /// Returns the places of the terms of a value's gradient: output gradients, then the
    /// contributions of its readers, last calls first.
    pub(super) fn terms(
        &self,
        graph: &Graph,
        value: usize,
        field: u16,
        within: u32,
    ) -> impl Iterator<Item = u32> {
        let outputs = &self.outputs[before(&self.output_ends, value)];
        let readers = &self.readers[before(&self.ends, value)];
        let contributed = move |&(node, argument): &(NodeId, u32)| {
            let (place, index) = self.places.at(graph.kind(node), argument, field)?;
            Some(match place {
                Place::Own(offset) => self.row_of[node.index()] + offset,
                Place::Pair { offset, stride } => {
                    self.pairs_of[node.index()] + stride * index + offset
                }
            })
        };
        let outputs = outputs.iter().map(move |row| row + within);
        outputs.chain(readers.iter().filter_map(contributed))
    }

    /// Lists the rows from which gradients of parameters and of given values are summed.
    pub(super) fn list_sums(
        &self,
        &MiniBatch { program, graph, .. }: &MiniBatch<'_>,
        plan: &mut TrainingPlan,
    ) {
        let TrainingPlan { calls, given, lists, named, .. } = plan;
        let mut ends = vec![0; program.network().cells().len() + 1];
        let live = || (0..graph.nodes()).filter(|&node| self.live[node]).map(NodeId::new);
        live().for_each(|node| ends[graph.kind(node).index() + 1] += 1);
        running_sums(&mut ends);
        let counts = ends.clone();
        lists.resize(ends[ends.len() - 1] as usize, 0);
        let mut order = vec![NodeId::new(0); lists.len()];
        for node in live() {
            let next = &mut ends[graph.kind(node).index()];
            lists[*next as usize] = self.row_of[node.index()];
            order[*next as usize] = node;
            *next += 1;
        }
        for kind in 0..counts.len() - 1 {
            let rows = counts[kind]..counts[kind + 1];
            if rows.is_empty() {
                continue;
            }
            calls.push(CallSums {
                cell: Kind::new(kind),
                rows: rows.clone(),
                named: named.len() as u32,
            });
            for &node in &order[rows.start as usize..rows.end as usize] {
                named.extend(graph.rows(node));
            }
        }
        for (index, &record) in graph.given().iter().enumerate() {
            for (field, &within) in program.record(record).offsets.iter().enumerate() {
                let start = lists.len();
                let terms = self.terms(graph, graph.nodes() + index, field as u16, within);
                lists.extend(terms);
                let outputs = before(&self.output_ends, graph.nodes() + index).len();
                // The first calls come first, so that sums of successive parts are one chain.
                lists[start + outputs..].reverse();
                if lists.len() > start {
                    let rows = start as u32..lists.len() as u32;
                    let (index, field, outputs) = (index as u32, field as u16, outputs as u32);
                    given.push(GivenSum { given: index, field, rows, outputs });
                }
            }
        }
    }
}

/// Returns the number of a value. Nodes are numbered first, then given values.
fn index_of(graph: &Graph, value: Value) -> usize {
    match value.source() {
        Source::Node(node) => node.index(),
        Source::Given(index) => graph.nodes() + index,
    }
}

/// Replaces counts by running sums: if the count of range i is at i + 1, its start is then at i.
fn running_sums(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

/// Returns the range of entries at an index, where `ends` are the ends of all ranges.
fn before(ends: &[u32], index: usize) -> std::ops::Range<usize> {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    start as usize..ends[index] as usize
}
