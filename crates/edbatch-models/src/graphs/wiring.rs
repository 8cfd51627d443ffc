//! Makes the calls of graphs.

use std::ops::Range;

use edbatch_graph::{CallError, Network, NodeId, Value};

use super::edges::{Edges, Ends, no_node, with_ends};
use super::error::invalid;
use super::forms::{Form, Forms, Origin, Part};
use super::order::Order;
use super::{GraphEmit, GraphError, Graphs};
use crate::CallList;

/// The state of wiring, whose memory all graphs share.
pub(super) struct Wiring<'g> {
    graphs: &'g Graphs<'g>,
    network: &'g Network,
    forms: &'g Forms,
    order: Order<'g>,
    absent: Option<Value>,
    /// The results of nodes.
    made: Vec<Value>,
    /// For each edge, its place among the edges of its graph, if edges have features.
    places: Vec<u32>,
    /// The nodes of the graph, and its number of edges.
    nodes: Range<usize>,
    edges_of_graph: usize,
    rows: Vec<u32>,
    values: Vec<Value>,
}

/// A call of a node or an edge.
#[derive(Clone, Copy)]
struct Call<'v> {
    place: Place,
    /// The node that reads.
    node: usize,
    edge: Option<usize>,
    /// The number of predecessors at ports that take one.
    ones: usize,
    /// The predecessors, or the value of the source.
    values: &'v [Value],
    /// The rows of tables.
    rows: &'v [i64],
}

