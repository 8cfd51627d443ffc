//! Errors of graphs as arrays.

use edbatch_graph::CallError;

use crate::GiveError;

/// The error of graphs that cannot become call lists.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Nodes read each other.
    #[error("graph {graph}: cycle: {}", path(nodes))]
    Cycle {
        /// The index of the graph.
        graph: usize,
        /// The nodes of the cycle along the edges as given, from the smallest one.
        nodes: Vec<usize>,
    },
    /// An argument, a node or an edge is invalid; the text names it, and what was expected.
    #[error("{0}")]
    Invalid(String),
    /// The operands of a call do not fit its cell.
    #[error("{place}: {error}")]
    Call {
        /// The node, the edge or the graph.
        place: String,
        /// The error of the call.
        error: Box<CallError>,
    },
    /// A row of a feature cannot be given.
    #[error(transparent)]
    Give(#[from] GiveError),
}

/// The maximum number of nodes of a cycle that a message names.
const SHOWN: usize = 10;

fn path(nodes: &[usize]) -> String {
    let mut names: Vec<String> = nodes.iter().take(SHOWN).map(usize::to_string).collect();
    names.push(if nodes.len() > SHOWN { "…".into() } else { nodes[0].to_string() });
    names.join(" → ")
}

/// Returns an error with a text.
pub(super) fn invalid<T>(text: String) -> Result<T, GraphError> {
    Err(GraphError::Invalid(text))
}
