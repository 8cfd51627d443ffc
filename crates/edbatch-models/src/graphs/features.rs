//! Gives the rows of features, or declares their slots.

use std::ops::Range;

use edbatch_graph::{Network, RecordId, Shape};

use super::edges::Edges;
use super::error::invalid;
use super::{Feature, GraphCell, GraphError, Graphs};
use crate::{CallList, GiveError};

/// Gives the values of all features, of nodes before edges. Returns the place of each edge among
/// the edges of its graph, if edges have features.
pub(super) fn give(
    graphs: &Graphs<'_>,
    network: &Network,
    edges: &Edges<'_>,
    starts: &[usize],
    lists: &mut [CallList],
) -> Result<Vec<u32>, GraphError> {
    let Graphs { cells, edge_cells, features, edge_features, .. } = *graphs;
    let mut slots = Vec::new();
    for feature in features {
        let cells = cells.iter().chain(edge_cells);
        let record = record(network, "features", feature, graphs.kinds.len(), cells)?;
        slots.extend(feature.rows.is_none().then_some((feature.port, record)));
        for (list, ends) in lists.iter_mut().zip(starts.windows(2)) {
            give_rows(list, record, feature, ends[0]..ends[1])?;
        }
    }
    let (sources, mut counts) = (graphs.edges[0], vec![0; lists.len()]);
    let mut places = Vec::new();
    for &source in sources.iter().filter(|_| !edge_features.is_empty()) {
        let count = &mut counts[edges.graph(source)];
        places.push(*count);
        *count += 1;
    }
    let of_edges = if edge_cells.is_empty() { cells } else { edge_cells };
    for feature in edge_features {
        let record = record(network, "edge_features", feature, sources.len(), of_edges.iter())?;
        if feature.rows.is_none() {
            slots.push((feature.port, record));
            for (list, &count) in lists.iter_mut().zip(&counts) {
                give_rows(list, record, feature, 0..count as usize)?;
            }
            continue;
        }
        for (edge, &source) in sources.iter().enumerate() {
            give_rows(&mut lists[edges.graph(source)], record, feature, edge..edge + 1)?;
        }
    }
    for (index, (port, record)) in slots.iter().enumerate() {
        if let Some((other, _)) = slots[..index].iter().find(|(_, other)| other == record) {
            let record = &network.fields(*record).name;
            return invalid(format!(
                "features: {other} and {port} are None and have one record, {record}: expected \
                 elements for one of them"
            ));
        }
    }
    Ok(places)
}

/// Finds the record of a feature among cells, and checks its rows.
fn record<'c>(
    network: &Network,
    argument: &str,
    feature: &Feature<'_>,
    count: usize,
    cells: impl Iterator<Item = &'c GraphCell>,
) -> Result<RecordId, GraphError> {
    let argument = format!("{argument} {}", feature.port);
    let kinds = cells.flat_map(|cell| [Some(cell.cell), cell.each, cell.leaf]);
    let ports = kinds.flatten().flat_map(|kind| network[kind].ports());
    let mut records = ports.filter(|p| p.name == feature.port).map(|port| port.record);
    let Some(record) = records.next() else {
        return invalid(format!("{argument}: no cell has a port {}", feature.port));
    };
    let fields = network.fields(record);
    if let Some(other) = records.find(|&other| other != record) {
        let other = &network.fields(other).name;
        let ports = format!("expected ports of one record, got {} and {other}", fields.name);
        return invalid(format!("{argument}: {ports}"));
    }
    let Some((shape, elements)) = feature.rows else { return Ok(record) };
    let width: usize = fields.fields.iter().map(|field| field.shape.elements()).sum();
    let is_row = |row: &[usize]| match fields.fields.as_slice() {
        [only] if Shape::new(row) == Some(only.shape) => true,
        _ => row == [width],
    };
    match shape {
        [rows, ..] if *rows != count => {
            invalid(format!("{argument}: expected {count} rows, got {rows}"))
        }
        [_, row @ ..] if (is_row(row) || count == 0) && elements.len() == count * width => {
            Ok(record)
        }
        _ => {
            let name = &fields.name;
            invalid(format!(
                "{argument}: expected rows of {width} elements, as record {name} has, got an \
                 array of shape {shape:?}"
            ))
        }
    }
}

/// Gives rows of a feature, or declares its slots.
fn give_rows(
    list: &mut CallList,
    record: RecordId,
    feature: &Feature<'_>,
    rows: Range<usize>,
) -> Result<(), GiveError> {
    let Some((shape, elements)) = feature.rows else {
        return list.add_slots(record, rows.len()).map(drop);
    };
    let width = elements.len() / shape[0].max(1);
    list.give_rows(record, &elements[rows.start * width..rows.end * width], rows.len())
}