/// A node, an edge or the readout of a graph, with its number.
type Place = (&'static str, usize);

impl<'g> Wiring<'g> {
    pub(super) fn new(
        graphs: &'g Graphs<'g>,
        network: &'g Network,
        forms: &'g Forms,
        order: Order<'g>,
        places: Vec<u32>,
    ) -> Result<Self, GraphError> {
        let absent = graphs.absent.map(|number| {
            let index = usize::try_from((-1i64).saturating_sub(number)).ok();
            let value = index.and_then(|index| network.initial_value(index));
            let expected = "absent: expected an initial value, got";
            value.ok_or_else(|| GraphError::Invalid(format!("{expected} {number}")))
        });
        let nodes = graphs.kinds.len();
        Ok(Self {
            graphs,
            network,
            forms,
            order,
            absent: absent.transpose()?,
            made: vec![Value::from(NodeId::new(0)); nodes],
            places,
            nodes: 0..0,
            edges_of_graph: 0,
            rows: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Makes the calls of a graph in the order in which nodes become ready.
    pub(super) fn wire(
        &mut self,
        graph: usize,
        nodes: Range<usize>,
        list: &mut CallList,
    ) -> Result<(), GraphError> {
        self.nodes = nodes.clone();
        self.edges_of_graph = self.order.sources.within(&nodes);
        let calls = nodes.len() + self.forms.edges.len().min(1) * self.edges_of_graph;
        let reserved = list.reserve(calls, 0, self.edges_of_graph);
        reserved.map_err(|error| failed(("graph", graph), error))?;
        let (mut values, mut next) = (Vec::new(), nodes.start);
        while next < nodes.end {
            next = self.simple_calls(list, next..nodes.end)?;
            if let Some(&node) = self.order.nodes[..nodes.end].get(next) {
                self.made[node as usize] = self.node(list, node as usize, &mut values)?;
                next += 1;
            }
        }
        Ok(())
    }

    /// Makes calls in order up to the first node that is not one call with its predecessors alone.
    /// Returns the place of this node, or the end.
    fn simple_calls(
        &mut self,
        list: &mut CallList,
        places: Range<usize>,
    ) -> Result<usize, GraphError> {
        let (forms, made) = (self.forms.nodes.as_slice(), self.made.as_mut_slice());
        let (nodes, sources) = (&self.order.nodes[places.clone()], &self.order.sources);
        with_ends!(&sources.ends, ends => for (place, &node) in places.clone().zip(nodes) {
            let node = node as usize;
            let form = match forms {
                [only] => only,
                forms => &forms[self.graphs.kinds[node] as usize],
            };
            let range = sources.range(node);
            if !form.simple.contains(&range.len()) {
                return Ok(place);
            }
            let call = list.call_with(form.cell.kind, &ends[range], |&node| made[node as usize]);
            made[node] = call.map_err(|error| failed(("node", node), error))?;
        });
        Ok(places.end)
    }

    /// Calls the cells of the edges that a node reads, then its own. `values` is a buffer.
    fn node(
        &mut self,
        list: &mut CallList,
        node: usize,
        values: &mut Vec<Value>,
    ) -> Result<Value, GraphError> {
        let form = &self.forms.nodes[self.graphs.kinds[node] as usize];
        let range = self.order.sources.range(node);
        let (ones, got) = (form.ones.len(), range.len());
        if got < ones || got > ones && form.many.is_none() {
            return self.misfit(form, node, got);
        }
        let is_leaf = form.many.is_some() && got == ones;
        values.clear();
        with_ends!(&self.order.sources.ends, ends => {
            values.extend(ends[range].iter().map(|&source| self.made[source as usize]));
        });
        let leaf = form.leaf.as_ref().filter(|_| is_leaf);
        if is_leaf && leaf.is_none() {
            let Some(absent) = self.absent else { return self.misfit(form, node, got) };
            values.push(absent);
        }
        if form.each.is_some() || !self.forms.edges.is_empty() {
            self.call_edges(list, node, form, got, values)?;
        }
        let part = leaf.unwrap_or(&form.cell);
        let (place, rows) = (("node", node), of(self.graphs.rows, node));
        self.call(list, part, Call { place, node, edge: None, ones, values, rows })
    }

    /// Calls the cell of each edge that a node reads, or of each of its values at the port of any
    /// number. The results replace the values; the first `got` have an edge.
    fn call_edges(
        &mut self,
        list: &mut CallList,
        node: usize,
        form: &Form,
        got: usize,
        values: &mut [Value],
    ) -> Result<(), GraphError> {
        // The cell of a value also reads the predecessors at ports that take one.
        let (ones, end) = form.each.as_ref().map_or((0, got), |_| (form.ones.len(), values.len()));
        let mut operands = values[..ones].to_vec();
        for (position, value) in values.iter_mut().enumerate().take(end).skip(ones) {
            let edge = (position < got).then(|| self.order.sources.number(node, position));
            let (part, place, rows) = match &form.each {
                Some(each) => (each, ("node", node), of(self.graphs.rows, node)),
                None => {
                    let edge = edge.expect("a value with an edge");
                    let form = &self.forms.edges[self.graphs.edge_kinds[edge] as usize];
                    (&form.cell, ("edge", edge), of(self.graphs.edge_rows, edge))
                }
            };
            operands.truncate(ones);
            operands.push(*value);
            let call = Call { place, node, edge, ones, values: &operands, rows };
            *value = self.call(list, part, call)?;
        }
        Ok(())
    }

    #[inline]
    fn call(
        &mut self,
        list: &mut CallList,
        part: &Part,
        call: Call<'_>,
    ) -> Result<Value, GraphError> {
        self.rows.clear();
        for &column in &part.columns {
            let row = call.rows.get(column).map(|&row| u32::try_from(row));
            let Some(Ok(row)) = row else { return self.no_row(part, call, column) };
            self.rows.push(row);
        }
        let made = match part.is_plain {
            true => list.call(part.kind, &self.rows, call.values),
            false => {
                self.read_values(list, part, call);
                list.call(part.kind, &self.rows, &self.values)
            }
        };
        made.map_err(|error| failed(call.place, error))
    }

    /// Reads the values of a call, port by port.
    fn read_values(&mut self, list: &CallList, part: &Part, call: Call<'_>) {
        let initial = self.network.initial_values().len();
        self.values.clear();
        for &origin in &part.origins {
            let given = match (origin, call.edge) {
                (Origin::One(index), _) => {
                    self.values.push(call.values[index]);
                    continue;
                }
                (Origin::Rest, _) => {
                    self.values.extend_from_slice(&call.values[call.ones..]);
                    continue;
                }
                (Origin::Feature(feature), _) => {
                    feature * self.nodes.len() + call.node - self.nodes.start
                }
                (Origin::EdgeFeature(feature), Some(edge)) => {
                    let of_nodes = self.graphs.features.len() * self.nodes.len();
                    of_nodes + feature * self.edges_of_graph + self.places[edge] as usize
                }
                // `absent` has no edge: the call then lacks a value.
                (Origin::EdgeFeature(_), None) => continue,
            };
            let value = list.graph().given_value(initial + given);
            self.values.push(value.expect("a row of the feature"));
        }
    }

    #[cold]
    fn no_row<T>(&self, part: &Part, call: Call<'_>, column: usize) -> Result<T, GraphError> {
        let (cell, place) =
            (&self.network[part.kind], format!("{} {}", call.place.0, call.place.1));
        let name = cell.name();
        if let Some(row) = call.rows.get(column).filter(|&&row| row != Graphs::NO_ROW) {
            let problem = format!("row {row} does not exist: expected a number from 0, below 2^32");
            return invalid(format!("{place}: call of {name}: {problem}"));
        }
        let tables = cell.tables().iter().map(|table| format!("'{}'", table.name));
        let rows = call.rows.iter().filter(|&&row| row != Graphs::NO_ROW).count();
        let tables = tables.collect::<Vec<_>>().join(", ");
        let rows = if rows == 0 { "no rows".into() } else { format!("only {rows} rows") };
        invalid(format!("{place}: cell {name} reads the tables [{tables}], but there are {rows}"))
    }

    #[cold]
    fn misfit<T>(&self, form: &Form, node: usize, got: usize) -> Result<T, GraphError> {
        let name = self.network[form.cell.kind].name();
        let text = match (&form.many, form.ones.as_slice()) {
            (Some(port), ones) if got == ones.len() => {
                format!("has no predecessors: give `absent`, an initial value for its port {port}")
            }
            (None, []) => format!("has no ports for predecessors, got {got}"),
            (many, ones) => {
                let any = many.as_ref().map(|port| format!("{port}: any number"));
                let names: Vec<String> = ones.iter().cloned().chain(any).collect();
                let (count, s) = (names.len(), if names.len() == 1 { "" } else { "s" });
                let names = names.join(", ");
                format!("has {count} port{s} for predecessors ({names}), got {got}")
            }
        };
        invalid(format!("node {node}: cell {name} {text}"))
    }

    /// Emits the values of all graphs, or the results of the readout.
    pub(super) fn emit(
        &mut self,
        edges: &Edges<'_>,
        lists: &mut [CallList],
    ) -> Result<(), GraphError> {
        let nodes = self.graphs.kinds.len();
        let mut emitted = vec![Vec::new(); lists.len()];
        let mut push = |node: usize| emitted[edges.graph(node as i64)].push(self.made[node]);
        match self.graphs.emit {
            GraphEmit::Sinks => self.order.sinks.iter().for_each(|&node| push(node as usize)),
            GraphEmit::All => (0..nodes).for_each(push),
            GraphEmit::Mask(mask) => (0..nodes).filter(|&node| mask[node]).for_each(push),
            GraphEmit::Nodes(numbers) => {
                for &node in numbers {
                    if node as u64 >= nodes as u64 {
                        return invalid(format!("emit: {}", no_node(node, nodes)));
                    }
                    push(node as usize);
                }
            }
        }
        for (graph, (list, mut values)) in lists.iter_mut().zip(emitted).enumerate() {
            if let Some(form) = &self.forms.readout {
                let place = ("readout of graph", graph);
                let call = Call { place, node: 0, edge: None, ones: 0, values: &[], rows: &[] };
                let each = form.each.as_ref().or((form.many.is_none()).then_some(&form.cell));
                for value in values.iter_mut().filter(|_| each.is_some()) {
                    let call = Call { values: &[*value], ..call };
                    *value = self.call(list, each.expect("filtered"), call)?;
                }
                if form.many.is_some() && !values.is_empty() {
                    let call = Call { values: &values, ..call };
                    values = vec![self.call(list, &form.cell, call)?];
                }
            }
            values.into_iter().for_each(|value| list.emit(value).expect("a value of this list"));
        }
        Ok(())
    }
}

/// The rows of tables of a node or an edge.
#[inline]
fn of(rows: Option<(usize, &[i64])>, index: usize) -> &[i64] {
    rows.map_or(&[], |(width, rows)| &rows[index * width..][..width])
}

#[cold]
fn failed(place: Place, error: CallError) -> GraphError {
    GraphError::Call { place: format!("{} {}", place.0, place.1), error: error.into() }
}
