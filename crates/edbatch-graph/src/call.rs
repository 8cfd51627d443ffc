//! Checks calls against the signatures of cells, and iterates over their arguments.

use std::{fmt, slice, vec};

use crate::graph::Node;
use crate::id::Generation;
use crate::{Cell, Kind, Network, NodeId, Port, RecordId, Source, Table, Value};

/// The signatures of all cells, which [`Graph::call`](crate::Graph::call) checks. Kept small,
/// because every call reads them.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Vec<Signature>);

#[derive(Clone, Debug)]
struct Signature {
    /// The number of rows of each table.
    tables: Box<[u32]>,
    /// The record at each port.
    ports: Box<[RecordId]>,
    /// The record of further values, if the last port takes any number.
    surplus: Option<RecordId>,
    record: RecordId,
}

impl Signatures {
    pub(crate) fn new(network: &Network) -> Self {
        let signature = |cell: &Cell| Signature {
            tables: cell.tables().iter().map(|table| table.rows).collect(),
            ports: cell.ports().iter().map(|port| port.record).collect(),
            surplus: cell.ports().last().filter(|_| cell.is_variadic()).map(|port| port.record),
            record: cell.record(),
        };
        Self(network.cells().iter().map(signature).collect())
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of tables of a cell.
    #[inline]
    pub(crate) fn tables(&self, cell: Kind) -> usize {
        self.0[cell.index()].tables.len()
    }

    /// Returns the record that a call produces, or `None` for an invalid call; [`explain`] then
    /// finds the error. The graph has these nodes and given values.
    #[inline(always)]
    pub(crate) fn fit(
        &self,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        (nodes, given, generation): (&[Node], &[RecordId], Generation),
    ) -> Option<RecordId> {
        let Signature { tables, ports, surplus, record } = self.0.get(cell.index())?;
        let is = |value: Value, expected: RecordId| {
            let record = match value.source() {
                Source::Node(node) => nodes.get(node.index()).map(|node| node.record),
                Source::Given(index) => given.get(index).copied(),
            };
            value.may_belong_to(generation) && record == Some(expected)
        };
        let rows_fit = rows.len() == tables.len() && rows.iter().zip(tables).all(|(a, b)| a < b);
        let (values, others) = values.split_at_checked(ports.len())?;
        let values_fit = values.iter().zip(ports).all(|(&v, &record)| is(v, record));
        let others_fit = others.is_empty()
            || surplus.is_some_and(|record| others.iter().all(|&v| is(v, record)));
        (rows_fit && values_fit && others_fit).then_some(*record)
    }
}

/// Returns the first error of an invalid call.
#[cold]
pub(crate) fn explain(
    network: &Network,
    cell: Kind,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> CallError {
    match network.cells().get(cell.index()) {
        Some(called) => CallError {
            cell: called.name().into(),
            message: misfit(network, called, rows, values, record_of),
        },
        None => CallError {
            cell: cell.to_string(),
            message: format!("does not exist: the network has {} cells", network.cells().len()),
        },
    }
}

fn misfit(
    network: &Network,
    cell: &Cell,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> String {
    let (tables, ports) = (cell.tables(), cell.ports());
    if rows.len() != tables.len() {
        let expected = count(tables.len(), "row");
        return format!("expected {expected} of tables, got {}", rows.len());
    }
    for (&row, Table { name, rows, .. }) in rows.iter().zip(tables) {
        if row >= *rows {
            return format!("{name}: row {row} does not exist: the table has {rows}");
        }
    }
    if values.len() < ports.len() || values.len() > ports.len() && !cell.is_variadic() {
        let least = if cell.is_variadic() { "at least " } else { "" };
        let expected = count(ports.len(), "value");
        return format!("expected {least}{expected}, got {}", values.len());
    }
    for (position, &value) in values.iter().enumerate() {
        let Port { name, record, .. } = &ports[position.min(ports.len() - 1)];
        let expected = &network.fields(*record).name;
        match record_of(value) {
            Some(got) if got == *record => {}
            Some(got) => {
                let got = &network.fields(got).name;
                return format!("{name}: expected a value of record {expected}, got one of {got}");
            }
            None => {
                return format!(
                    "{name}: expected a value of this graph, got {:?}; a value that is used after \
                     an await must be carried across it",
                    value.source()
                );
            }
        }
    }
    unreachable!("the call is invalid")
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The error of a call that does not match its cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// The cell's name.
    pub cell: String,
    /// The expected and the actual arguments.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of {}: {}", self.cell, self.message)
    }
}

impl std::error::Error for CallError {}

/// The maximum number of arguments in the inline array.
const INLINE: usize = 4;

/// An iterator over the arguments of a node, in order.
///
/// Created from a slice, or collected from any iterator. The number of a node's arguments is hard
/// to predict, and a mispredicted end of a loop costs more than the loop. So up to four arguments
/// are in an array of fixed size, which [`into_array`](Self::into_array) returns.
///
/// ```
/// use edbatch_graph::{Arguments, NodeId};
///
/// let nodes = [NodeId(3), NodeId(3), NodeId(5)];
/// let arguments = Arguments::from(&nodes[..]);
/// assert!(arguments.clone().eq(nodes));
/// assert!(nodes.into_iter().collect::<Arguments<'_>>().eq(nodes));
/// let Ok((array, count)) = arguments.into_array() else { panic!("at most four arguments") };
/// assert_eq!(array[..count], nodes);
/// ```
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    array: [NodeId; INLINE],
    /// The arguments in the array that were not returned yet: `next..count`.
    next: usize,
    count: usize,
    /// All arguments, if there are more than [`INLINE`].
    many: Many<'a>,
}

#[derive(Clone, Debug)]
enum Many<'a> {
    No,
    Nodes(slice::Iter<'a, NodeId>),
    Values(slice::Iter<'a, Value>),
    Collected(vec::IntoIter<NodeId>),
}

impl<'a> Arguments<'a> {
    /// Returns the arguments as an array and their number. The remaining elements of the array have
    /// no meaning.
    ///
    /// # Errors
    /// Returns `self` if there are more than four arguments, or if one was already returned by the
    /// iterator.
    #[inline]
    pub fn into_array(self) -> Result<([NodeId; INLINE], usize), Self> {
        match self {
            Self { array, next: 0, count, many: Many::No } => Ok((array, count)),
            many => Err(many),
        }
    }

    #[inline]
    fn of_array(array: [NodeId; INLINE], count: usize) -> Self {
        Self { array, next: 0, count, many: Many::No }
    }

    #[inline]
    fn of_many(many: Many<'a>) -> Self {
        Self { array: [NodeId(0); INLINE], next: 0, count: 0, many }
    }

    /// The nodes `start..end` of a list. Copies a full array, including unrelated nodes after
    /// `end`.
    #[inline]
    pub(crate) fn of_nodes(list: &'a [NodeId], start: usize, end: usize) -> Self {
        match list.get(start..start + INLINE) {
            Some(nodes) if end - start <= INLINE => {
                Self::of_array(nodes.try_into().expect("equal lengths"), end - start)
            }
            _ => Self::from(&list[start..end]),
        }
    }

    /// The nodes among the values `start..end` of a list.
    #[inline]
    pub(crate) fn of_values(list: &'a [Value], start: usize, end: usize) -> Self {
        if let Some(values) = list.get(start..start + INLINE)
            && end - start <= INLINE
        {
            let values: &[Value; INLINE] = values.try_into().expect("equal lengths");
            // Fast path: most often no value has the bit that marks given values.
            let all = values.iter().fold(0, |all, value| all | value.name);
            if all < Value::LIMIT as u32 {
                return Self::of_array(values.map(|value| NodeId(value.name)), end - start);
            }
            let (mut nodes, mut count) = ([NodeId(0); INLINE], 0);
            for (place, value) in values.iter().enumerate() {
                nodes[count % INLINE] = NodeId(value.name);
                let is_node = matches!(value.source(), Source::Node(_));
                count += usize::from(is_node & (place < end - start));
            }
            return Self::of_array(nodes, count);
        }
        Self::of_many(Many::Values(list[start..end].iter()))
    }
}

impl<'a> From<&'a [NodeId]> for Arguments<'a> {
    #[inline]
    fn from(nodes: &'a [NodeId]) -> Self {
        if nodes.len() > INLINE {
            return Self::of_many(Many::Nodes(nodes.iter()));
        }
        let mut array = [NodeId(0); INLINE];
        array[..nodes.len()].copy_from_slice(nodes);
        Self::of_array(array, nodes.len())
    }
}

impl FromIterator<NodeId> for Arguments<'_> {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut nodes = nodes.into_iter().fuse();
        let (mut array, mut count) = ([NodeId(0); INLINE], 0);
        for (place, node) in array.iter_mut().zip(&mut nodes) {
            *place = node;
            count += 1;
        }
        match nodes.next() {
            None => Self::of_array(array, count),
            Some(fifth) => {
                let all: Vec<NodeId> = array.into_iter().chain([fifth]).chain(nodes).collect();
                Self::of_many(Many::Collected(all.into_iter()))
            }
        }
    }
}

impl Iterator for Arguments<'_> {
    type Item = NodeId;

    #[inline]
    fn next(&mut self) -> Option<NodeId> {
        match &mut self.many {
            Many::No if self.next < self.count => {
                self.next += 1;
                Some(self.array[self.next - 1])
            }
            Many::No => None,
            Many::Nodes(nodes) => nodes.next().copied(),
            Many::Values(values) => values.find_map(node),
            Many::Collected(nodes) => nodes.next(),
        }
    }
}

#[inline]
fn node(value: &Value) -> Option<NodeId> {
    match value.source() {
        Source::Node(node) => Some(node),
        Source::Given(_) => None,
    }
}
