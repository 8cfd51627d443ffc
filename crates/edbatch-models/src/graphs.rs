//! Graphs as arrays: the call lists of many graphs, from edges and features.

mod edges;
mod error;
mod features;
mod forms;
mod order;
mod wiring;

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Network};

use crate::CallList;
use edges::Edges;
use error::invalid;
use forms::Forms;
use order::Order;
use wiring::Wiring;

pub use error::GraphError;

/// Directed acyclic graphs as arrays, whose nodes are calls of cells.
///
/// Nodes are numbered over all graphs. A node reads the results of its predecessors, in the order
/// of `edges`: first at the ports that take one value, the rest at the port of any number.
///
/// ```
/// use std::sync::Arc;
/// use edbatch_graph::{Network, Shape};
/// use edbatch_models::{GraphCell, Graphs};
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(2))])?;
/// let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])])?;
/// let node = network.cell("node", state, |cell| {
///     let [sum] = cell.many("children", state).sum();
///     vec![sum.tanh()]
/// })?;
/// let network = Arc::new(network);
/// let graphs = Graphs {
///     cells: &[GraphCell::new(&network, leaf), GraphCell::new(&network, node)],
///     kinds: &[1, 0, 0],
///     edges: [&[1, 2], &[0, 0]],
///     rows: Some((1, &[0, 4, 7])),
///     ..Graphs::default()
/// };
/// let [list] = graphs.call_lists(&network)?.try_into().expect("one graph");
/// assert_eq!(list.graph().to_string(), "n0 = leaf(#4)\nn1 = leaf(#7)\nn2 = node(n0, n1)\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graphs<'a> {
    /// The cells of nodes.
    pub cells: &'a [GraphCell],
    /// For each node, the index of its cell.
    pub kinds: &'a [i64],
    /// The source and the target of each edge.
    pub edges: [&'a [i64]; 2],
    /// Graph `g` has the nodes from `ptr[g]` to `ptr[g + 1]`. Without it there is one graph.
    pub ptr: Option<&'a [i64]>,
    /// The number of rows of tables of each node, and the rows, node by node. Those that a node
    /// lacks are [`NO_ROW`](Self::NO_ROW).
    pub rows: Option<(usize, &'a [i64])>,
    /// A row for each node, which goes to a port of its cell.
    pub features: &'a [Feature<'a>],
    /// The initial value for a port of any number at a node without predecessors: -1 is the first
    /// of the network, -2 the second.
    pub absent: Option<i64>,
    /// True if nodes read the targets of their edges, so that values flow backwards.
    pub reverse: bool,
    /// The nodes whose values are emitted.
    pub emit: GraphEmit<'a>,
    /// A cell with one port. It is called for each emitted value or, if its port takes any number,
    /// once for all of them, and its result is emitted instead.
    pub readout: Option<&'a GraphCell>,
    /// The cells of edges, whose results take the place of the source's value. May be empty.
    pub edge_cells: &'a [GraphCell],
    /// For each edge, the index of its cell. Empty without cells of edges.
    pub edge_kinds: &'a [i64],
    /// The rows of tables of each edge, like `rows`.
    pub edge_rows: Option<(usize, &'a [i64])>,
    /// A row for each edge, which goes to a port of its cell.
    pub edge_features: &'a [Feature<'a>],
}

/// Rows that go to the ports with a name, in cells that have one.
#[derive(Clone, Copy, Debug)]
pub struct Feature<'a> {
    /// The name of the port.
    pub port: &'a str,
    /// The shape and the elements of an array `[rows, width]`, or `[rows, …]` with the shape of a
    /// record's only field. `None` for slots.
    pub rows: Option<(&'a [usize], &'a [f32])>,
}

