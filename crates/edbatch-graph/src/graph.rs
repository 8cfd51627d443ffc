//! The graph of a mini-batch: calls of a network's cells.

mod append;
mod mark;
mod row;

use std::fmt;
use std::sync::Arc;

use crate::call::{self, Node, Signatures};
use crate::id::Generation;
use crate::{Arguments, CallError, CallErrorReason, Dag, Kind, Network, NodeId, RecordId, Value};
pub use append::Appended;
pub use mark::Mark;
use row::LOOKS_UP;
pub use row::Row;

/// A DAG of cell calls in flat, append-only arrays.
///
/// Arguments precede their readers. A call holds only indices of table rows and of values, never
/// tensor data. Nothing is allocated per node.
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
    /// The records of given values; the network's initial values come first.
    given: Vec<RecordId>,
    signatures: Signatures,
    nodes: Vec<Node>,
    /// The rows of tables that the calls name, node by node.
    rows: Vec<u32>,
    /// The values that the calls read, node by node, without the generation bits of a [`Value`].
    values: Vec<Value>,
    generation: Generation,
    /// True if a call may name the row of an argmax.
    looks_up: bool,
}

impl Graph {
    /// The maximum number of nodes, of arguments, of table rows, and of given values: 2²⁸ - 1.
    ///
    /// Memory is usually the tighter limit: 16 bytes for a node, and 4 for each value and each row
    /// that it names. Scheduling and planning need about as much memory again.
    pub const MAX_ENTRIES: usize = Value::LIMIT - 1;

