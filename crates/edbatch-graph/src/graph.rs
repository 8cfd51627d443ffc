//! A mini-batch: calls of a network's cells, built for every mini-batch.

use std::fmt;
use std::sync::Arc;

use crate::call::{self, Signatures};
use crate::id::Contents;
use crate::{Arguments, CallError, Dag, Kind, Network, NodeId, RecordId, Source, Value};

/// A DAG of cell calls in flat, append-only arrays.
///
/// Arguments precede users. A call holds numbers alone (rows of tables, values), never tensor
/// data; nothing is allocated per node.
///
/// ```
/// use std::sync::Arc;
/// use edbatch_graph::{Graph, Network, Shape};
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(2))])?;
/// let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])])?;
/// let node = network.cell("node", state, |cell| {
///     let [left] = cell.one("left", state);
///     let [right] = cell.one("right", state);
///     vec![(left + right).tanh()]
/// })?;
/// let mut graph = Graph::new(Arc::new(network));
/// let l = graph.call(leaf, &[4], &[])?;
/// let r = graph.call(leaf, &[7], &[])?;
/// graph.call(node, &[], &[l, r])?;
/// assert_eq!(graph.to_string(), "n0 = leaf(#4)\nn1 = leaf(#7)\nn2 = node(n0, n1)\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    network: Arc<Network>,
    /// Records of the values that exist beforehand; the network's initial values come first.
    given: Vec<RecordId>,
    signatures: Signatures,
    nodes: Vec<Node>,
    /// Rows of tables, node after node.
    rows: Vec<u32>,
    /// Values that are read, node after node.
    values: Vec<Value>,
    contents: Contents,
}

/// A call, with all that must be known to find its arguments: they are asked for at random.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    kind: Kind,
    /// What it makes; also known from the kind, but here without a second look-up.
    pub(crate) record: RecordId,
    /// Where its rows of tables begin.
    rows: u32,
    /// Its values: from here to there.
    values: (u32, u32),
}

impl Graph {
    /// So many nodes, arguments, rows of tables and given values can be numbered, by 31 bits. What
    /// bounds nodes before that is memory: 16 bytes for a node and 4 for each value and each row
    /// that it names, and about as much again for scheduling and planning.
    pub const MOST: usize = Value::LIMIT - 1;

