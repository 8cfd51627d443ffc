//! Checks calls against the signatures of cells, and iterates over their arguments.

use std::sync::Arc;
use std::{slice, vec};

use crate::graph::Node;
use crate::id::Generation;
use crate::{
    CallError, CallErrorReason, Cell, Kind, Network, NodeId, Port, RecordId, Source, Table, Value,
};

/// The signatures of all cells, for the checks of [`Graph::call`](crate::Graph::call). Kept small,
/// because every call reads them. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Arc<[Signature]>);

#[derive(Clone, Debug)]
struct Signature {
    /// The number of rows of each table.
    tables: Box<[u32]>,
    /// The record at each port.
    ports: Box<[RecordId]>,
    /// If the last port takes any number of values, the record of all values after the first.
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

    /// Returns the record that a valid call produces, or `None` if only the slower [`check`] can
    /// tell. The last argument holds the graph's nodes, records of given values, and generation.
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
            let record = match nodes.get(value.node_in(generation)) {
                Some(node) => Some(node.record),
                // Initial values belong to every generation.
                None => [generation, Generation::ANY]
                    .iter()
                    .find_map(|&generation| given.get(value.given_in(generation)))
                    .copied(),
            };
            record == Some(expected)
        };
        let rows_fit = rows.len() == tables.len() && rows.iter().zip(tables).all(|(a, b)| a < b);
        let (values, others) = values.split_at_checked(ports.len())?;
        let values_fit = values.iter().zip(ports).all(|(&v, &record)| is(v, record));
        let others_fit = others.is_empty()
            || surplus.is_some_and(|record| others.iter().all(|&v| is(v, record)));
        (rows_fit && values_fit && others_fit).then_some(*record)
    }
}

/// Returns the record of a value, or `None` if it is not in the graph with these nodes and given
/// values.
#[inline]
pub(crate) fn record_of(
    value: Value,
    nodes: &[Node],
    given: &[RecordId],
    generation: Generation,
) -> Option<RecordId> {
    match value.source() {
        _ if !value.may_belong_to(generation) => None,
        Source::Node(node) => nodes.get(node.index()).map(|node| node.record),
        Source::Given(index) => given.get(index).copied(),
    }
}

/// Checks a call in full. Returns the record that it produces, or its first error.
#[cold]
pub(crate) fn check(
    network: &Network,
    cell: Kind,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> Result<RecordId, CallError> {
    let Some(called) = network.cells().get(cell.index()) else {
        let reason = CallErrorReason::NoCell { cells: network.cells().len() };
        return Err(CallError { cell: cell.to_string(), reason });
    };
    match misfit(network, called, rows, values, record_of) {
        Some(reason) => Err(CallError { cell: called.name().into(), reason }),
        None => Ok(called.record()),
    }
}

fn misfit(
    network: &Network,
    cell: &Cell,
    rows: &[u32],
    values: &[Value],
    record_of: impl Fn(Value) -> Option<RecordId>,
) -> Option<CallErrorReason> {
    let (tables, ports) = (cell.tables(), cell.ports());
    if rows.len() != tables.len() {
        return Some(CallErrorReason::Rows { expected: tables.len(), got: rows.len() });
    }
    for (&row, &Table { ref name, parameter, rows }) in rows.iter().zip(tables) {
        if row >= rows {
            let name = name.clone();
            return Some(match parameter {
                Some(_) => CallErrorReason::NoRow { table: name, row, rows },
                None => CallErrorReason::NoIndex { port: name, index: row, size: rows },
            });
        }
    }
    let variadic = cell.is_variadic();
    if variadic && values.len() + 1 == ports.len() {
        return Some(CallErrorReason::NoValues { port: ports[values.len()].name.clone() });
    }
    if values.len() < ports.len() || values.len() > ports.len() && !variadic {
        return Some(CallErrorReason::Values {
            expected: ports.len(),
            variadic,
            got: values.len(),
        });
    }
    let misfit = |(position, &value): (usize, &Value)| {
        let Port { name: port, record, .. } = &ports[position.min(ports.len() - 1)];
        let name = |record| network.fields(record).name.clone();
        match record_of(value) {
            Some(got) if got == *record => None,
            Some(got) => {
                let (port, expected) = (port.clone(), name(*record));
                Some(CallErrorReason::Record { port, expected, got: name(got) })
            }
            None => Some(CallErrorReason::NotInGraph { port: port.clone(), value: value.source() }),
        }
    };
    values.iter().enumerate().find_map(misfit)
}

/// The maximum number of arguments in the inline array.
const INLINE: usize = 4;

/// An iterator over the arguments of a node, in order.
///
/// Created from a slice, or collected from any iterator. Up to four arguments are usually in an
/// array of fixed size, which [`into_array`](Self::into_array) returns: the CPU cannot predict
/// their number, and a mispredicted end of a loop costs more than the loop.
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
    /// `next..count` are the arguments in the array that the iterator has not returned yet.
    next: usize,
    count: usize,
    /// All arguments, if they are not in the array.
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
    /// Returns `self` if the arguments are not in an array: there are more than four, the iterator
    /// has already returned one, or they are at the end of a [`Graph`](crate::Graph)'s list.
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

    /// The nodes `start..end` of a list. If they fit, copies an array of fixed size, in which the
    /// elements after `end` have no meaning.
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
            // Fast path: usually no value has the bit that marks given values.
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