    /// Creates a graph without nodes.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let given = network.initial_values().iter().map(|initial| initial.record).collect();
        let signatures = Signatures::new(&network);
        let (nodes, rows, values) = (vec![], vec![], vec![]);
        let (generation, looks_up) = (Generation::new(), false);
        Self { network, given, signatures, nodes, rows, values, generation, looks_up }
    }

    /// Removes all nodes, and all given values except initial ones. Keeps the memory.
    pub fn clear(&mut self) {
        self.given.truncate(self.network.initial_values().len());
        self.nodes.clear();
        self.rows.clear();
        self.values.clear();
        self.generation = self.generation.next();
        self.looks_up = false;
    }

    /// Returns the network whose cells are called.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Appends a call of a cell, with a row for each table and a value for each port.
    ///
    /// # Errors
    /// If the cell does not exist, if there are too few or too many rows or values, if a row is not
    /// in its table, if a value has another record or is not in the graph, or if the graph would
    /// have more than [`MAX_ENTRIES`](Self::MAX_ENTRIES) nodes or arguments. The graph is then
    /// unchanged.
    // Most call sites pass fixed numbers of rows and values; inlining then removes the loops over
    // them. Trees gain speed, lattices hardly.
    #[inline(always)]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        let known = (&*self.nodes, &*self.given, self.generation);
        let record = match self.signatures.fit(cell, rows, values, known) {
            Some(record) => record,
            None => self.check(cell, rows, values)?,
        };
        let (node, first_row, first) = (self.nodes.len(), self.rows.len(), self.values.len());
        let end = first + values.len();
        let has_memory = node < self.nodes.capacity()
            && first_row + rows.len() <= self.rows.capacity()
            && end <= self.values.capacity();
        if !has_memory || !has_room(node, first_row, end) {
            self.grow(cell, rows.len(), values.len())?;
        }
        // Not a slice copy: for a few elements, the call of memcpy costs more than the loop.
        rows.iter().for_each(|&row| self.rows.push(row));
        values.iter().for_each(|&value| self.values.push(value.of_any_generation()));
        let values = (first as u32, end as u32);
        self.nodes.push(Node { kind: cell, record, rows: first_row as u32, values });
        Ok(Value::of_node(node, self.generation))
    }

    /// Like [`call`](Self::call) without rows, with the value of each item. Saves a copy of them.
    ///
    /// # Errors
    /// Like [`call`](Self::call).
    #[inline(always)]
    pub fn call_with<T>(
        &mut self,
        cell: Kind,
        items: &[T],
        value: impl Fn(&T) -> Value,
    ) -> Result<Value, CallError> {
        let (node, rows, first) = (self.nodes.len(), self.rows.len(), self.values.len());
        let end = first + items.len();
        let has_memory = node < self.nodes.capacity() && end <= self.values.capacity();
        if !has_memory || !has_room(node, rows, end) {
            return self.call_cold(cell, items.iter().map(value).collect());
        }
        self.values.extend(items.iter().map(value));
        let values = &mut self.values[first..];
        let known = (&*self.nodes, &*self.given, self.generation);
        let Some(record) = self.signatures.fit(cell, &[], values, known) else {
            let values = self.values.drain(first..).collect();
            return self.call_cold(cell, values);
        };
        values.iter_mut().for_each(|value| *value = value.of_any_generation());
        let values = (first as u32, end as u32);
        self.nodes.push(Node { kind: cell, record, rows: rows as u32, values });
        Ok(Value::of_node(node, self.generation))
    }

    #[cold]
    fn call_cold(&mut self, cell: Kind, values: Vec<Value>) -> Result<Value, CallError> {
        self.call(cell, &[], &values)
    }

    #[cold]
    fn check(&self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<RecordId, CallError> {
        call::check(&self.network, cell, rows, values, |value| self.record_of(value))
    }

    /// Makes room for a call with this number of rows and values.
    #[cold]
    fn grow(&mut self, cell: Kind, rows: usize, values: usize) -> Result<(), CallError> {
        match has_room(self.nodes.len(), self.rows.len() + rows, self.values.len() + values) {
            false => Err(CallErrorReason::Full),
            true => self.allocate(1, rows, values),
        }
        .map_err(|reason| CallError { cell: self.network[cell].name().into(), reason })
    }

    /// Replaces the contents of `to` by the nodes and given values of this graph. The cells of the
    /// network of `to` may have further tables. `row` returns a row of each further table, given
    /// the node and the table's number of rows. Values of this graph are values of `to`.
    ///
    /// # Panics
    /// If the networks have different numbers of cells, or a row is not in its table.
    pub fn copy_with_rows(&self, to: &mut Self, mut row: impl FnMut(NodeId, u32) -> u32) {
        assert_eq!(self.signatures.len(), to.signatures.len(), "the numbers of cells");
        to.nodes.clear();
        to.rows.clear();
        to.values.clone_from(&self.values);
        to.given.clone_from(&self.given);
        (to.generation, to.looks_up) = (self.generation, self.looks_up);
        for (index, node) in self.nodes.iter().enumerate() {
            let (first, id) = (to.rows.len() as u32, NodeId::new(index));
            let own = self.rows(id);
            to.rows.extend_from_slice(own);
            let tables = &to.network[node.kind].tables()[own.len()..];
            for table in tables {
                let row = row(id, table.rows);
                assert!(row < table.rows, "a row of table {}", table.name);
                to.rows.push(row);
            }
            to.nodes.push(Node { rows: first | node.rows & LOOKS_UP, ..*node });
        }
    }

    /// Makes room for a number of calls, with a number of rows and of values in all. Without such a
    /// reservation, memory grows with the calls.
    ///
    /// # Errors
    /// If the graph would have more than [`MAX_ENTRIES`](Self::MAX_ENTRIES) nodes or arguments, or
    /// if the memory cannot be allocated.
    pub fn reserve(&mut self, calls: usize, rows: usize, values: usize) -> Result<(), CallError> {
        self.make_room(calls, rows, values)
            .map_err(|reason| CallError { cell: "reserved calls".into(), reason })
    }

    fn make_room(
        &mut self,
        calls: usize,
        rows: usize,
        values: usize,
    ) -> Result<(), CallErrorReason> {
        match has_room(self.nodes.len() + calls, self.rows.len() + rows, self.values.len() + values)
        {
            false => Err(CallErrorReason::Full),
            true => self.allocate(calls, rows, values),
        }
    }

    fn allocate(
        &mut self,
        calls: usize,
        rows: usize,
        values: usize,
    ) -> Result<(), CallErrorReason> {
        let reserved = (self.nodes.try_reserve(calls))
            .and_then(|()| self.rows.try_reserve(rows))
            .and_then(|()| self.values.try_reserve(values));
        reserved.map_err(|_| CallErrorReason::Memory { nodes: self.nodes.len() })
    }

    /// Adds a given value, which exists before the graph runs. Returns the value to pass to calls.
    ///
    /// # Panics
    /// If the network does not have the record, or if there are
    /// [`MAX_ENTRIES`](Self::MAX_ENTRIES) given values.
    pub fn give(&mut self, record: RecordId) -> Value {
        assert!(
            usize::from(record.0) < self.network.records().len(),
            "a record of the graph's network"
        );
        self.given.push(record);
        Value::given(self.given.len() - 1, self.generation)
    }

    /// Returns the records of the given values; the network's initial values come first.
    #[must_use]
    pub fn given(&self) -> &[RecordId] {
        &self.given
    }

    /// Returns the given value with this index in [`given`](Self::given), or `None` if there are
    /// fewer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use edbatch_graph::{Graph, Network, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(2))])?;
    /// let start = network.initial(state, &["start"])?;
    /// let mut graph = Graph::new(Arc::new(network));
    /// let given = graph.give(state);
    /// let values = [0, 1, 2].map(|index| graph.given_value(index));
    /// assert_eq!(values, [Some(start), Some(given), None]);
    /// # Ok::<(), edbatch_graph::CellError>(())
    /// ```
    #[must_use]
    pub fn given_value(&self, index: usize) -> Option<Value> {
        match index < self.network.initial_values().len() {
            true => self.network.initial_value(index),
            false => (index < self.given.len()).then(|| Value::given(index, self.generation)),
        }
    }

    /// Returns the record of a value, or `None` if the value is not in the graph.
    #[inline]
    #[must_use]
    pub fn record_of(&self, value: Value) -> Option<RecordId> {
        call::record_of(value, &self.nodes, &self.given, self.generation)
    }

    /// Returns the rows of tables that a call names. It is `u32::MAX` for the row of an argmax:
    /// [`row`](Self::row) tells of which value.
    #[must_use]
    #[inline]
    pub fn rows(&self, node: NodeId) -> &[u32] {
        let Node { kind, rows, .. } = self.nodes[node.index()];
        &self.rows[(rows & !LOOKS_UP) as usize..][..self.signatures.tables(kind)]
    }

    /// Returns the values that a call reads, port by port.
    #[inline]
    pub fn values(&self, node: NodeId) -> impl ExactSizeIterator<Item = Value> + '_ {
        self.values_of(node).iter().copied()
    }

    /// Returns the value at a position among those that a call reads.
    ///
    /// # Panics
    /// If the call reads fewer values.
    #[must_use]
    #[inline]
    pub fn value(&self, node: NodeId, position: usize) -> Value {
        self.values_of(node)[position]
    }

    /// Returns the size of the calls and given values in bytes.
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
        &self.values[first as usize..end as usize - self.count_looked_up(node)]
    }
}

