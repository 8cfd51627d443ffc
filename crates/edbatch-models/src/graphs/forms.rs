//! The cells of nodes and edges, with the origin of each operand.

use std::ops::Range;

use edbatch_graph::{Arity, Kind, Network, Port};

use super::error::invalid;
use super::{Feature, GraphCell, GraphError, Graphs};

/// The origin of a value at a port.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    /// The row of a feature of the node that reads.
    Feature(usize),
    /// The row of a feature of the edge.
    EdgeFeature(usize),
    /// The predecessor at this position.
    One(usize),
    /// The other predecessors or, in a cell of edges, the value of the source.
    Rest,
}

/// A cell whose operands are known.
pub(super) struct Part {
    pub(super) kind: Kind,
    /// For each table, the column of `rows` or `edge_rows`.
    pub(super) columns: Vec<usize>,
    /// For each port, the origin of its values.
    pub(super) origins: Vec<Origin>,
    /// True if the values are all predecessors in their order.
    pub(super) is_plain: bool,
}

/// The cells of a node or an edge.
pub(super) struct Form {
    pub(super) cell: Part,
    pub(super) each: Option<Part>,
    pub(super) leaf: Option<Part>,
    /// The ports that take one predecessor, and the one that takes any number.
    pub(super) ones: Vec<String>,
    pub(super) many: Option<String>,
    /// The numbers of predecessors with which a node is one call, of `cell` with them alone.
    pub(super) simple: Range<usize>,
}

/// The cells of all nodes and edges, and the readout.
pub(super) struct Forms {
    pub(super) nodes: Vec<Form>,
    pub(super) edges: Vec<Form>,
    pub(super) readout: Option<Form>,
}

impl Forms {
    pub(super) fn new(graphs: &Graphs<'_>, network: &Network) -> Result<Self, GraphError> {
        let nodes = graphs.cells.iter().map(|cell| form(graphs, network, cell, false));
        let edge = |argument, graphs: &Graphs<'_>, cell: &GraphCell| {
            let form = form(graphs, network, cell, true);
            let ports: Vec<&str> = form.ones.iter().chain(&form.many).map(String::as_str).collect();
            let (name, names) = (network[cell.cell].name(), ports.join(", "));
            match ports.len() {
                1 => Ok(form),
                got => invalid(format!(
                    "{argument}: cell {name}: expected one port for values that are no features, \
                     got {got} ({names})"
                )),
            }
        };
        let edges = graphs.edge_cells.iter().map(|cell| edge("edge_cells", graphs, cell));
        let readout = graphs.readout.map(|cell| edge("readout", &Graphs::default(), cell));
        let (edges, readout) = (edges.collect::<Result<_, _>>()?, readout.transpose()?);
        Ok(Self { nodes: nodes.collect(), edges, readout })
    }
}

/// Finds the origins of the operands of a cell by their names. In a cell of edges or a readout, a
/// port without a feature takes the value of the source.
fn form(graphs: &Graphs<'_>, network: &Network, cell: &GraphCell, is_edge: bool) -> Form {
    // The cell of each predecessor has an edge, too.
    let of_edges = if is_edge || cell.each.is_some() { graphs.edge_features } else { &[] };
    let is_free =
        |name: &&String| find(graphs.features, name).or_else(|| find(of_edges, name)).is_none();
    let ones: Vec<String> = cell.ones.iter().filter(is_free).cloned().collect();
    let before = if is_edge { &[] } else { ones.as_slice() };
    let part = |kind: Kind, of_edges| {
        let mut used = Vec::new();
        let tables = network[kind].tables().iter();
        let columns = tables.map(|table| next(&cell.rows, &table.name, &mut used).unwrap_or(0));
        let columns = columns.collect();
        used.clear();
        let origin = |port: &Port| {
            (find(of_edges, &port.name).map(Origin::EdgeFeature))
                .or_else(|| find(graphs.features, &port.name).map(Origin::Feature))
                .or_else(|| next(before, &port.name, &mut used).map(Origin::One))
                .unwrap_or(Origin::Rest)
        };
        let origins: Vec<Origin> = network[kind].ports().iter().map(origin).collect();
        let in_order = origins.iter().enumerate().all(|(index, origin)| match origin {
            Origin::One(one) => *one == index,
            Origin::Rest => index == before.len(),
            _ => false,
        });
        let is_plain = in_order && origins.len() >= before.len();
        Part { kind, columns, origins, is_plain }
    };
    let many = cell.many.iter().find(is_free).cloned();
    let each = cell.each.map(|kind| part(kind, of_edges));
    let leaf = cell.leaf.map(|kind| part(kind, &[]));
    let of_edges = if is_edge { of_edges } else { &[] };
    let cell = part(cell.cell, of_edges);
    let has_edges = each.is_some() || !graphs.edge_cells.is_empty();
    let simple = match cell.is_plain && cell.columns.is_empty() && !has_edges {
        true if many.is_some() => ones.len() + 1..usize::MAX,
        true => ones.len()..ones.len() + 1,
        false => 0..0,
    };
    Form { cell, each, leaf, ones, many, simple }
}

impl GraphCell {
    /// Returns a cell with its own tables and ports.
    ///
    /// # Panics
    /// If the network does not have the cell.
    #[must_use]
    pub fn new(network: &Network, cell: Kind) -> Self {
        let declared = &network[cell];
        let rows = declared.tables().iter().map(|table| table.name.clone()).collect();
        let named = |arity| {
            let ports = declared.ports().iter().filter(move |port| port.arity == arity);
            ports.map(|port| port.name.clone())
        };
        let (ones, many) = (named(Arity::One).collect(), named(Arity::Many).next());
        Self { cell, each: None, leaf: None, rows, ones, many }
    }
}

fn find(features: &[Feature<'_>], port: &str) -> Option<usize> {
    features.iter().position(|feature| feature.port == port)
}

/// Returns the index of a name; of equal names, the next one that is not used.
fn next(names: &[String], name: &str, used: &mut Vec<usize>) -> Option<usize> {
    let mut equal = (0..names.len()).filter(|&index| names[index] == name);
    let first = equal.clone().next();
    let index = equal.find(|index| !used.contains(index)).or(first);
    used.extend(index);
    index
}