    /// A graph without nodes.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let given = network.initial_values().iter().map(|initial| initial.record).collect();
        let signatures = Signatures::new(&network);
        let (nodes, rows, values) = (vec![], vec![], vec![]);
        Self { network, given, signatures, nodes, rows, values, contents: Contents::new() }
    }

    /// Forgets all nodes and all carried values, and keeps the memory.
    pub fn clear(&mut self) {
        self.given.truncate(self.network.initial_values().len());
        self.nodes.clear();
        self.rows.clear();
        self.values.clear();
        self.contents = Contents::new();
    }

    /// The network whose cells are called.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Appends a call of a cell: a row per table, then a value per port.
    ///
    /// # Errors
    /// If the cell does not exist, there are too few or too many rows or values, a row is not in
    /// its table, or a value is of another record or of a later node; or if the graph would have
    /// more than [`MOST`](Self::MOST) nodes or arguments. The graph is then as before.
    // A call site mostly knows how many rows and values it passes: inlined, the loops over them
    // vanish. `build_cost` shows it on the tree; the lattice, which does not know, gains little.
    #[inline(always)]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        let known = (&*self.nodes, &*self.given, self.contents);
        let Some(record) = self.signatures.fit(cell, rows, values, known) else {
            return Err(self.explain(cell, rows, values));
        };
        let (node, first_row, first) = (self.nodes.len(), self.rows.len(), self.values.len());
        let end = first + values.len();
        if !has_numbers(node, first_row, end) {
            return Err(self.full(cell));
        }
        // One at a time: there are few, and a call of memcpy costs more than it copies.
        rows.iter().for_each(|&row| self.rows.push(row));
        values.iter().for_each(|&value| self.values.push(value));
        let values = (first as u32, end as u32);
        self.nodes.push(Node { kind: cell, record, rows: first_row as u32, values });
        Ok(Value::of_node(node, self.contents))
    }

    #[cold]
    fn explain(&self, cell: Kind, rows: &[u32], values: &[Value]) -> CallError {
        let record_of = |value| self.record_of(value);
        call::explain(&self.network, cell, rows, values, record_of)
    }

    #[cold]
    fn full(&self, cell: Kind) -> CallError {
        let message = "the graph has as many nodes or arguments as can be numbered, 2^31: make \
                       mini-batches smaller";
        CallError { cell: self.network[cell].name().into(), message: message.into() }
    }

    /// Declares a value that exists before the graph runs, beside the network's initial ones.
    ///
    /// # Panics
    /// If the network has no such record, or there are [`MOST`](Self::MOST) such values.
    pub fn give(&mut self, record: RecordId) -> Value {
        assert!(
            usize::from(record.0) < self.network.records().len(),
            "a record of the graph's network"
        );
        self.given.push(record);
        Value::given(self.given.len() - 1, self.contents)
    }

    /// The records of the values that exist beforehand; the network's initial values come first.
    #[must_use]
    pub fn given(&self) -> &[RecordId] {
        &self.given
    }

    /// What a value is; `None` if the graph has no such value.
    #[inline]
    #[must_use]
    pub fn record_of(&self, value: Value) -> Option<RecordId> {
        if !value.may_be_of(self.contents) {
            return None;
        }
        match value.source() {
            Source::Node(node) => self.nodes.get(node.index()).map(|node| node.record),
            Source::Given(index) => self.given.get(index).copied(),
        }
    }

    /// The rows of tables that a call names.
    #[must_use]
    #[inline]
    pub fn rows(&self, node: NodeId) -> &[u32] {
        let Node { kind, rows, .. } = self.nodes[node.index()];
        &self.rows[rows as usize..][..self.signatures.tables(kind)]
    }

    /// The values that a call reads, port by port.
    #[inline]
    pub fn values(&self, node: NodeId) -> impl ExactSizeIterator<Item = Value> + '_ {
        self.values_of(node).iter().copied()
    }

    /// The value at a position among those that a call reads.
    ///
    /// # Panics
    /// If the call reads fewer.
    #[must_use]
    #[inline]
    pub fn value(&self, node: NodeId, position: usize) -> Value {
        self.values_of(node)[position]
    }

    /// Whether the calls and values of two graphs of one network are the same, but for the rows of
    /// tables that the calls name.
    #[must_use]
    pub fn same_topology(&self, other: &Self) -> bool {
        let nodes = || (0..self.nodes()).map(NodeId::new);
        Arc::ptr_eq(&self.network, &other.network)
            && self.given == other.given
            && self.nodes.len() == other.nodes.len()
            && nodes().all(|node| self.kind(node) == other.kind(node))
            && nodes().all(|node| self.values_of(node) == other.values_of(node))
    }

    /// Bytes of its calls.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.nodes.as_slice())
            + size_of_val(self.rows.as_slice())
            + size_of_val(self.values.as_slice())
            + size_of_val(self.given.as_slice())
    }

    #[inline]
    fn values_of(&self, node: NodeId) -> &[Value] {
        let (first, end) = self.nodes[node.index()].values;
        &self.values[first as usize..end as usize]
    }
}

/// Whether a call can be numbered that has so many nodes and rows before it, and whose values end
/// here.
#[inline(always)]
fn has_numbers(nodes: usize, rows: usize, values: usize) -> bool {
    nodes | rows | values < Value::LIMIT
}

impl Dag for Graph {
    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn kinds(&self) -> usize {
        self.signatures.len()
    }

    #[inline]
    fn kind(&self, node: NodeId) -> Kind {
        self.nodes[node.index()].kind
    }

    #[inline]
    fn arguments(&self, node: NodeId) -> Arguments<'_> {
        let (first, end) = self.nodes[node.index()].values;
        Arguments::of_values(&self.values, first as usize, end as usize)
    }
}

/// One line a call: `n2 = node(n0, n1)`; rows of tables as `#7`, given values as `g0`.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in (0..self.nodes()).map(NodeId::new) {
            write!(f, "{node} = {}(", self.network[self.kind(node)].name())?;
            let rows = self.rows(node).iter().map(|row| format!("#{row}"));
            let values = self.values(node).map(|value| match value.source() {
                Source::Node(node) => node.to_string(),
                Source::Given(index) => format!("g{index}"),
            });
            let arguments: Vec<String> = rows.chain(values).collect();
            writeln!(f, "{})", arguments.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test has the memory for so many nodes.
    #[test]
    fn nodes_and_arguments_are_numbered_by_31_bits() {
        let most = Graph::MOST;
        assert_eq!(most, (1 << 31) - 1);
        assert!(has_numbers(most, most, most));
        let above = most + 1;
        for (nodes, rows, values) in [(above, 0, 0), (0, above, 0), (0, 0, above)] {
            assert!(!has_numbers(nodes, rows, values));
        }
    }
}
