//! The order of calls, in which nodes become ready.

use std::ops::Range;

use super::edges::{ByNode, Edges, Ends, with_ends};
use super::{GraphEmit, GraphError, Graphs};

/// The order of calls, with the nodes that each call reads.
pub(super) struct Order<'g> {
    /// The nodes in the order of their calls, graph by graph, then a zero.
    pub(super) nodes: Vec<u32>,
    pub(super) sources: ByNode<'g>,
    /// The nodes that no node reads, if they are emitted.
    pub(super) sinks: Vec<u32>,
}

impl<'g> Order<'g> {
    pub(super) fn new(
        graphs: &Graphs<'_>,
        edges: &Edges<'g>,
        starts: &[usize],
        numbered: bool,
    ) -> Result<Self, GraphError> {
        let count = graphs.kinds.len();
        let degrees = edges.degrees(count);
        let (mut waiting, mut nodes) = (degrees.clone(), vec![0; count + 1]);
        let readers = edges.readers(count);
        let mut within = starts.windows(2).map(|ends| ends[0]..ends[1]).enumerate();
        let cyclic = within.find(|(_, within)| {
            let (waiting, nodes) = (waiting.as_mut_slice(), nodes.as_mut_slice());
            with_ends!(&readers.ends, ends => {
                order(waiting, nodes, within.clone(), &readers, |edge| ends[edge] as usize)
            }) < within.end
        });
        let is_sink = |&node: &u32| readers.range(node as usize).is_empty();
        let sinks = match graphs.emit {
            GraphEmit::Sinks => (0..count as u32).filter(is_sink).collect(),
            _ => Vec::new(),
        };
        // The memory is used again.
        drop(readers);
        let sources = edges.sources(degrees, numbered);
        if let Some((graph, within)) = cyclic {
            let mut nodes = cycle(&waiting, &sources, within);
            if graphs.reverse {
                nodes[1..].reverse();
            }
            return Err(GraphError::Cycle { graph, nodes });
        }
        Ok(Self { nodes, sources, sinks })
    }
}

/// Orders the nodes of a graph. `waiting` has the number of nodes that each node waits for. Returns
/// the end of the ready nodes. A graph with a cycle has more nodes.
#[inline(always)]
fn order(
    waiting: &mut [u32],
    ordered: &mut [u32],
    nodes: Range<usize>,
    readers: &ByNode<'_>,
    reader: impl Fn(usize) -> usize,
) -> usize {
    let (mut next, mut end) = (nodes.start, nodes.start);
    // Every node is written to the end, and kept if it is ready: branches would be random.
    for node in nodes {
        ordered[end] = node as u32;
        end += usize::from(waiting[node] == 0);
    }
    while next < end {
        for edge in readers.range(ordered[next] as usize) {
            let reader = reader(edge);
            let waiting = &mut waiting[reader];
            *waiting -= 1;
            ordered[end] = reader as u32;
            end += usize::from(*waiting == 0);
        }
        next += 1;
    }
    end
}

/// Finds a cycle among the nodes that wait: each of them reads another one. Returns its nodes along
/// the edges from read to reader, from the smallest one.
fn cycle(waiting: &[u32], sources: &ByNode<'_>, nodes: Range<usize>) -> Vec<usize> {
    let waits = |&node: &usize| waiting[node] > 0;
    let mut node = nodes.clone().find(waits).expect("a node that waits");
    let (mut seen, mut path) = (vec![None; nodes.len()], Vec::new());
    while seen[node - nodes.start].is_none() {
        seen[node - nodes.start] = Some(path.len());
        path.push(node);
        let range = sources.range(node);
        node = with_ends!(&sources.ends, ends => {
            ends[range].iter().map(|&source| source as usize).find(waits)
        })
        .expect("a predecessor that waits");
    }
    let mut cycle = path.split_off(seen[node - nodes.start].expect("a node of the path"));
    cycle.reverse();
    let smallest = (0..cycle.len()).min_by_key(|&index| cycle[index]).expect("a node");
    cycle.rotate_left(smallest);
    cycle
}
