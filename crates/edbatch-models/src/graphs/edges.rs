//! Edges sorted by the node that reads them and by the node that is read, by counting.

use super::error::invalid;
use super::{GraphError, Graphs};

/// The edges of all graphs. The edges of a node keep the order of the arrays.
pub(super) struct Edges {
    first_in: Vec<u32>,
    /// The nodes that are read, by reader.
    sources: Vec<u32>,
    /// The numbers of these edges, if they are needed.
    numbers: Vec<u32>,
    first_out: Vec<u32>,
    /// The readers, by the node that they read.
    readers: Vec<u32>,
    /// The graph of each node, or nothing for one graph.
    graphs: Vec<u32>,
}

impl Edges {
    pub(super) fn new(
        graphs: &Graphs<'_>,
        starts: &[usize],
        numbered: bool,
    ) -> Result<Self, GraphError> {
        let (nodes, [from, to]) = (graphs.kinds.len(), graphs.edges);
        if from.len() != to.len() || from.len() >= u32::MAX as usize {
            let (sources, targets) = (from.len(), to.len());
            return invalid(format!(
                "edges: expected an array of shape [2, edges], got {sources} sources and {targets} \
                 targets"
            ));
        }
        let [read, reader] = if graphs.reverse { [to, from] } else { [from, to] };
        // Counts are two places late. The sums then are one place late, and filling moves each of
        // them to its end, which is the start of the next node.
        let (mut first_in, mut first_out) = (vec![0u32; nodes + 2], vec![0u32; nodes + 2]);
        for (edge, (&read, &reader)) in read.iter().zip(reader).enumerate() {
            if read as u64 >= nodes as u64 || reader as u64 >= nodes as u64 {
                let missing =
                    [from[edge], to[edge]].into_iter().find(|&n| n as u64 >= nodes as u64);
                return invalid(format!(
                    "edge {edge}: {}",
                    no_node(missing.unwrap_or(read), nodes)
                ));
            }
            first_in[reader as usize + 2] += 1;
            first_out[read as usize + 2] += 1;
        }
        for first in [&mut first_in, &mut first_out] {
            let mut sum = 0;
            first.iter_mut().for_each(|count| {
                sum += *count;
                *count = sum;
            });
        }
        let (mut sources, mut readers) = (vec![0; read.len()], vec![0; read.len()]);
        let mut numbers = vec![0; if numbered { read.len() } else { 0 }];
        for (edge, (&read, &reader)) in read.iter().zip(reader).enumerate() {
            let place = &mut first_in[reader as usize + 1];
            sources[*place as usize] = read as u32;
            if numbered {
                numbers[*place as usize] = edge as u32;
            }
            *place += 1;
            let place = &mut first_out[read as usize + 1];
            readers[*place as usize] = reader as u32;
            *place += 1;
        }
        let graphs = graphs_of(starts, nodes);
        let edges = Self { first_in, sources, numbers, first_out, readers, graphs };
        let mut all = 0..if edges.graphs.is_empty() { 0 } else { from.len() };
        match all.find(|&edge| edges.graph(from[edge]) != edges.graph(to[edge])) {
            Some(edge) => {
                let ([a, b], [g, h]) =
                    ([from[edge], to[edge]], [from, to].map(|n| edges.graph(n[edge])));
                invalid(format!("edge {edge}: nodes {a} and {b} are in graphs {g} and {h}"))
            }
            None => Ok(edges),
        }
    }

    /// The number of nodes that each node reads.
    pub(super) fn degrees(&self) -> Vec<u32> {
        // The last entry is only used while edges are sorted.
        let first = &self.first_in[..self.first_in.len() - 1];
        first.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The nodes that a node reads.
    #[inline]
    pub(super) fn sources(&self, node: usize) -> &[u32] {
        &self.sources[self.first_in[node] as usize..self.first_in[node + 1] as usize]
    }

    /// The number of the edge by which a node reads its predecessor at this position.
    pub(super) fn number(&self, node: usize, position: usize) -> usize {
        self.numbers[self.first_in[node] as usize + position] as usize
    }

    /// The nodes that read a node.
    #[inline]
    pub(super) fn readers(&self, node: usize) -> &[u32] {
        &self.readers[self.first_out[node] as usize..self.first_out[node + 1] as usize]
    }

    /// The number of edges between the nodes of a graph.
    pub(super) fn within(&self, nodes: &std::ops::Range<usize>) -> usize {
        (self.first_in[nodes.end] - self.first_in[nodes.start]) as usize
    }

    /// The graph of a node.
    pub(super) fn graph(&self, node: i64) -> usize {
        self.graphs.get(node as usize).map_or(0, |&graph| graph as usize)
    }
}

/// The graph of each node, or nothing for one graph.
fn graphs_of(starts: &[usize], nodes: usize) -> Vec<u32> {
    let mut graphs = vec![0; if starts.len() == 2 { 0 } else { nodes }];
    for (graph, ends) in starts.windows(2).enumerate().filter(|_| starts.len() > 2) {
        graphs[ends[0]..ends[1]].fill(graph as u32);
    }
    graphs
}

/// The text of a number that is no node.
pub(super) fn no_node(node: i64, nodes: usize) -> String {
    format!("node {node} does not exist: expected a number below {nodes}")
}
