"""Graphs as arrays: the arguments of `dags`, and batches of other libraries."""

import types

import numpy as np
import pytest

import edbatch as ed

net = ed.Network()
x, edge, state = net.record("x", x=2), net.record("edge", e=3), net.record("state", h=2)
matrix = net.record("matrix", m=(2, 2))
absent = net.initial(state, h="absent")


@net.cell(state)
def node(c):
    return c.one("x", x).x + c.many("rest", state).sum()[0]


@net.cell(state)
def word(c):
    return c.lookup("word", "words", (7, 2)) + c.many("rest", state).sum()[0]


@net.cell(state)
def gate(c):
    return c.one("value", state).h + c.one("e", edge).e[0:2]


@net.cell(state)
def relation(c):
    return c.one("value", state).h * c.lookup("relation", "relations", (3, 2))


@net.cell(state)
def rotated(c):
    return c.one("m", matrix).m @ c.many("rest", state).sum()[0]


@net.cell(state)
def twice(c):
    return c.one("x", x).x + c.one("other", x).x


@net.cell(state)
def pool(c):
    return c.many("all", state).sum()[0]


engine = ed.Engine(net, ed.Weights.random(net, seed=1))
EDGES = [[0, 1, 2], [2, 2, 3]]
X = np.arange(8.0).reshape(4, 2)


def wired(**options):
    """The list of EDGES, or of other options."""
    given = {"cells": node, "kinds": None, "edges": EDGES, "features": {"x": X}, "absent": absent}
    (calls,) = ed.dags(net, **{**given, **options})
    return calls


def refused(error, text, **options):
    with pytest.raises(error) as caught:
        wired(**options)
    assert str(caught.value).startswith(text), caught.value


@pytest.mark.smoke
def test_lists_are_those_that_are_wired_by_hand():
    by_hand = ed.CallList(net)
    rows = [by_hand.give(x, row) for row in X]
    first = [by_hand.call(node, rows[v], [absent]) for v in (0, 1)]
    third = by_hand.call(node, rows[2], first)
    by_hand.emit(by_hand.call(node, rows[3], [third]))
    assert wired() == by_hand
    assert len(engine.run([wired()])[0]) == 1


@pytest.mark.smoke
def test_integers_of_any_type_and_layout():
    expected = wired()
    for dtype in (np.int8, np.uint16, np.int32, np.uint64, ">i4"):
        edges = np.array(EDGES, dtype)
        assert wired(edges=edges) == expected
        assert wired(edges=np.asfortranarray(edges)) == expected
        assert wired(edges=np.repeat(edges, 2, 1)[:, ::2]) == expected
        assert wired(kinds=np.zeros(4, dtype), ptr=np.array([0, 4], dtype)) == expected
    assert wired(edges=tuple(map(tuple, EDGES))) == expected
    edges = np.array(EDGES)
    edges.flags.writeable = False
    assert wired(edges=edges) == expected
    assert len(wired(edges=[[], []])) == 4


@pytest.mark.smoke
def test_the_number_of_nodes():
    options = {"features": None, "cells": word, "edges": [[0], [1]]}
    rows = [0, 1, 2, 3, 4]
    assert len(wired(**options, rows=rows)) == 5
    assert len(wired(edges=[[], []], ptr=[0, 4])) == 4
    assert ed.dags(net, node, None, [[], []], [0], features={"x": np.zeros((0, 2))}) == []
    empty, full = ed.dags(
        net, node, None, [[], []], [0, 0, 4], features={"x": X}, absent=absent, emit="all"
    )
    assert (len(empty), len(full)) == (0, 4)
    refused(ed.CallError, "ptr: expected the number of nodes", **options)
    for end in (-1, 2**28, 2**62):
        refused(ed.CallError, "ptr: ", **options, ptr=[0, end])


@pytest.mark.smoke
def test_emitted_nodes():
    values = engine.run([wired(emit="all")])[0]
    assert np.array_equal(engine.run([wired(emit=[3, 0, 3])])[0], values[[3, 0, 3]])
    mask = np.array([True, False, True, False])
    for bools in (mask, mask.tolist()):
        assert np.array_equal(engine.run([wired(emit=bools)])[0], values[mask])
    assert engine.run([wired(emit=[])])[0].shape == (0, 0)
    refused(ed.CallError, 'emit: expected "sinks", "all", a mask or numbers', emit="sink")
    refused(ed.CallError, "emit: expected 4 entries, got 2", emit=[True, False])
    refused(ed.CallError, "emit: node 4 does not exist", emit=[4])
    refused(TypeError, "emit: expected integers", emit=[0.5])


@pytest.mark.smoke
def test_edges_and_slots():
    e = np.arange(9.0).reshape(3, 3)
    edges = {"edge_cells": [gate, relation], "edge_kinds": [0, 1, 0], "edge_rows": [0, 2, 1]}
    calls = wired(**edges, edge_features={"e": e})
    assert len(calls) == 7
    slots = wired(features={"x": None}, ptr=[0, 4], **edges, edge_features={"e": None})
    assert [(record.name, rows) for record, rows in slots.to_arrays()[4]] == [("x", 4), ("edge", 3)]
    assert str(slots) == str(calls)
    refused(ed.CallError, "edge_kinds: expected 3 entries, got 1", **{**edges, "edge_kinds": [0]})
    refused(ed.CallError, "edge_kinds: expected a kind for each edge", edge_cells=[gate, relation])
    for option in ({"edge_kinds": [0]}, {"edge_rows": [0, 0, 0]}, {"edge_features": {"e": e}}):
        (name,) = option
        refused(ed.CallError, f"edge_cells: expected cells for {name}, got none", **option)
    refused(
        ed.CallError, "features: x and other are None and have one record, x",
        cells=twice, kinds=[0] * 4, features={"x": None, "other": None},
    )  # fmt: skip


