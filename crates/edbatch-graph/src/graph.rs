//! A mini-batch: calls of a network's cells, built anew for every mini-batch.

use std::fmt;
use std::sync::Arc;

use crate::call::{Misfit, Signatures};
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
    kinds: Vec<Kind>,
    /// Arguments of node `v`: `arguments[first[v]..first[v + 1]]`, rows of tables, then values.
    first: Vec<u32>,
    arguments: Vec<u32>,
}

impl Graph {
    /// A graph without nodes.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let given = network
            .initial_values()
            .iter()
            .map(|initial| initial.record)
            .collect();
        let signatures = Signatures::new(&network);
        Self {
            network,
            given,
            signatures,
            kinds: vec![],
            first: vec![0],
            arguments: vec![],
        }
    }

    /// Forgets all nodes and all carried values, and keeps the memory.
    pub fn clear(&mut self) {
        self.given.truncate(self.network.initial_values().len());
        self.kinds.clear();
        self.first.truncate(1);
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
    #[inline]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        if let Err(misfit) = self
            .signatures
            .check(cell, rows, values, &self.kinds, &self.given)
        {
            return Err(self.explain(misfit, cell, rows, values));
        }
        let (nodes, end) = (
            self.kinds.len(),
            self.arguments.len() + rows.len() + values.len(),
        );
        assert!(
            nodes.max(end) < Value::LIMIT,
            "fewer than 2^31 nodes and arguments in a graph"
        );
        self.kinds.push(cell);
        self.arguments.extend(
            rows.iter()
                .copied()
                .chain(values.iter().map(|value| value.0)),
        );
        self.first.push(end as u32);
        Ok(Value(nodes as u32))
    }

    #[cold]
    fn explain(&self, misfit: Misfit, cell: Kind, rows: &[u32], values: &[Value]) -> CallError {
        let record_of = |value| self.record_of(value);
        misfit.explain(&self.network, cell, rows, values, record_of)
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
            Source::Node(node) => {
                let kind = self.kinds.get(node.index())?;
                Some(self.signatures.record(*kind))
            }
            Source::Given(index) => self.given.get(index).copied(),
        }
    }

    /// The rows of tables that a call names.
    #[must_use]
    pub fn rows(&self, node: NodeId) -> &[u32] {
        &self.raw(node)[..self.signatures.tables(self.kind(node))]
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

    #[inline]
    fn value_words(&self, node: NodeId) -> &[u32] {
        &self.raw(node)[self.signatures.tables(self.kind(node))..]
    }

    #[inline]
    fn raw(&self, node: NodeId) -> &[u32] {
        let (start, end) = (self.first[node.index()], self.first[node.index() + 1]);
        &self.arguments[start as usize..end as usize]
    }
}

impl Dag for Graph {
    fn nodes(&self) -> usize {
        self.kinds.len()
    }

    fn kinds(&self) -> usize {
        self.signatures.len()
    }

    #[inline]
    fn kind(&self, node: NodeId) -> Kind {
        self.kinds[node.index()]
    }

    #[inline]
    fn arguments(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.value_words(node)
            .iter()
            .filter_map(|&word| match Value(word).source() {
                Source::Node(node) => Some(node),
                Source::Given(_) => None,
            })
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