/// The nodes whose values are emitted, in the order of nodes or of the given numbers.
#[derive(Clone, Copy, Debug, Default)]
pub enum GraphEmit<'a> {
    /// Nodes that no node reads.
    #[default]
    Sinks,
    /// All nodes.
    All,
    /// Nodes with `true`.
    Mask(&'a [bool]),
    /// The nodes with these numbers, graph by graph.
    Nodes(&'a [i64]),
}

/// A cell of nodes or edges. A traced module has several cells, whose operands have common names.
#[derive(Clone, Debug)]
pub struct GraphCell {
    /// The cell of a node.
    pub cell: Kind,
    /// The cell of each value at the port of any number. Its results replace the values.
    pub each: Option<Kind>,
    /// The cell of a node without values at the port of any number.
    pub leaf: Option<Kind>,
    /// The names of the rows of tables.
    pub rows: Vec<String>,
    /// The names of the ports that take one value, in the order of predecessors.
    pub ones: Vec<String>,
    /// The name of the port that takes any number of values.
    pub many: Option<String>,
}

impl Graphs<'_> {
    /// The entry of `rows` for a node with fewer rows than others.
    pub const NO_ROW: i64 = i64::MIN;

    /// Makes a call list for each graph: all values of features, then the nodes in the order in
    /// which they become ready, sources first, each after the calls of its edges, then readouts.
    ///
    /// Takes time and memory in proportion to the nodes, the edges and their features.
    ///
    /// # Errors
    /// If a graph has a cycle, if an array is invalid, or if cells, features and predecessors do
    /// not fit. The error names the node, the edge or the argument.
    ///
    /// # Panics
    /// If the network does not have a cell.
    pub fn call_lists(&self, network: &Arc<Network>) -> Result<Vec<CallList>, GraphError> {
        let starts = self.starts()?;
        self.check(network)?;
        let edges = Edges::new(self, &starts)?;
        let mut lists = vec![CallList::new(network.clone()); starts.len() - 1];
        let forms = Forms::new(self, network)?;
        let places = features::give(self, network, &edges, &starts, &mut lists)?;
        let has_each = self.cells.iter().any(|cell| cell.each.is_some());
        let order = Order::new(self, &edges, &starts, has_each || !self.edge_cells.is_empty())?;
        let mut wiring = Wiring::new(self, network, &forms, order, places)?;
        for (graph, (list, ends)) in lists.iter_mut().zip(starts.windows(2)).enumerate() {
            wiring.wire(graph, ends[0]..ends[1], list)?;
        }
        wiring.emit(&edges, &mut lists)?;
        Ok(lists)
    }

    /// The first node of each graph, and the number of nodes.
    fn starts(&self) -> Result<Vec<usize>, GraphError> {
        let nodes = self.kinds.len();
        if nodes > Graph::MAX_ENTRIES {
            return invalid(format!("kinds: expected at most {} nodes", Graph::MAX_ENTRIES));
        }
        let ptr = self.ptr.unwrap_or(&[0, nodes as i64][..]).to_vec();
        match ptr.first() == Some(&0) && ptr.last() == Some(&(nodes as i64)) && ptr.is_sorted() {
            true => Ok(ptr.iter().map(|&start| start as usize).collect()),
            false => invalid(format!(
                "ptr: expected ascending numbers from 0 to {nodes}, the number of nodes"
            )),
        }
    }

    /// Checks the sizes of arrays, and kinds.
    fn check(&self, network: &Network) -> Result<(), GraphError> {
        let (nodes, edges) = (self.kinds.len(), self.edges[0].len());
        let each = self.cells.iter().find(|cell| cell.each.is_some());
        if let (Some(cell), [_, ..]) = (each, self.edge_cells) {
            let name = network[cell.cell].name();
            return invalid(format!(
                "edge_cells: expected none: the traced cell {name} has a cell of its own for edges"
            ));
        }
        let edge_options = [
            ("edge_kinds", !self.edge_kinds.is_empty()),
            ("edge_rows", self.edge_rows.is_some()),
            ("edge_features", !self.edge_features.is_empty() && each.is_none()),
        ];
        let edge_option = edge_options.iter().find(|(_, given)| *given);
        if let (Some((option, _)), []) = (edge_option, self.edge_cells) {
            return invalid(format!("edge_cells: expected cells for {option}, got none"));
        }
        if !self.edge_cells.is_empty() && self.edge_kinds.len() != edges {
            let got = self.edge_kinds.len();
            return invalid(format!("edge_kinds: expected {edges} entries, got {got}"));
        }
        for (what, kinds, cells) in
            [("node", self.kinds, self.cells), ("edge", self.edge_kinds, self.edge_cells)]
        {
            let below = cells.len();
            if let Some(index) = kinds.iter().position(|&kind| kind as u64 >= below as u64) {
                let kind = kinds[index];
                return invalid(format!(
                    "{what} {index}: kind {kind} does not exist: expected a number below {below}"
                ));
            }
        }
        for (argument, rows, count) in
            [("rows", self.rows, nodes), ("edge_rows", self.edge_rows, edges)]
        {
            if let Some((width, rows)) =
                rows.filter(|&(width, rows)| width.checked_mul(count) != Some(rows.len()))
            {
                let got = rows.len() / width.max(1);
                return invalid(format!("{argument}: expected {count} rows, got {got}"));
            }
        }
        match self.emit {
            GraphEmit::Mask(mask) if mask.len() != nodes => {
                invalid(format!("emit: expected {nodes} entries, got {}", mask.len()))
            }
            _ => Ok(()),
        }
    }
}
