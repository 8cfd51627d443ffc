//! Reads a call list from a line with a graph: `{"nodes": ["cell", …], "edges": [[0, 1], …], …}`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use edbatch_graph::Kind;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::visitors::{Items, MAX_CALLS, MAX_EMITTED, MAX_OPERANDS, push_elements};
use super::{CallList, JsonFault, LineReader};
use crate::json_fault::mismatch;
use crate::{Feature, GraphCell, GraphEmit, Graphs};

/// Returns true for a line with the member `nodes`.
pub(super) fn is_graph(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Nodes {
        nodes: Option<IgnoredAny>,
    }
    // Most lines are lists of calls, without such a name.
    text.contains("\"nodes\"")
        && serde_json::from_str::<Nodes>(text)
            .map_or(!text.contains("\"calls\""), |line| line.nodes.is_some())
}

/// For each node or edge, the rows of its tables.
type Table = List<Vec<i64>, MAX_OPERANDS>;

/// The members of a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with nodes")]
struct Line<'a> {
    #[serde(borrow)]
    nodes: List<Cow<'a, str>, MAX_CALLS>,
    calls: Option<IgnoredAny>,
    #[serde(default)]
    edges: List<[i64; 2], MAX_OPERANDS>,
    #[serde(default)]
    give: Rows,
    rows: Option<Table>,
    absent: Option<i64>,
    emit: Option<&'a RawValue>,
    readout: Option<Cow<'a, str>>,
    #[serde(default)]
    edge_cells: List<Cow<'a, str>, MAX_OPERANDS>,
    edge_rows: Option<Table>,
    #[serde(default)]
    edge_give: Rows,
    #[serde(default)]
    reverse: bool,
    targets: Option<List<Option<u32>, MAX_EMITTED>>,
}

impl LineReader {
    pub(super) fn read_graph(&self, text: &str) -> Result<CallList, JsonFault> {
        let fault = |error| JsonFault::of(text, 0, &error, "a graph");
        let line: Line<'_> = serde_json::from_str(text).map_err(fault)?;
        if line.calls.is_some() {
            return Err(JsonFault::new(text, 0, "nodes or calls", "both"));
        }
        let misfit = |got: String| {
            // Not shortened: the text names a node or an argument.
            JsonFault { got, ..JsonFault::new(text, 0, "a graph that fits its cells", "") }
        };
        let (cells, kinds) = self.cells(text, &line.nodes.0)?;
        let (edge_cells, edge_kinds) = self.cells(text, &line.edge_cells.0)?;
        let (readout, _) = self.cells(text, line.readout.as_slice())?;
        let end = |end: usize| line.edges.0.iter().map(|edge| edge[end]).collect::<Vec<i64>>();
        let (from, to) = (end(0), end(1));
        let filled = |rows: Option<Table>| {
            let filled = rows.map(|rows| filled(&rows.0)).transpose();
            filled.map_err(|expected| JsonFault::new(text, 0, expected, "more"))
        };
        let (rows, edge_rows) = (filled(line.rows)?, filled(line.edge_rows)?);
        let emitted: List<i64, MAX_EMITTED>;
        let emit = match line.emit.map(RawValue::get) {
            None | Some("\"sinks\"") => GraphEmit::Sinks,
            Some("\"all\"") => GraphEmit::All,
            Some(raw) => {
                let start = raw.as_ptr() as usize - text.as_ptr() as usize;
                let expected = "\"sinks\", \"all\" or a list of nodes";
                let fault = |error| JsonFault::of(text, start, &error, expected);
                emitted = serde_json::from_str(raw).map_err(fault)?;
                GraphEmit::Nodes(&emitted.0)
            }
        };
        let graphs = Graphs {
            cells: &cells,
            kinds: &kinds,
            edges: [&from, &to],
            rows: rows.as_ref().map(|(width, rows)| (*width, rows.as_slice())),
            features: &line.give.features(&kinds),
            absent: line.absent,
            reverse: line.reverse,
            emit,
            readout: readout.first(),
            edge_cells: &edge_cells,
            edge_kinds: &edge_kinds,
            edge_rows: edge_rows.as_ref().map(|(width, rows)| (*width, rows.as_slice())),
            edge_features: &line.edge_give.features(&kinds),
            ..Graphs::default()
        };
        let lists = graphs.call_lists(self.empty.network());
        let lists = lists.map_err(|error| misfit(error.to_string()))?;
        let mut list = lists.into_iter().next().expect("one graph");
        let targets = list.set_targets(line.targets.map(|targets| targets.0));
        targets.map_err(|error| misfit(error.to_string()))?;
        Ok(list)
    }

    /// Finds the cells that are called, and the index of each call's cell among them.
    fn cells(
        &self,
        text: &str,
        names: &[Cow<'_, str>],
    ) -> Result<(Vec<GraphCell>, Vec<i64>), JsonFault> {
        let mut indices = vec![None; self.kinds.len()];
        let mut cells = Vec::new();
        let index = |name: &Cow<'_, str>| {
            let place = self.kinds.binary_search_by(|(known, _)| super::by_length(known, name));
            let missing = |_| JsonFault::new(text, 0, "a cell of the network", format!("{name:?}"));
            let place = place.map_err(missing)?;
            Ok(*indices[place].get_or_insert_with(|| {
                let kind: Kind = self.kinds[place].1;
                cells.push(GraphCell::new(self.network(), kind));
                cells.len() as i64 - 1
            }))
        };
        let kinds = names.iter().map(index).collect::<Result<_, JsonFault>>()?;
        Ok((cells, kinds))
    }
}

/// Fills lists of rows up to the length of the longest, or returns the limit of their sizes.
fn filled(rows: &[Vec<i64>]) -> Result<(usize, Vec<i64>), String> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    if width * rows.len() > MAX_OPERANDS {
        return Err(format!("at most {MAX_OPERANDS} operands"));
    }
    let mut filled = vec![Graphs::NO_ROW; width * rows.len()];
    for (filled, row) in filled.chunks_exact_mut(width).zip(rows) {
        filled[..row.len()].copy_from_slice(row);
    }
    Ok((width, filled))
}

/// A list with a maximum number of items.
struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Items(|| PhantomData::<T>, "items", MAX).deserialize(from).map(Self)
    }
}

/// The port, the shape and the elements of features, in order: `{"port": [[element, …], …]}`.
#[derive(Default)]
struct Rows(Vec<(String, [usize; 2], Vec<f32>)>);

impl Rows {
    /// The features of nodes of these kinds. A graph without nodes calls no cell with their ports.
    fn features(&self, kinds: &[i64]) -> Vec<Feature<'_>> {
        let rows = self.0.iter().filter(|rows| rows.1[0] > 0 || !kinds.is_empty());
        rows.map(|(port, shape, row)| Feature { port, rows: Some((shape, row)) }).collect()
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Rows {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, {\"port\": [[element, …], …]}")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(port) = map.next_key::<String>()? {
            let List::<&RawValue, MAX_OPERANDS>(rows) = map.next_value()?;
            let (mut elements, mut width) = (Vec::new(), 0);
            for (index, row) in rows.iter().enumerate() {
                push_elements::<A::Error>(row.get(), &mut elements, &port)?;
                width = if index == 0 { elements.len() } else { width };
                if elements.len() != (index + 1) * width {
                    let expected = format_args!("rows of {width} elements for {port}");
                    return Err(mismatch(expected, format_args!("another number in row {index}")));
                }
            }
            self.0.push((port, [rows.len(), width], elements));
        }
        Ok(self)
    }
}
