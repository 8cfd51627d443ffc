//! A mini-batch: calls of a network's cells, built anew for every mini-batch.

use std::fmt;
use std::sync::Arc;

use crate::{Cell, Dag, Kind, Network, NodeId, RecordId};

/// What a call's argument refers to: the result of an earlier call, or a value that exists before
/// the graph runs (an initial value of the network, or one carried over from an earlier graph).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value(u32);

/// Marks a [`Value`] that no node of the graph makes.
const GIVEN: u32 = 1 << 31;

impl Value {
    pub(crate) fn given(index: usize) -> Self {
        let index = u32::try_from(index).expect("fewer than 2^31 given values");
        assert!(index < GIVEN, "fewer than 2^31 given values");
        Self(index | GIVEN)
    }

    /// The node that makes the value, or the index among the given ones.
    #[must_use]
    pub fn source(self) -> Source {
        if self.0 & GIVEN == 0 {
            Source::Node(NodeId(self.0))
        } else {
            Source::Given((self.0 & !GIVEN) as usize)
        }
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Self {
        assert!(node.0 < GIVEN, "fewer than 2^31 nodes");
        Self(node.0)
    }
}

/// Where a [`Value`] comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A node of the graph makes it.
    Node(NodeId),
    /// It exists before the graph runs: this index into [`Graph::given`].
    Given(usize),
}

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
    signatures: Vec<Signature>,
    kinds: Vec<Kind>,
    /// Arguments of node `v`: `arguments[first[v]..first[v + 1]]`, rows of tables, then values.
    first: Vec<u32>,
    arguments: Vec<u32>,
}

/// What [`Graph::call`] checks of a cell, flat and near.
#[derive(Clone, Debug)]
struct Signature {
    table_rows: Vec<u32>,
    ports: Vec<RecordId>,
    variadic: bool,
    record: RecordId,
}

impl Graph {
    /// A graph without nodes.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let given = network.initial_values().iter().map(|initial| initial.record).collect();
        let signatures = network.cells().iter().map(Signature::new).collect();
        Self { network, given, signatures, kinds: vec![], first: vec![0], arguments: vec![] }
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
    /// its table, or a value is of another record or of a later node.
    #[inline]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        if let Err(what) = self.fits(cell, rows, values) {
            return Err(self.error(cell, what));
        }
        let node = NodeId::new(self.kinds.len());
        self.kinds.push(cell);
        self.arguments.extend_from_slice(rows);
        self.arguments.extend(values.iter().map(|value| value.0));
        // Checked here so that neither ids nor offsets can wrap.
        assert!(self.arguments.len() < GIVEN as usize, "fewer than 2^31 arguments in a graph");
        self.first.push(self.arguments.len() as u32);
        Ok(node.into())
    }

    /// Declares a value that exists before the graph runs, beside the network's initial ones.
    pub fn give(&mut self, record: RecordId) -> Value {
        self.given.push(record);
        Value::given(self.given.len() - 1)
    }

    /// The records of the values that exist beforehand; the network's initial values come first.
    #[must_use]
    pub fn given(&self) -> &[RecordId] {
        &self.given
    }

    /// What a value is; `None` if the graph has no such value.
    #[must_use]
    pub fn record_of(&self, value: Value) -> Option<RecordId> {
        match value.source() {
            Source::Node(node) => {
                let kind = self.kinds.get(node.index())?;
                Some(self.signatures[kind.index()].record)
            }
            Source::Given(index) => self.given.get(index).copied(),
        }
    }

    /// The rows of tables that a call names.
    #[must_use]
    pub fn rows(&self, node: NodeId) -> &[u32] {
        &self.raw(node)[..self.signatures[self.kinds[node.index()].index()].table_rows.len()]
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
        &self.raw(node)[self.signatures[self.kinds[node.index()].index()].table_rows.len()..]
    }

    #[inline]
    fn raw(&self, node: NodeId) -> &[u32] {
        let (start, end) = (self.first[node.index()], self.first[node.index() + 1]);
        &self.arguments[start as usize..end as usize]
    }

    #[inline]
    fn fits(&self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<(), Misfit> {
        let Some(signature) = self.signatures.get(cell.index()) else {
            return Err(Misfit::NoSuchCell { cells: self.signatures.len() });
        };
        if rows.len() != signature.table_rows.len() {
            let (expected, got) = (signature.table_rows.len(), rows.len());
            return Err(Misfit::Rows { expected, got });
        }
        for (table, (&row, &rows)) in rows.iter().zip(&signature.table_rows).enumerate() {
            if row >= rows {
                return Err(Misfit::Row { table, row, rows });
            }
        }
        let ports = signature.ports.len();
        if values.len() != ports && !(signature.variadic && values.len() > ports) {
            return Err(Misfit::Values { expected: ports, got: values.len() });
        }
        for (position, &value) in values.iter().enumerate() {
            let port = position.min(ports - 1);
            let expected = signature.ports[port];
            match self.record_of(value) {
                Some(got) if got == expected => {}
                Some(got) => {
                    return Err(Misfit::Record { port, expected, got });
                }
                None => return Err(Misfit::NoSuchValue { port, value }),
            }
        }
        Ok(())
    }

    #[cold]
    fn error(&self, cell: Kind, what: Misfit) -> CallError {
        let cells = self.network.cells();
        let name = cells.get(cell.index()).map_or(cell.to_string(), |cell| cell.name().into());
        let port = |port: usize| cells[cell.index()].ports()[port].name.clone();
        let record = |id| self.network.fields(id).name.clone();
        let message = match what {
            Misfit::NoSuchCell { cells } => {
                format!("does not exist: the network has {cells} cells")
            }
            Misfit::Rows { expected, got } => {
                format!("expected {expected} rows of tables, got {got}")
            }
            Misfit::Row { table, row, rows } => {
                let table = &cells[cell.index()].tables()[table].name;
                format!("{table}: row {row} does not exist: the table has {rows}")
            }
            Misfit::Values { expected, got } if cells[cell.index()].is_variadic() => {
                format!("expected at least {expected} values, got {got}")
            }
            Misfit::Values { expected, got } => format!("expected {expected} values, got {got}"),
            Misfit::Record { port: p, expected, got } => {
                format!("{}: expected a value {}, got {}", port(p), record(expected), record(got))
            }
            Misfit::NoSuchValue { port: p, value } => format!(
                "{}: expected a value of this graph, got {:?}; a value that is used after an \
                 await must be carried across it",
                port(p),
                value.source()
            ),
        };
        CallError { cell: name, message }
    }
}

impl Signature {
    fn new(cell: &Cell) -> Self {
        Self {
            table_rows: cell.tables().iter().map(|table| table.rows).collect(),
            ports: cell.ports().iter().map(|port| port.record).collect(),
            variadic: cell.is_variadic(),
            record: cell.record(),
        }
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
        self.value_words(node).iter().filter(|&&word| word & GIVEN == 0).map(|&word| NodeId(word))
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

enum Misfit {
    NoSuchCell { cells: usize },
    Rows { expected: usize, got: usize },
    Row { table: usize, row: u32, rows: u32 },
    Values { expected: usize, got: usize },
    Record { port: usize, expected: RecordId, got: RecordId },
    NoSuchValue { port: usize, value: Value },
}

/// Why a call does not fit its cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The cell's name.
    pub cell: String,
    /// What was expected and what was got.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of {}: {}", self.cell, self.message)
    }
}

impl std::error::Error for CallError {}
