"""Arguments, calls and warnings of `edbatch.torch.trace`."""

import re
import warnings

import numpy as np
import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn

from edbatch.torch import many, row, trace
from traced import KNOWS_FUNCTIONS, H, I, Fn, line_of, records


def test_types_of_parameters():
    net, _, state = records()
    for dtype in (torch.float64, torch.float16):
        with pytest.raises(TypeError, match="parameter node.weight: expected float32"):
            trace(net, "node", nn.Linear(H, H).to(dtype), [state], state)
    module = Fn(lambda m, s: s * m.b)
    module.register_buffer("b", torch.ones(H, dtype=torch.int64))
    with pytest.raises(TypeError, match="parameter node.b: expected float32"):
        trace(net, "node", module, [state], state)
    with pytest.raises(TypeError, match="on the CPU, got torch.float32 on meta"):
        trace(net, "node", nn.Linear(H, H, device="meta"), [state], state)
    assert not net.cells and not net.parameters


def test_arguments():
    net, word, state = records()
    linear = nn.Linear(H, H)
    for name in ("a b", "a.b", "", 3):
        with pytest.raises(ValueError, match="name: expected an identifier"):
            trace(net, name, linear, [state], state)
    with pytest.raises(TypeError, match="module: expected a torch.nn.Module, got function"):
        trace(net, "node", lambda x: x, [state], state)
    with pytest.raises(ValueError, match="at most one `many`"):
        trace(net, "node", nn.Bilinear(H, H, H), [many(state), many(state)], state)
    with pytest.raises(ValueError, match="ports: expected an entry for each argument of"):
        trace(net, "node", linear, [state, state], state)
    with pytest.raises(TypeError, match="ports: expected a Record, many.record. or row for input"):
        trace(net, "node", linear, ["state"], state)
    with pytest.raises(TypeError, match="many: expected a Record, got str"):
        many("state")
    assert repr(row) == "row" and not net.cells


def test_names_that_are_taken():
    net, word, state = records()
    linear = nn.Linear(H, H)
    trace(net, "node", linear, [state], state)
    with pytest.raises(ed.CellError, match="cell node: expected a unique name"):
        trace(net, "node", nn.Linear(H, H), [state], state)
    net.record("each.each", h=1)
    with pytest.raises(ed.CellError, match="record each.each: expected a unique name"):
        trace(net, "each", Fn(lambda m, h: h.exp().sum(0)), [many(state)], state)
    net.cell(state, "hand")(lambda c: c.parameter("other.weight", (H, 1)) @ c.constant(1, 1))
    with pytest.raises(
        ed.CellError, match=re.escape("expected [4, 4] as the module has, got [4, 1]")
    ):
        trace(net, "other", nn.Linear(H, H), [state], state)
    assert list(net.cells) == ["node", "hand"]


def test_records_of_another_network():
    net, word, state = records()
    other = records(c=H)[2]
    each = Fn(lambda m, h: h.exp().sum(0))
    for ports, record in (([many(other)], state), ([many(state)], other)):
        with pytest.raises(ed.CellError, match="expected a record of this network"):
            trace(net, "node", each, ports, record)
    assert not net.cells and list(net.records) == ["word", "state"]


def test_a_frozen_network():
    net, _, state = records()
    net.cell(state, "id")(lambda c: c.one("x", state).h)
    ed.CallList(net)
    with pytest.raises(RuntimeError, match="the network is frozen"):
        trace(net, "node", nn.Linear(H, H), [state], state)


def test_calls():
    net, word, state = records()
    module = Fn(lambda m, x, h: torch.logsumexp(h, 0) * m.k(x), k=nn.Linear(I, H))
    ports = [word, many(state)]
    cell = trace(net, "node", module, ports, state, forward=lambda m, x, h: m(x, h))
    assert repr(cell) == "<edbatch.torch.TracedCell node(a value for x, a list of values for h)>"
    calls = ed.CallList(net)
    x, s = calls.give(word, np.ones(I)), calls.give(state, np.ones(H))
    text = "call of node: expected 2 operands (a value for x, a list of values for h), got 1"
    with pytest.raises(ed.CallError, match=re.escape(text)):
        cell(calls, x)
    with pytest.raises(ed.CallError, match="h: expected at least one value, got none"):
        cell(calls, x, [])
    with pytest.raises(TypeError, match="h: expected a list of values, got int"):
        cell(calls, x, s)
    assert cell(calls, x, (value for value in [s, s])) == 2
    table = trace(net := ed.Network(), "t", nn.Embedding(3, 2), [row], net.record("r", h=2))
    with pytest.raises(ed.CallError, match=re.escape("expected 1 operand (a row of input), got 0")):
        table(ed.CallList(net))


def test_detach_warns():
    net, _, state = records()
    with pytest.warns(UserWarning, match="cell node: detach has no effect") as caught:
        trace(net, "node", Fn(lambda m, s: s.detach() * s), [state], state)  # at: detach
    place = caught[0].filename, caught[0].lineno
    assert place == (__file__, line_of(__file__, "detach")) or not KNOWS_FUNCTIONS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(net, "other", Fn(lambda m, s: s * torch.ones(H).detach()), [state], state)


def test_older_torch(monkeypatch):
    net, _, state = records()
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(ImportError, match=r"expected torch 2.6 or later, got 2.5.1\+cpu"):
        trace(net, "node", nn.Linear(H, H), [state], state)


def test_modules_keep_their_modes_and_the_generator_its_state():
    net, word, state = records()
    module = Fn(lambda m, x: m.drop(m.k(x)), k=nn.Linear(I, H), drop=nn.Dropout(0.5))
    module.k.eval()
    before = torch.get_rng_state()
    trace(net, "node", module, [word], state)
    assert module.training and not module.k.training and torch.equal(before, torch.get_rng_state())
