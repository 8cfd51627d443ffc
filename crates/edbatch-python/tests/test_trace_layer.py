"""The parameters of traced modules in a Layer, and traced cells beside cells declared by hand."""

import copy
import io
import json
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn

import edbatch as ed
from edbatch.torch import Layer, many, trace
from test_trace import SIZES, TREES, ChildSum, traced_sum, tree_build
from traced import H, I, Fn, close, close_gradients, numbers, records


def tree_lstm(module=None, **options):
    net, word, state = records(h=H, c=H)
    torch.manual_seed(0)
    module = module or ChildSum()
    cell = traced_sum(net, module, word, state)
    return module, cell, Layer(net, tree_build(cell), ("word",), **options)


def words():
    return [numbers(i, n, I) for i, n in enumerate(SIZES)]


def loss(layer):
    return torch.cat(layer(TREES, words())).square().sum()


@pytest.mark.smoke
def test_parameters_are_those_of_the_module():
    module, _, layer = tree_lstm()
    assert layer.node is module
    names = [f"node.{name}" for name, _ in module.named_parameters()]
    assert sorted(layer._shared.network.parameters) == sorted(names) == sorted(layer.state_dict())
    for ours, theirs in zip(layer.parameters(), module.parameters(), strict=True):
        assert ours is theirs
    before = loss(layer).item()
    with torch.no_grad():
        module.fx.bias.add_(1)
    assert loss(layer).item() != before


def test_checkpoints_of_the_module_load_with_a_prefix():
    module, _, layer = tree_lstm()
    other = ChildSum()
    layer.load_state_dict({f"node.{name}": value for name, value in other.state_dict().items()})
    assert torch.equal(module.fx.weight, other.fx.weight)
    layer.node.load_state_dict(other.state_dict())


def test_groups_of_an_optimizer():
    module, _, layer = tree_lstm()
    slow = [p for name, p in layer.named_parameters() if name.endswith("bias")]
    fast = [p for name, p in layer.named_parameters() if not name.endswith("bias")]
    optimizer = torch.optim.SGD([{"params": fast, "lr": 0.1}, {"params": slow, "lr": 0.0}])
    before = copy.deepcopy(module.state_dict())
    loss(layer).backward()
    optimizer.step()
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]) == name.endswith("bias")


def test_frozen_parameters():
    module, _, layer = tree_lstm()
    module.fx.requires_grad_(False)
    loss(layer).backward()
    assert module.fx.weight.grad is None and module.fh.weight.grad is not None


def test_tied_parameters():
    net, _, state = records()
    linear = nn.Linear(H, H)
    module = Fn(lambda m, s: m.b(torch.tanh(m.a(s))), a=linear, b=linear)
    node = trace(net, "node", module, [state], state)
    again = trace(net, "again", linear, [state], state)
    assert list(net.parameters) == ["node.a.weight", "node.a.bias"]
    layer = Layer(net, lambda b, _, s: b.emit(again(b, node(b, *s))), ("state",))
    assert len(list(layer.parameters())) == 2 and layer.again is layer.node.a
    assert set(layer.state_dict()) == {
        f"{path}.{name}" for path in ("node.a", "node.b", "again") for name in ("weight", "bias")
    }
    s = numbers(1, 1, H)
    (got,), want = layer([None], [s]), linear(module(s[0]))[None]
    close(got, want)
    close_gradients(got, want, list(layer.parameters()))


def test_scalars_and_rows_are_reshaped():
    net, _, state = records()
    module = Fn(
        lambda m, s: m.scale * s + m.row[0] + m.cube[0, 0],
        scale=torch.tensor(2.0),
        row=numbers(1, 1, H),
        cube=numbers(2, 1, 1, H),
    )
    node = trace(net, "node", module, [state], state)
    assert net.parameters == {"node.scale": (1,), "node.row": (1, H), "node.cube": (H,)}
    layer = Layer(net, lambda b, _, s: b.emit(node(b, *s)), ("state",))
    got, want = layer([None], [numbers(3, 1, H)])[0], module(numbers(3, 1, H)[0])[None]
    close(got, want)
    close_gradients(got, want, list(module.parameters()))


def test_buffers_are_read_and_not_trained():
    net, _, state = records()
    module = Fn(lambda m, s: m.fixed * s * m.unused_not)
    module.register_buffer("fixed", numbers(1, H))
    module.register_buffer("unused_not", torch.ones(H))
    module.register_buffer("unused", torch.ones(2, dtype=torch.int64))
    node = trace(net, "node", module, [state], state)
    layer = Layer(net, lambda b, _, s: b.emit(node(b, *s)), ("state",))
    assert set(net.parameters) == {"node.fixed", "node.unused_not"}
    assert not list(layer.parameters()) and "node.unused" in layer.state_dict()
    s = numbers(2, 1, H).requires_grad_()
    layer([None], [s])[0].sum().backward()
    close(s.grad[0], module.fixed)
    module.fixed.zero_()
    assert not layer([None], [s])[0].any()