@pytest.mark.smoke
def test_matrices_have_the_shape_of_the_record():
    options = {"cells": rotated, "edges": [[0], [1]]}
    square, flat = np.zeros((2, 2, 2)), np.zeros((2, 4))
    assert wired(**options, features={"m": square}) == wired(**options, features={"m": flat})
    for shape in ((2, 3), (2,), (2, 4, 1), (2, 1, 4)):
        text = "features m: expected rows of 4 elements, as record matrix has, got an array of "
        refused(ed.CallError, text, **options, features={"m": np.zeros(shape)})
    refused(ed.CallError, "features m: expected a matrix", **options, features={"m": 1.0})
    refused(ed.CallError, "features: expected a mapping", features=X)


@pytest.mark.smoke
def test_arguments_are_named():
    refused(TypeError, "edges: expected integers, got an array of float64", edges=[[0.5], [1]])
    refused(TypeError, "kinds: expected integers", kinds=[0.0] * 4)
    refused(TypeError, "rows: expected integers", rows=[True] * 4)
    refused(TypeError, "edge_rows: expected integers", edge_rows=["a"])
    refused(ed.CallError, "edges: expected an array of shape [2, edges]", edges=[0, 1])
    refused(ed.CallError, "edges: expected an array of shape [2, edges]", edges=[[0], [1], [2]])
    huge = np.array([[2**63], [0]], np.uint64)
    refused(ed.CallError, "edges: expected numbers below 2^63", edges=huge)
    refused(ed.CallError, "edge 0: node -1 does not exist", edges=[[-1], [0]])
    refused(ed.CallError, "kinds: expected 1 dimension", kinds=[[0]])
    refused(ed.CallError, "rows: expected 1 or 2 dimensions", rows=np.zeros((4, 1, 1), int))
    refused(ed.CallError, "kinds: expected a kind for each node", cells=[node, word])
    refused(ed.CallError, "features x: expected 3 rows, got 4", kinds=[0] * 3, edges=[[0], [1]])
    refused(ed.CallError, "absent: expected an initial value, got 0", absent=0)
    refused(ed.CallError, "absent: expected an initial value, got -2", absent=-2)
    refused(TypeError, "cells: expected a Cell or a list of them, got str", cells="node")
    refused(TypeError, "readout: expected a Cell, got int", readout=1)
    other = ed.Network()

    @other.cell(other.record("y", y=1))
    def foreign(c):
        return c.parameter("y", 1)

    refused(ed.CallError, "call of foreign: expected a cell of this network", cells=foreign)


class Tensor:
    """A tensor of another library."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


@pytest.mark.smoke
def test_batches_of_dgl():
    graph = types.SimpleNamespace(
        edges=lambda: (Tensor([0, 3, 1]), Tensor([1, 4, 2])),
        batch_num_nodes=lambda: Tensor([3, 2]),
        ndata={
            "feat": Tensor(np.ones((5, 2))), "kind": Tensor([0] * 5), "last": Tensor([True] * 5),
        },
        edata={"weight": Tensor(np.ones((3, 3)))},
    )
    lists = ed.from_dgl(
        net, [node], graph, kinds="kind", features={"x": "feat"}, edge_cells=gate,
        edge_features={"e": "weight"}, absent=absent, emit="last",
    )  # fmt: skip
    assert lists == ed.dags(
        net, node, None, [[0, 3, 1], [1, 4, 2]], [0, 3, 5], features={"x": np.ones((5, 2))},
        edge_cells=gate, edge_features={"e": np.ones((3, 3))}, absent=absent, emit="all",
    )  # fmt: skip
    with pytest.raises(KeyError, match="missing"):
        ed.from_dgl(net, node, graph, features={"x": "missing"}, absent=absent)
    with pytest.raises(KeyError, match="absent"):
        ed.from_dgl(net, node, graph, edge_cells=relation, edge_rows="absent")


@pytest.mark.smoke
def test_batches_of_pyg():
    data = types.SimpleNamespace(
        edge_index=Tensor(EDGES), x=Tensor(X), rows=Tensor([0, 1, 2, 3]), num_nodes=4, y=Tensor([3])
    )
    (calls,) = ed.from_pyg(net, node, data, features={"x": "x"}, absent=absent)
    assert calls == wired()
    options = {"features": {"x": "x"}, "rows": "rows", "emit": "y", "readout": pool}
    (calls,) = ed.from_pyg(net, node, data, absent=absent, **options)
    assert calls == wired(emit=[3], rows=[0, 1, 2, 3], readout=pool)
    for options in ({"rows": "no"}, {"features": {"x": "no"}}, {"kinds": "no"}, {"emit": "no"}):
        with pytest.raises(AttributeError, match="no"):
            ed.from_pyg(net, node, data, **options)
