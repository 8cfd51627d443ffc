//! The blocks of a graph: its maximal parts that stay connected without any one of their vertices.
//!
//! *Source*: J. Hopcroft and R. Tarjan, "Efficient algorithms for graph manipulation" (1973).
//! Not recursive, because paths of a million vertices are common.

use super::graph::Graph;
use std::collections::HashMap;

const UNSEEN: usize = usize::MAX;

/// Returns the blocks of a graph, each with its own numbering of vertices.
pub(crate) fn blocks(graph: &Graph) -> Vec<Graph> {
    let adjacent = graph.adjacent();
    let mut order = vec![UNSEEN; graph.vertices];
    let mut low = order.clone();
    let (mut next, mut edges, mut blocks) = (0, Vec::new(), Vec::new());
    for root in 0..graph.vertices {
        if order[root] != UNSEEN {
            continue;
        }
        (order[root], low[root]) = (next, next);
        next += 1;
        // The vertices of the current path: the edge to each, and its next neighbour to visit.
        let mut path = vec![(root, UNSEEN, 0)];
        while let Some(&mut (vertex, edge_to, ref mut at)) = path.last_mut() {
            if let Some(&(other, edge)) = adjacent[vertex].get(*at) {
                *at += 1;
                if order[other] == UNSEEN {
                    (order[other], low[other]) = (next, next);
                    next += 1;
                    edges.push(edge);
                    path.push((other, edge, 0));
                } else if order[other] < order[vertex] && edge != edge_to {
                    edges.push(edge);
                    low[vertex] = low[vertex].min(order[other]);
                }
                continue;
            }
            path.pop();
            let Some(&(parent, ..)) = path.last() else { break };
            low[parent] = low[parent].min(low[vertex]);
            if low[vertex] >= order[parent] {
                let begin =
                    edges.iter().rposition(|&edge| edge == edge_to).expect("the edge was pushed");
                blocks.push(block(graph, &edges[begin..]));
                edges.truncate(begin);
            }
        }
    }
    blocks
}

fn block(graph: &Graph, edges: &[usize]) -> Graph {
    let mut names = HashMap::new();
    let mut name = |vertex| {
        let next = names.len();
        *names.entry(vertex).or_insert(next)
    };
    let edges = edges.iter().map(|&edge| graph.edges[edge]).map(|(a, b)| (name(a), name(b)));
    let edges: Vec<(usize, usize)> = edges.collect();
    Graph { vertices: names.len(), edges }
}