def test_train_and_eval():
    net, _, state = records()
    module = Fn(lambda m, s: m.drop(s), drop=nn.Dropout(0.5))
    node = trace(net, "node", module, [state], state)
    layer = Layer(net, lambda b, _, s: b.emit(node(b, *s)), ("state",))
    ones = torch.ones(1, H)
    assert module.training and {0.0, 2.0} == set(
        torch.cat([layer([0], [ones])[0] for _ in range(9)]).flatten().tolist()
    )
    layer.eval()
    assert not module.training and torch.equal(layer([0], [ones])[0], ones)
    net, _, state = records()
    with pytest.warns(UserWarning, match=r"drop: no dropout, also after `train\(\)`"):
        trace(net, "node", module.eval(), [state], state)
    assert not net.has_dropout


def reparametrized(kind):
    linear = nn.Linear(I, H)
    if kind == "weight_norm":
        nn.utils.parametrizations.weight_norm(linear)
    elif kind == "older weight_norm":
        with pytest.warns(FutureWarning):
            nn.utils.weight_norm(linear)
    elif kind == "orthogonal":
        nn.utils.parametrizations.orthogonal(linear)
    elif kind == "prune":
        from torch.nn.utils import prune

        prune.l1_unstructured(linear, "weight", amount=3)
    return linear


@pytest.mark.parametrize("kind", ["weight_norm", "older weight_norm", "orthogonal", "prune"])
def test_parametrizations(kind):
    net, word, state = records()
    module = Fn(lambda m, x, h: m.k(x) + h.sum(0), k=reparametrized(kind))
    node = trace(net, "node", module, [word, many(state)], state)
    assert set(net.parameters) == {"node.k.weight", "node.k.bias"}
    layer = Layer(net, lambda b, _, x, s: b.emit(node(b, x[0], s)), ("word", "state"))
    assert set(layer.state_dict()) == {f"node.{name}" for name in module.state_dict()}
    x, s = numbers(1, 1, I), numbers(2, 2, H)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(2):
        (got,), want = layer([None], [x], [s]), module(x[0], s)[None]
        close(got, want)
        close_gradients(got, want, list(module.parameters()))
        optimizer.zero_grad()
        layer([None], [x], [s])[0].square().sum().backward()
        optimizer.step()


def test_parametrization_after_the_trace():
    module, _, layer = tree_lstm()
    before = loss(layer).item()
    nn.utils.parametrizations.weight_norm(module.fx)
    close(loss(layer), torch.tensor(before))
    loss(layer).backward()
    assert module.fx.parametrizations.weight.original0.grad is not None


def test_weights_fill_the_module():
    network = tree_lstm()[2]._shared.network
    weights = ed.Weights.random(network, seed=7)
    module, _, _ = tree_lstm(weights=weights)
    assert np.array_equal(module.fx.weight.detach(), weights["node.fx.weight"])
    normed = ChildSum()
    nn.utils.parametrizations.weight_norm(normed.fx)
    tree_lstm(normed, weights=weights)
    close(normed.fx.weight, torch.from_numpy(weights["node.fx.weight"]))


def test_cells_of_ones_own_stand_beside():
    module = ChildSum()
    net, word, state = records(h=H, c=H)
    cell = traced_sum(net, module, word, state)

    @net.cell(net.record("output", y=2))
    def output(c):
        h = c.one("state", state).h
        return c.parameter("output.w", (2, H)) @ (c.parameter("node.fh.weight", (H, H)) @ h)

    def build(b, tree, x):
        def wire(tree):
            return cell(b, x[tree[0]], [wire(child) for child in tree[1]])

        b.emit(b.call(output, wire(tree)))

    layer = Layer(net, build, ("word",))
    assert layer.output.w.shape == (2, H) and layer.node.fh is module.fh
    loss(layer).backward()
    assert module.fh.weight.grad.any() and layer.output.w.grad.any()


def test_names_that_a_layer_cannot_have():
    net, _, state = records()
    trace(net, "forward", nn.Linear(H, H), [state], state)
    with pytest.raises(ValueError, match="cell forward: expected a name that torch.nn.Module"):
        Layer(net)
    net, _, state = records()
    trace(net, "node", nn.Linear(H, H), [state], state)
    net.cell(state, "other")(lambda c: c.parameter("node.other", H))
    with pytest.raises(ValueError, match="parameter node.other: node is a traced module"):
        Layer(net)


def test_copies_and_pickles_of_a_layer():
    module, _, layer = tree_lstm()
    copied = copy.deepcopy(layer)
    assert copied.node is not module
    close(loss(copied), loss(layer))
    with torch.no_grad():
        copied.node.fx.bias.add_(1)
    assert loss(copied).item() != loss(layer).item()
    net, _, state = records()
    trace(net, "node", nn.Linear(H, H), [state], state)
    plain = Layer(net)
    calls = ed.CallList(plain._shared.network)
    calls.emit(calls.call(net.cells["node"], calls.give(state, np.ones(H))))
    again = pickle.loads(pickle.dumps(plain))
    assert list(again.state_dict()) == ["node.weight", "node.bias"]
    list_again = pickle.loads(pickle.dumps(calls))
    assert torch.equal(again([list_again])[0], plain([calls])[0])
    torch.save(plain.state_dict(), io.BytesIO())


