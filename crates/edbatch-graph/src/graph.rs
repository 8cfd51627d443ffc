//! A mini-batch: calls of a network's cells, built anew for every mini-batch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::call::{self, Signatures};
use crate::dag::copy;
use crate::{CallError, Dag, Kind, Network, NodeId, RecordId, Source, Value};

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
    /// Arguments of node `v`: from its first to that of node `v + 1`, rows of tables, then values.
    arguments: Vec<u32>,
}

/// A call, in one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    kind: Kind,
    /// What it makes; also known from the kind, but here without a second look-up.
    pub(crate) record: RecordId,
    /// Where its arguments begin.
    first: u32,
}

impl Graph {
    /// A graph without nodes.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let given = network.initial_values().iter().map(|initial| initial.record).collect();
        let signatures = Signatures::new(&network);
        Self { network, given, signatures, nodes: vec![], arguments: vec![] }
    }

    /// Forgets all nodes and all carried values, and keeps the memory.
    pub fn clear(&mut self) {
        self.given.truncate(self.network.initial_values().len());
        self.nodes.clear();
        self.arguments.clear();
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
    /// its table, or a value is of another record or of a later node. The graph is then as before.
    ///
    /// # Panics
    /// If the graph would have 2³¹ nodes or arguments.
    // A call site mostly knows how many rows and values it passes: inlined, the loops over them
    // vanish. `build_cost` shows it on the tree; the lattice, which does not know, gains little.
    #[inline(always)]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        let Some(record) = self.signatures.fit(cell, rows, values, &self.nodes, &self.given) else {
            return Err(self.explain(cell, rows, values));
        };
        let (node, first) = (self.nodes.len(), self.arguments.len());
        assert!(node.max(first) < Value::LIMIT, "fewer than 2^31 nodes and arguments in a graph");
        self.arguments.reserve(rows.len() + values.len());
        // One at a time: there are few, and a call of memcpy costs more than it copies.
        for &row in rows {
            self.arguments.push(row);
        }
        for value in values {
            self.arguments.push(value.0);
        }
        self.nodes.push(Node { kind: cell, record, first: first as u32 });
        Ok(Value(node as u32))
    }

    #[cold]
    fn explain(&self, cell: Kind, rows: &[u32], values: &[Value]) -> CallError {
        let record_of = |value| self.record_of(value);
        call::explain(&self.network, cell, rows, values, record_of)
    }

    /// Declares a value that exists before the graph runs, beside the network's initial ones.
    ///
    /// # Panics
    /// If the network has no such record.
    pub fn give(&mut self, record: RecordId) -> Value {
        assert!(
            usize::from(record.0) < self.network.records().len(),
            "a record of the graph's network"
        );
        self.given.push(record);
        Value::given(self.given.len() - 1)
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
        match value.source() {
            Source::Node(node) => self.nodes.get(node.index()).map(|node| node.record),
            Source::Given(index) => self.given.get(index).copied(),
        }
    }

    /// The rows of tables that a call names.
    #[must_use]
    pub fn rows(&self, node: NodeId) -> &[u32] {
        &self.arguments[self.places(node)][..self.signatures.tables(self.kind(node))]
    }

    /// The values that a call reads, port by port.
    pub fn values(&self, node: NodeId) -> impl ExactSizeIterator<Item = Value> + '_ {
        self.value_words(node).iter().map(|&word| Value(word))
    }

    /// The value at a position among those that a call reads.
    ///
    /// # Panics
    /// If the call reads fewer.
    #[must_use]
    #[inline]
    pub fn value(&self, node: NodeId, position: usize) -> Value {
        Value(self.value_words(node)[position])
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
            && nodes().all(|node| self.value_words(node) == other.value_words(node))
    }

    /// Bytes of its calls.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.nodes.as_slice())
            + size_of_val(self.arguments.as_slice())
            + size_of_val(self.given.as_slice())
    }

    #[inline]
    fn value_words(&self, node: NodeId) -> &[u32] {
        &self.arguments[self.value_places(node)]
    }

    /// Where the values stand that a call reads.
    #[inline]
    fn value_places(&self, node: NodeId) -> Range<usize> {
        let Range { start, end } = self.places(node);
        start + self.signatures.tables(self.kind(node))..end
    }

    /// Where the rows and values stand that a call reads.
    #[inline]
    fn places(&self, node: NodeId) -> Range<usize> {
        let start = self.nodes[node.index()].first as usize;
        let end = match self.nodes.get(node.index() + 1) {
            Some(next) => next.first as usize,
            None => self.arguments.len(),
        };
        start..end
    }
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
    fn arguments(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.value_words(node).iter().filter_map(|&word| match Value(word).source() {
            Source::Node(node) => Some(node),
            Source::Given(_) => None,
        })
    }

    #[inline]
    fn copy_arguments<const N: usize>(&self, node: NodeId, first: &mut [NodeId; N]) -> usize {
        let places = self.value_places(node);
        let Some(words) = self.arguments.get(places.start..places.start + N) else {
            return copy_some(self.arguments(node), first);
        };
        // The bit that marks a given value is mostly in none of the words.
        let all = Value(words.iter().fold(0, |all, word| all | word));
        if places.len() > N || matches!(all.source(), Source::Given(_)) {
            return copy_some(self.arguments(node), first);
        }
        for (argument, &word) in first.iter_mut().zip(words) {
            *argument = NodeId(word);
        }
        places.len()
    }
}

/// Arguments among which there may be given values, or that are many, or the graph's last.
#[cold]
#[inline(never)]
fn copy_some(arguments: impl Iterator<Item = NodeId>, first: &mut [NodeId]) -> usize {
    copy(arguments, first)
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
