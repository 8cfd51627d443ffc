//! What a call must look like, how it can fail to, and what it reads.

use std::{fmt, slice, vec};

use crate::graph::Node;
use crate::id::Contents;
use crate::{Cell, Kind, Network, NodeId, Port, RecordId, Source, Table, Value};

/// What [`Graph::call`](crate::Graph::call) checks, by cell: no more than that, for it is read at
/// every call.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(Vec<Signature>);

#[derive(Clone, Debug)]
struct Signature {
    /// How many rows each table has.
    tables: Box<[u32]>,
    /// The record at each port.
    ports: Box<[RecordId]>,
    /// What the values beyond the last port are, if any may be there.
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

    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many tables a cell reads a row of.
    #[inline]
    pub(crate) fn tables(&self, cell: Kind) -> usize {
        self.0[cell.index()].tables.len()
    }

    /// The record that a call produces, if it fits its cell, in a graph of these nodes and given
    /// values. It only says whether: [`explain`] finds out why not, for the error.
    #[inline(always)]
    pub(crate) fn fit(
        &self,
        cell: Kind,
        rows: &[u32],
        values: &[Value],
        (nodes, given, contents): (&[Node], &[RecordId], Contents),
    ) -> Option<RecordId> {
        let Signature { tables, ports, surplus, record } = self.0.get(cell.index())?;
        let is = |value: Value, expected: RecordId| {
            let record = match value.source() {
                Source::Node(node) => nodes.get(node.index()).map(|node| node.record),
                Source::Given(index) => given.get(index).copied(),
            };
            value.may_be_of(contents) && record == Some(expected)
        };
        let rows_fit = rows.len() == tables.len() && rows.iter().zip(tables).all(|(a, b)| a < b);
        let (values, others) = values.split_at_checked(ports.len())?;
        let values_fit = values.iter().zip(ports).all(|(&v, &record)| is(v, record));
        let others_fit = others.is_empty()
            || surplus.is_some_and(|record| others.iter().all(|&v| is(v, record)));
        (rows_fit && values_fit && others_fit).then_some(*record)
    }
}

/// The whole story of a call that does not fit: the first thing that is wrong with it.
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
    unreachable!("only calls that do not fit are explained")
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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

/// So many are few.
const FEW: usize = 4;

/// The arguments of a node in their order: an iterator over them.
///
/// Made from a slice, or collected from any iterator. How many a node has is hard to predict, and a
/// mispredicted end of a loop costs more than the loop; so the first few are an array, which
/// [`few`](Self::few) hands out as it is.
///
/// ```
/// use edbatch_graph::{Arguments, NodeId};
///
/// let nodes = [NodeId(3), NodeId(3), NodeId(5)];
/// let arguments = Arguments::from(&nodes[..]);
/// assert!(arguments.clone().eq(nodes));
/// assert!(nodes.into_iter().collect::<Arguments<'_>>().eq(nodes));
/// let Ok((few, count)) = arguments.few() else { panic!("three are few") };
/// assert_eq!(few[..count], nodes);
/// ```
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    few: [NodeId; FEW],
    /// Those of the few that are arguments, and have not been returned yet.
    next: usize,
    count: usize,
    /// All of them, if they are not few.
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
    /// The arguments and how many they are, if they are few and none has been returned yet; what
    /// stands behind them in the array may be anything.
    ///
    /// # Errors
    /// If they are many: returns them.
    #[inline]
    pub fn few(self) -> Result<([NodeId; FEW], usize), Self> {
        match self {
            Self { few, next: 0, count, many: Many::No } => Ok((few, count)),
            many => Err(many),
        }
    }

    #[inline]
    fn of_few(few: [NodeId; FEW], count: usize) -> Self {
        Self { few, next: 0, count, many: Many::No }
    }

    #[inline]
    fn of_many(many: Many<'a>) -> Self {
        Self { few: [NodeId(0); FEW], next: 0, count: 0, many }
    }

    /// The nodes `start..end` of a list: copied with those that follow, whatever they are.
    #[inline]
    pub(crate) fn of_nodes(list: &'a [NodeId], start: usize, end: usize) -> Self {
        match list.get(start..start + FEW) {
            Some(few) if end - start <= FEW => {
                Self::of_few(few.try_into().expect("they are as many"), end - start)
            }
            _ => Self::from(&list[start..end]),
        }
    }

    /// The nodes among the values `start..end` of a list.
    #[inline]
    pub(crate) fn of_values(list: &'a [Value], start: usize, end: usize) -> Self {
        if let Some(few) = list.get(start..start + FEW)
            && end - start <= FEW
        {
            let few: &[Value; FEW] = few.try_into().expect("they are as many");
            // The bit that marks a given value is mostly in none of the words.
            let all = few.iter().fold(0, |all, value| all | value.name);
            if all < Value::LIMIT as u32 {
                return Self::of_few(few.map(|value| NodeId(value.name)), end - start);
            }
            let (mut nodes, mut count) = ([NodeId(0); FEW], 0);
            for (place, value) in few.iter().enumerate() {
                nodes[count % FEW] = NodeId(value.name);
                let is_node = matches!(value.source(), Source::Node(_));
                count += usize::from(is_node & (place < end - start));
            }
            return Self::of_few(nodes, count);
        }
        Self::of_many(Many::Values(list[start..end].iter()))
    }
}

impl<'a> From<&'a [NodeId]> for Arguments<'a> {
    #[inline]
    fn from(nodes: &'a [NodeId]) -> Self {
        if nodes.len() > FEW {
            return Self::of_many(Many::Nodes(nodes.iter()));
        }
        let mut few = [NodeId(0); FEW];
        few[..nodes.len()].copy_from_slice(nodes);
        Self::of_few(few, nodes.len())
    }
}

impl FromIterator<NodeId> for Arguments<'_> {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut nodes = nodes.into_iter().fuse();
        let (mut few, mut count) = ([NodeId(0); FEW], 0);
        for (place, node) in few.iter_mut().zip(&mut nodes) {
            *place = node;
            count += 1;
        }
        match nodes.next() {
            None => Self::of_few(few, count),
            Some(another) => {
                let all: Vec<NodeId> = few.into_iter().chain([another]).chain(nodes).collect();
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
                Some(self.few[self.next - 1])
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
