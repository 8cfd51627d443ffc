"""Graphs as arrays: reads the arguments of `dags`, and batches of other libraries."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays
from ._native import CallError, CallList, Cell, Network, _dags

__all__ = ["dags", "from_dgl", "from_pyg"]

#: The exclusive limit of the number of nodes: a list has at most 2^28 - 1 calls.
_MAX_NODES = 1 << 28

_Integers = npt.NDArray[np.int64]


class _Cell(NamedTuple):
    """A cell, and the other cells and the names of a traced one."""

    cell: Cell
    each: Cell | None = None
    leaf: Cell | None = None
    names: tuple[list[str], list[str], str | None] | None = None


class _Calls(NamedTuple):
    """The calls of nodes or edges."""

    cells: list[_Cell]
    kinds: _Integers
    rows: _Integers | None
    features: list[tuple[str, npt.NDArray[np.float32] | None]]


def dags(
    network: Network,
    cells: Any,
    kinds: Any,
    edges: Any,
    ptr: Any = None,
    *,
    rows: Any = None,
    features: Mapping[str, Any] | None = None,
    absent: int | None = None,
    reverse: bool = False,
    emit: Any = "sinks",
    readout: Any = None,
    edge_cells: Any = None,
    edge_kinds: Any = None,
    edge_rows: Any = None,
    edge_features: Mapping[str, Any] | None = None,
) -> list[CallList]:
    """Makes a call list for each of many directed acyclic graphs.

    Node ``v`` is a call of ``cells[kinds[v]]``; with one cell, ``kinds`` may be None. ``edges`` are
    integers ``[2, edges]``, sources and targets, in any order. A node reads the values of its
    predecessors in the order of ``edges``: first at its ``one`` ports, the rest at its ``many``
    port. Graph ``g`` has the nodes ``ptr[g]:ptr[g + 1]``; without ``ptr`` there is one graph.

    ``rows`` ``[nodes]`` or ``[nodes, k]`` are the rows of a cell's tables. ``features`` maps the
    name of a port to a matrix ``[nodes, width]`` whose rows go there, or to None for slots.
    ``absent`` is an initial value for a ``many`` port of a node without predecessors. With
    ``reverse``, values flow from targets to sources.

    ``emit`` is "sinks" (nodes that no node reads), "all", a mask of bools, or numbers of nodes.
    ``readout`` is a cell: with a ``one`` port it is called for each emitted value, with a ``many``
    port once for all of them, and its results are emitted.

    ``edge_cells`` are called for each edge, and replace the value of the source. Their ports take
    rows of ``edge_features``, rows of the ``features`` of the node that reads, and the source.

    Raises CallError, which names the graph and its cycle, the node, the edge or the argument.
    Raises TypeError for arrays of floats in the place of integers.
    """
    of_nodes, given = _cells("cells", cells), _features("features", features)
    counted = _optional("kinds", kinds, 1), _optional("ptr", ptr, 1), _rows("rows", rows)
    count = _count(*counted, given)
    pairs = _integers("edges", edges)
    if pairs.ndim != 2 or len(pairs) != 2:
        raise CallError(f"edges: expected an array of shape [2, edges], got shape {pairs.shape}")
    of_edges = _cells("edge_cells", edge_cells) if edge_cells is not None else []
    edge_kinds = _optional("edge_kinds", edge_kinds, 1)
    if edge_kinds is None:
        edge_kinds = _kinds("edge_kinds", "edge", of_edges, pairs.shape[1] if of_edges else 0)
    elif not of_edges:
        raise CallError("edge_cells: expected cells for edge_kinds, got none")
    nodes = counted[0] if counted[0] is not None else _kinds("kinds", "node", of_nodes, count)
    edge_given = _features("edge_features", edge_features)
    return _dags(
        network,
        _Calls(of_nodes, nodes, counted[2], given),
        pairs,
        _Calls(of_edges, edge_kinds, _rows("edge_rows", edge_rows), edge_given),
        counted[1],
        absent,
        bool(reverse),
        _emit(emit),
        None if readout is None else _cell("readout", readout),
    )


def from_pyg(
    network: Network, cells: Any, data: Any, *, kinds: Any = None, **options: Any
) -> list[CallList]:
    """Makes a call list for each graph of a batch of PyTorch Geometric, like `dags`.

    ``data`` has the attributes ``edge_index``, and ``ptr`` or ``num_nodes``. A string for ``kinds``
    or an option of `dags`, or as a value of ``features`` and ``edge_features``, is the name of an
    attribute.

    Raises AttributeError with the name of an attribute that is missing.
    """

    def of(_: str, name: str) -> Any:
        return getattr(data, name)

    ptr, count = getattr(data, "ptr", None), getattr(data, "num_nodes", None)
    if ptr is None and count is not None:
        ptr = [0, int(count)]
    kinds, options = _named({"kinds": kinds, **options}, of)
    return dags(network, cells, kinds, data.edge_index, ptr, **options)


def from_dgl(
    network: Network, cells: Any, graph: Any, *, kinds: Any = None, **options: Any
) -> list[CallList]:
    """Makes a call list for each graph of a batch of DGL, like `dags`.

    ``graph`` has the methods ``edges()`` and ``batch_num_nodes()``. A string for ``kinds`` or an
    option of `dags`, or as a value of ``features`` and ``edge_features``, is the name of an entry
    of ``ndata``, or of ``edata`` for options of edges.

    Raises KeyError with the name of an entry that is missing.
    """

    def of(option: str, name: str) -> Any:
        return (graph.edata if option.startswith("edge_") else graph.ndata)[name]

    ends = [_integers("edges", end) for end in graph.edges()]
    counts = _integers("batch_num_nodes", graph.batch_num_nodes())
    kinds, options = _named({"kinds": kinds, **options}, of)
    return dags(network, cells, kinds, np.stack(ends), [0, *np.cumsum(counts)], **options)


def _named(
    options: dict[str, Any], of: Callable[[str, str], Any]
) -> tuple[Any, dict[str, Any]]:
    """Replaces strings by what they name. Returns the kinds and the other options."""
    for option in ("kinds", "rows", "emit", "edge_kinds", "edge_rows"):
        value = options.get(option)
        if isinstance(value, str) and not (option == "emit" and value in ("sinks", "all")):
            options[option] = of(option, value)
    for option in ("features", "edge_features"):
        if options.get(option) is not None:
            options[option] = {
                port: of(option, value) if isinstance(value, str) else value
                for port, value in _arrays.items(option, options[option], CallError)
            }
    return options.pop("kinds"), options


def _cells(argument: str, cells: Any) -> list[_Cell]:
    several = isinstance(cells, Sequence)
    return [_cell(argument, cell) for cell in cells] if several else [_cell(argument, cells)]


def _cell(argument: str, cell: Any) -> _Cell:
    if isinstance(cell, Cell):
        return _Cell(cell)
    if hasattr(cell, "_of_graphs"):
        return _Cell(*cell._of_graphs())
    expected = "a Cell" if argument == "readout" else "a Cell or a list of them"
    raise TypeError(f"{argument}: expected {expected}, got {type(cell).__name__}")


def _kinds(argument: str, what: str, cells: list[_Cell], count: int) -> _Integers:
    if len(cells) > 1:
        raise CallError(
            f"{argument}: expected a kind for each {what}, because there are {len(cells)} cells"
        )
    return np.zeros(count, np.int64)


def _count(
    kinds: _Integers | None, ptr: _Integers | None, rows: _Integers | None, features: list[Any]
) -> int:
    """The number of nodes."""
    if kinds is not None:
        return len(kinds)
    if ptr is not None:
        count = int(ptr[-1]) if len(ptr) else 0
        if not 0 <= count < _MAX_NODES:
            raise CallError(f"ptr: expected at most {_MAX_NODES - 1} nodes, got {count}")
        return count
    for _, matrix in features:
        if matrix is not None:
            return len(matrix)
    if rows is not None:
        return len(rows)
    raise CallError("ptr: expected the number of nodes by kinds, ptr, features or rows")


def _features(
    argument: str, features: Mapping[str, Any] | None
) -> list[tuple[str, npt.NDArray[np.float32] | None]]:
    pairs = _arrays.items(argument, {} if features is None else features, CallError)
    read: list[tuple[str, npt.NDArray[np.float32] | None]] = []
    for port, values in pairs:
        matrix = None if values is None else _arrays.floats(f"{argument} {port}", values, CallError)
        if matrix is not None and matrix.ndim == 0:
            raise CallError(f"{argument} {port}: expected a matrix, got a single number")
        read.append((port, matrix))
    return read


def _rows(argument: str, rows: Any) -> _Integers | None:
    if rows is None:
        return None
    array = _integers(argument, rows)
    if array.ndim not in (1, 2):
        raise CallError(f"{argument}: expected 1 or 2 dimensions, got shape {array.shape}")
    return array[:, None] if array.ndim == 1 else array


def _optional(argument: str, values: Any, dimensions: int) -> _Integers | None:
    if values is None:
        return None
    array = _integers(argument, values)
    if array.ndim != dimensions:
        raise CallError(f"{argument}: expected {dimensions} dimension, got shape {array.shape}")
    return array


def _emit(emit: Any) -> bool | npt.NDArray[Any]:
    """The nodes: True for all of them, False for sinks."""
    if isinstance(emit, str):
        if emit not in ("sinks", "all"):
            raise CallError(
                f'emit: expected "sinks", "all", a mask or numbers of nodes, got {emit!r}'
            )
        return emit == "all"
    array = _arrays._array("emit", emit, CallError)
    array = np.ascontiguousarray(array) if array.dtype == bool else _integers("emit", array)
    if array.ndim != 1:
        raise CallError(f"emit: expected a mask or numbers of nodes, got shape {array.shape}")
    return array


def _integers(argument: str, values: Any) -> _Integers:
    """Returns integers of any type as an array of int64 in C order."""
    array = _arrays._array(argument, values, CallError)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{argument}: expected integers, got an array of {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() >= 1 << 63:
        raise CallError(f"{argument}: expected numbers below 2^63, got {array.max()}")
    return np.ascontiguousarray(array, np.int64).reshape(array.shape)
