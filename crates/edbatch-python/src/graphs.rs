//! Graphs as arrays: `_graphs.py` reads the arguments of `dags`, and this file calls the library.

use edbatch::graph::CallErrorReason;
use edbatch::models::{Feature, GraphCell, GraphEmit, GraphError, Graphs};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::call_list::CallList;
use crate::cell::Cell;
use crate::errors::CallError;
use crate::network::Network;

/// A cell. A traced one also has the cells of each predecessor and of nodes without predecessors,
/// and the names of its rows, of its ports for one value, and of the port of any number.
#[derive(FromPyObject)]
pub(crate) struct OneCell<'py> {
    cell: Bound<'py, Cell>,
    each: Option<Bound<'py, Cell>>,
    leaf: Option<Bound<'py, Cell>>,
    names: Option<(Vec<String>, Vec<String>, Option<String>)>,
}

impl OneCell<'_> {
    fn of(&self, network: &Network) -> PyResult<GraphCell> {
        let kind = |cell: &Bound<'_, Cell>| cell.get().kind_in(network);
        let mut of = GraphCell::new(&network.freeze(), kind(&self.cell)?);
        of.each = self.each.as_ref().map(kind).transpose()?;
        of.leaf = self.leaf.as_ref().map(kind).transpose()?;
        if let Some((rows, ones, many)) = self.names.clone() {
            (of.rows, of.ones, of.many) = (rows, ones, many);
        }
        Ok(of)
    }
}

/// The calls of nodes or edges.
#[derive(FromPyObject)]
pub(crate) struct Calls<'py> {
    cells: Vec<OneCell<'py>>,
    kinds: PyReadonlyArray1<'py, i64>,
    rows: Option<PyReadonlyArray2<'py, i64>>,
    features: Vec<(String, Option<PyReadonlyArrayDyn<'py, f32>>)>,
}

impl Calls<'_> {
    fn cells(&self, network: &Network) -> PyResult<Vec<GraphCell>> {
        self.cells.iter().map(|cell| cell.of(network)).collect()
    }

    fn rows(&self) -> PyResult<Option<(usize, &[i64])>> {
        let rows = self.rows.as_ref();
        rows.map(|rows| Ok((rows.shape()[1], rows.as_slice()?))).transpose()
    }

    fn features(&self) -> PyResult<Vec<Feature<'_>>> {
        let features = self.features.iter().map(|(port, array)| {
            let array = array.as_ref();
            let rows = array.map(|array| PyResult::Ok((array.shape(), array.as_slice()?)));
            Ok(Feature { port, rows: rows.transpose()? })
        });
        features.collect()
    }
}

/// The nodes whose values are emitted.
#[derive(FromPyObject)]
pub(crate) enum Emit<'py> {
    Mask(PyReadonlyArray1<'py, bool>),
    Nodes(PyReadonlyArray1<'py, i64>),
    All(bool),
}

/// Makes a list for each graph. The arrays are contiguous.
#[pyfunction]
#[pyo3(signature = (network, nodes, edges, edge_calls, ptr, absent, reverse, emit, readout, /))]
#[allow(clippy::too_many_arguments, reason = "each is an argument of `dags`")]
pub(crate) fn _dags(
    network: &Bound<'_, Network>,
    nodes: Calls<'_>,
    edges: PyReadonlyArray2<'_, i64>,
    edge_calls: Calls<'_>,
    ptr: Option<PyReadonlyArray1<'_, i64>>,
    absent: Option<i64>,
    reverse: bool,
    emit: Emit<'_>,
    readout: Option<OneCell<'_>>,
) -> PyResult<Vec<CallList>> {
    let inner = network.get().freeze();
    let (from, to) = edges.as_slice()?.split_at(edges.shape()[1]);
    let readout = readout.map(|cell| cell.of(network.get())).transpose()?;
    let graphs = Graphs {
        cells: &nodes.cells(network.get())?,
        kinds: nodes.kinds.as_slice()?,
        edges: [from, to],
        ptr: ptr.as_ref().map(|ptr| ptr.as_slice()).transpose()?,
        rows: nodes.rows()?,
        features: &nodes.features()?,
        absent,
        reverse,
        emit: match &emit {
            Emit::Mask(mask) => GraphEmit::Mask(mask.as_slice()?),
            Emit::Nodes(nodes) => GraphEmit::Nodes(nodes.as_slice()?),
            Emit::All(true) => GraphEmit::All,
            Emit::All(false) => GraphEmit::Sinks,
        },
        readout: readout.as_ref(),
        edge_cells: &edge_calls.cells(network.get())?,
        edge_kinds: edge_calls.kinds.as_slice()?,
        edge_rows: edge_calls.rows()?,
        edge_features: &edge_calls.features()?,
    };
    let lists = graphs.call_lists(&inner).map_err(|error| match &error {
        GraphError::Call { error: call, .. }
            if matches!(call.reason, CallErrorReason::Memory { .. }) =>
        {
            PyMemoryError::new_err(error.to_string())
        }
        _ => CallError::new_err(error.to_string()),
    })?;
    Ok(lists.into_iter().map(|list| CallList::of(network.clone().unbind(), list)).collect())
}