/// Two graphs are equal if they have equal networks and the same given values and calls.
impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
            && self.nodes == other.nodes
            && self.rows == other.rows
            && self.values == other.values
            && (Arc::ptr_eq(&self.network, &other.network) || self.network == other.network)
    }
}

/// Returns true if all numbers are below [`Value::LIMIT`], so that another call fits.
#[inline(always)]
fn has_room(nodes: usize, rows: usize, values: usize) -> bool {
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

/// One line per call: `n2 = node(n0, n1)`; rows of tables as `#7` or `#argmax n1`, given values as
/// `g0`.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in (0..self.nodes()).map(NodeId::new) {
            write!(f, "{node} = {}(", self.network[self.kind(node)].name())?;
            let tables = 0..self.rows(node).len();
            let rows = tables.map(|table| format!("#{}", self.row(node, table)));
            let values = self.values(node).map(|value| value.source().to_string());
            let arguments: Vec<String> = rows.chain(values).collect();
            writeln!(f, "{})", arguments.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real graph of this size would not fit into a test's memory.
    #[test]
    fn nodes_rows_and_values_are_limited_to_28_bits() {
        let max = Graph::MAX_ENTRIES;
        assert_eq!(max, (1 << 28) - 1);
        assert!(has_room(max, max, max));
        let above = max + 1;
        for (nodes, rows, values) in [(above, 0, 0), (0, above, 0), (0, 0, above)] {
            assert!(!has_room(nodes, rows, values));
        }
    }
}