class Model(nn.Module):
    """A model that keeps its cell."""

    def __init__(self):
        super().__init__()
        net, _, state = records()
        self.node = trace(net, "node", nn.Linear(H, H), [state], state)
        self.layer = Layer(net)

    def forward(self, values):
        calls = ed.CallList(self.layer._shared.network)
        state = calls.give(self.layer._shared.network.records["state"], values)
        calls.emit(self.node(calls, state))
        return self.layer([calls])[0]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_and_pickles_of_a_model_with_a_cell(again):
    model = Model()
    other = again(model)
    assert other.node.module is other.layer.node is not model.layer.node
    values = np.ones(H, np.float32)
    close(other(values), model(values))
    with torch.no_grad():
        other.layer.node.bias.add_(1)
    close(other(values), model(values) + 1)


def test_a_network_that_was_read_has_plain_parameters():
    _, cell, layer = tree_lstm()
    network = ed.Network.from_json(layer.network.to_json())
    other = Layer(network)
    assert sorted(other.state_dict()) == sorted(layer.state_dict())
    assert type(other.node) is nn.Module


def by_hand(net, word, state):
    """The cells of `ChildSum` without a tracer."""

    def linear(c, name, x, rows):
        w, b = c.parameter(f"{name}.weight", (rows, x.shape[0])), c.parameter(f"{name}.bias", rows)
        return w @ x + b

    def update(c, x, sums, fc):
        iou = linear(c, "node.ioux", x, 3 * H) + sums
        i, o, u = (iou[part * H : (part + 1) * H] for part in range(3))
        cell = i.sigmoid() * u.tanh()
        cell = cell if fc is None else cell + fc
        return o.sigmoid() * cell.tanh(), cell

    made = net.record("node.each", h=H, v0=H)

    @net.cell(made, "node.each")
    def each(c):
        x, below = c.one("x", word).x, c.one("s", state)
        f = (linear(c, "node.fh", below.h, H) + linear(c, "node.fx", x, H)).sigmoid()
        return below.h, f * below.c

    @net.cell(state)
    def node(c):
        x, below = c.one("x", word).x, c.many("s", made).sum()
        return update(c, x, linear(c, "node.iouh", below.h, 3 * H), below.v0)

    @net.cell(state, "node.leaf")
    def leaf(c):
        return update(c, c.one("x", word).x, c.parameter("node.iouh.bias", 3 * H), None)

    def build(b, tree, words):
        def wire(tree):
            x, below = words[tree[0]], [wire(child) for child in tree[1]]
            if not below:
                return b.call(leaf, x)
            return b.call(node, x, [b.call(each, x, child) for child in below])

        b.emit(wire(tree))

    return build


def without_times(figures):
    if isinstance(figures, list):
        return [without_times(each) for each in figures]
    if not isinstance(figures, dict):
        return figures
    kept = figures.keys() - {"nanoseconds", "compile_microseconds"}
    return {key: without_times(figures[key]) for key in kept}


def test_as_cheap_as_cells_by_hand(tmp_path, capfd):
    layer = tree_lstm()[2]
    net, word, state = records(h=H, c=H)
    hand = Layer(net, by_hand(net, word, state), ("word",))
    hand.load_state_dict(layer.state_dict())
    engines, figures, graphs = [], [], []
    for number, side in enumerate((layer, hand)):
        network, weights = side._shared.network, ed.Weights(side.state_dict())
        word, build = network.records["word"], side._shared.build

        def wire(b, item, word=word, build=build):
            build(b, item[0], [b.give(word, row) for row in item[1]])

        engine = ed.Engine(network, weights, wire, counts=True)
        engine.run([(tree, x.numpy()) for tree, x in zip(TREES, words(), strict=True)])
        engines.append(engine)
        graphs.append(
            [len(graph) for graph in engine.graphs(list(zip(TREES, words(), strict=True)))]
        )
        ed.save(tmp_path / str(number), network, weights)
        ed._native.run_command(["edbatch", "cells", str(tmp_path / str(number)), "--json"])
        figures.append(json.loads(capfd.readouterr().out))
    assert graphs[0] == graphs[1]
    for name in ("graphs", "nodes", "batches", "gathered_bytes", "arena_bytes", "weight_bytes"):
        assert getattr(engines[0].statistics, name) == getattr(engines[1].statistics, name), name
    assert engines[0].report().kinds == engines[1].report().kinds
    assert without_times(figures[0]) == without_times(figures[1])
    close(loss(layer), loss(hand))
