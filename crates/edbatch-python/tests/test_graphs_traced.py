"""Graphs whose cells are traced modules: as when each node is called by hand."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import edbatch as ed  # noqa: E402
from edbatch.torch import many, row, trace  # noqa: E402

IN, H = 3, 4
EDGES = [[0, 1, 0, 1, 2], [2, 2, 3, 3, 3]]


class Sum(torch.nn.Module):
    """A gate for each child, which reads the node, and a sum: three cells."""

    def __init__(self):
        super().__init__()
        self.w, self.u = torch.nn.Linear(IN, H), torch.nn.Linear(H, H)

    def forward(self, x, below):
        gates = torch.sigmoid(self.u(below) + self.w(x))
        return torch.tanh(self.w(x) + (gates * below).sum(0))


class First(torch.nn.Module):
    """The first child apart, a row of a table, and the largest of the others: no leaf."""

    def __init__(self):
        super().__init__()
        self.embed, self.u = torch.nn.Embedding(7, H), torch.nn.Linear(H, H)

    def forward(self, first, word, below):
        return first + torch.relu(self.u(below) + self.embed(word) + first).amax(0)


class Pool(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.u = torch.nn.Linear(H, H)

    def forward(self, states):
        return torch.relu(self.u(states)).sum(0)


@pytest.fixture(scope="module")
def cells():
    net = ed.Network()
    word, state = net.record("word", x=IN), net.record("state", h=H)
    of = {
        "node": trace(net, "node", Sum(), [word, many(state)], state),
        "first": trace(net, "first", First(), [state, row, many(state)], state),
        "pool": trace(net, "pool", Pool(), [many(state)], state),
        "tanh": trace(net, "tanh", torch.nn.Tanh(), [state], state),
    }
    assert of["node"].each and of["node"].leaf and of["first"].each and not of["first"].leaf
    return net, word, of


def test_traced_nodes_and_readouts(cells):
    net, word, of = cells
    (calls,) = ed.dags(
        net, [of["node"], of["first"]], [0, 0, 0, 1], EDGES, features={"x": None},
        rows=[0, 0, 0, 5], emit="all", readout=of["tanh"],
    )  # fmt: skip
    hand = ed.CallList(net)
    x = hand.slots(word, 4)
    a, b = of["node"](hand, x[0], []), of["node"](hand, x[1], [])
    c = of["node"](hand, x[2], [a, b])
    d = of["first"](hand, a, 5, [b, c])
    hand.emit(*[of["tanh"](hand, value) for value in (a, b, c, d)])
    assert calls == hand

    (calls,) = ed.dags(
        net, of["node"], None, EDGES, [0, 4], features={"x": None}, emit="all", readout=of["pool"]
    )
    hand = ed.CallList(net)
    x = hand.slots(word, 4)
    a, b = of["node"](hand, x[0], []), of["node"](hand, x[1], [])
    c = of["node"](hand, x[2], [a, b])
    hand.emit(of["pool"](hand, [a, b, c, of["node"](hand, x[3], [a, b, c])]))
    assert calls == hand


def test_errors_of_traced_cells(cells):
    net, _, of = cells
    with pytest.raises(ed.CallError, match="edge_cells: expected none: the traced cell node has"):
        ed.dags(
            net, of["node"], [0, 0], [[0], [1]], features={"x": None}, edge_cells=of["tanh"]
        )
    text = r"node 0: cell first has 2 ports for predecessors \(first, below: any number\), got 0"
    with pytest.raises(ed.CallError, match=text):
        ed.dags(net, of["first"], [0, 0], [[0], [1]], rows=[0, 0])
