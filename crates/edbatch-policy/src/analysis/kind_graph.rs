//! The graph of kinds: its strongly connected components, by Tarjan's algorithm.
//!
//! Kind `t` reads kind `s` if a node of `t` has an argument of `s`. Kinds that read each other,
//! directly or through others, form a component. Components have an order in which each of them
//! reads only itself and earlier ones.

use edbatch_graph::Kind;
use petgraph::algo::TarjanScc;
use petgraph::graph::{DiGraph, NodeIndex};

/// Finds components. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct KindGraph {
    reads: DiGraph<(), (), u16>,
    tarjan: TarjanScc<NodeIndex<u16>>,
    component: Vec<Kind>,
}

impl KindGraph {
    /// Replaces the graph. `reads` has a set of kinds for each kind, at most 64: bit `s` is set if
    /// the kind reads kind `s`.
    pub(crate) fn reset(&mut self, reads: impl Iterator<Item = u64> + Clone) {
        let graph = &mut self.reads;
        graph.clear();
        reads.clone().for_each(|_| _ = graph.add_node(()));
        for (kind, reads) in reads.enumerate() {
            // petgraph visits the edge that was added last first: the edge to the smallest kind.
            for read in (0..graph.node_count()).rev().filter(|read| reads & 1 << read != 0) {
                graph.add_edge(NodeIndex::new(kind), NodeIndex::new(read), ());
            }
        }
    }

    /// Calls `each` with the kinds of each component, ascending. A component follows those that it
    /// reads.
    pub(crate) fn components(&mut self, mut each: impl FnMut(&[Kind])) {
        let Self { reads, tarjan, component } = self;
        tarjan.run(&*reads, |kinds| {
            component.clear();
            component.extend(kinds.iter().map(|kind| Kind::new(kind.index())));
            component.sort_unstable();
            each(component);
        });
    }
}
