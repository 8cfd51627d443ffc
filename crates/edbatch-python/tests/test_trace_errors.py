"""What `edbatch.torch.trace` refuses, with the operation, the user's line and the way out."""

import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn
from torch.nn import functional as F

from edbatch.torch import TraceError, many, row, trace
from traced import KNOWS_FUNCTIONS, H, Fn, line_of, numbers, records


def refused(module, ports="wm", results=None, **options):
    """Returns the error of a trace, which leaves the network as it was."""
    net, word, state = records()
    kinds = {"w": word, "s": state, "m": many(state), "r": row}
    before = net.to_json()
    with pytest.raises(TraceError) as caught:
        trace(net, "node", module, [kinds[port] for port in ports], results or state, **options)
    assert isinstance(caught.value, ed.CellError) and str(caught.value).startswith("cell node: ")
    assert net.to_json() == before
    return caught.value


def at(error, mark, op=None):
    """Checks the line and the operation of an error."""
    assert error.filename == __file__ and error.lineno == line_of(__file__, mark) and error.op == op
    assert f"at {__file__}:{error.lineno}, " in str(error)
    assert op is None or f"cell node: {op}, " in str(error)


class Cumulative(nn.Module):
    def forward(self, x, h):
        y = h.sum(0)
        return y.cumsum(0)  # at: cumsum


class Branch(nn.Module):
    def forward(self, x, h):
        y = h.sum(0)
        if y.sum() > 0:  # at: branch
            y = -y
        return y


class Loop(nn.Module):
    def forward(self, x, h):
        y = torch.zeros(H)
        for k in range(h.shape[0]):
            y = torch.tanh(y + h[k])  # at: loop
        return y


class Twice(nn.Module):
    def forward(self, x, h):
        mean = h.mean(0)
        return ((h - mean) ** 2).sum(0)  # at: twice


class PerChild(nn.Module):
    def forward(self, x, h):
        return h * 2  # at: each


class Unread(nn.Module):
    def forward(self, x, h):  # at: unread
        return torch.cat([x, x])[:H]


class Wide(nn.Module):
    def forward(self, x, h):
        return h.sum(0)[:3]  # at: shape


class Raises(nn.Module):
    def forward(self, x, h):
        return self.missing(h)  # at: raises


class Constant(nn.Module):
    def forward(self, x, h):
        return h.sum(0) * torch.arange(4.0).add(1)  # at: constant


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.tensor([1.0, 0.0, 1.0, 0.0])

    def forward(self, x, h):
        return h.sum(0) * self.mask  # at: attribute


class Counts(nn.Module):
    def forward(self, x, h):  # at: counts
        return h.sum(0) / len(h)


class Chooses(nn.Module):
    def forward(self, x, h):  # at: chooses
        return h.sum(0) if len(h) < 3 else h.max(0).values


class Changes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(H))

    def forward(self, x, h):
        self.count.add_(1)  # at: changes
        return h.sum(0) + self.count


@pytest.mark.smoke
@pytest.mark.parametrize(
    "module, mark, op, text",
    [
        (Cumulative(), "cumsum", "aten.cumsum.default", "cells have no such operation"),
        (Branch(), "branch", None, "the value of a tensor decides what runs next"),
        (Loop(), "loop", "aten.select.int", "children cannot be taken one by one"),
        (Twice(), "twice", "aten.sub.Tensor", "children are read again after a reduction"),
        (PerChild(), "each", None, "result h: a tensor [children, 4] of each of the children"),
        (Unread(), "unread", None, "port h: the children are never reduced"),
        (Wide(), "shape", None, "result h: expected the shape [4] of the field, got [3]"),
        (Raises(), "raises", None, "AttributeError: 'Raises' object has no attribute 'missing'"),
        (Raises(), "raises", None, "stands for the number of children)"),
        (Constant(), "constant", "aten.arange.default", "cells have no such operation"),
        (Attribute(), "attribute", "aten.mul.Tensor", "make it a buffer by `register_buffer`"),
        (Counts(), "counts", None, "with 1 children, the cell computes something else"),
        (Chooses(), "chooses", None, "with 2 children, the cell computes something else"),
        (Changes(), "changes", None, "the module changes count in place"),
    ],
)
def test_errors_name_the_line(module, mark, op, text):
    error = refused(module)
    at(error, mark, op)
    assert text in str(error)


def helper(y):
    return y.cumprod(0)  # at: helper


def test_lines_of_functions_that_forward_calls():
    error = refused(Fn(lambda m, x, h: helper(h.sum(0))))
    assert error.op == "aten.cumprod.default"
    if KNOWS_FUNCTIONS:
        assert error.lineno == line_of(__file__, "helper")


#: Functions of two states, or of a word and children: the operation, and words of the error.
OPERATIONS = {
    "sort": (
        "ss",
        lambda m, a, b: (a + b).sort().values,
        "aten.sort.default",
        "outside of the cell",
    ),
    "where": ("ss", lambda m, a, b: torch.where(a > 0, a, b), "aten.gt.Scalar", "use relu, clamp"),
    "eq": ("ss", lambda m, a, b: (a == b).float(), "aten.eq.Tensor", "use relu, clamp"),
    "index": ("ss", lambda m, a, b: a[[0, 2, 1, 1]], "aten.index.Tensor", "by slices"),
    "gather": (
        "ss",
        lambda m, a, b: a.gather(0, torch.tensor([0, 2, 1, 1])),
        "aten.gather.default",
        "by slices",
    ),
    "conv": (
        "ss",
        lambda m, a, b: F.conv1d(a[None, None], b[None, None, :1])[0, 0],
        "aten.conv1d.default",
        "use nn.Linear",
    ),
    "einsum": ("ss", lambda m, a, b: torch.einsum("i,i->i", a, b), "aten.einsum.default", "`sum`"),
    "rand": ("ss", lambda m, a, b: a + torch.rand(H), "aten.rand.default", "use nn.Dropout"),
    "batch_norm": (
        "ss",
        lambda m, a, b: F.batch_norm(a[None], b, b * b)[0],
        "batch_norm",  # The rest of the name depends on the version of torch.
        "use layer_norm or rms_norm",
    ),
    "pow": (
        "ss",
        lambda m, a, b: a**1.7,
        "aten.pow.Tensor_Scalar",
        "the power 1.7: expected one of",
    ),
    "floor": (
        "ss",
        lambda m, a, b: torch.div(a, b, rounding_mode="floor"),
        "aten.div.Tensor_mode",
        "a rounded quotient",
    ),
    "step": ("ss", lambda m, a, b: a[::2].sum() * b, "aten.slice.Tensor", "expected a step of 1"),
    "repeat": ("ss", lambda m, a, b: a[:2].repeat(2), "aten.repeat.default", "use cat"),
    "type": ("ss", lambda m, a, b: a.double().float(), "aten.to.dtype", "expected float32"),
    "three dimensions": (
        "ss",
        lambda m, a, b: a.view(2, 2, 1).expand(2, 2, 3).sum((1, 2)).repeat(1, 1),
        "aten.expand.default",
        "at most two dimensions",
    ),
    "batches": (
        "ss",
        lambda m, a, b: (a.view(2, 1, 2) @ m.cube.view(2, 2, 2)).flatten(),
        "aten.view.default",
        "at most two dimensions",
    ),
    "maximum of elements": (
        "ss",
        lambda m, a, b: a.amax(0) * b,
        "aten.amax.default",
        "only sum and",
    ),
    "without gradients": (
        "ss",
        lambda m, a, b: m.frozen(a) + b,
        None,
        "take `torch.no_grad()` out",
    ),
    "mask": (
        "wm",
        lambda m, x, h: F.scaled_dot_product_attention(h.sum(0)[None], h, h, is_causal=True)[0],
        "aten.scaled_dot_product_attention.default",
        "attention with is_causal",
    ),
    "queries": (
        "wm",
        lambda m, x, h: F.scaled_dot_product_attention(torch.stack([x, x]), h[:, :3], h)[0],
        "aten.scaled_dot_product_attention.default",
        "expected one query of the node",
    ),
    "attention among children": (
        "wm",
        lambda m, x, h: ((h @ h.t()).softmax(1) @ h).sum(0),
        "aten.matmul.default",
        "of each child with each other",
    ),
    "iteration": ("wm", lambda m, x, h: sum(h), "aten.unbind.int", "children cannot be taken one"),
    "slice of children": ("wm", lambda m, x, h: h[:1].sum(0), "aten.slice.Tensor", "one by one"),
    "cat of children": (
        "wm",
        lambda m, x, h: torch.cat([h, h[:, :1].repeat(1, 4)]).sum(0),
        "aten.cat.default",
        "children cannot be concatenated",
    ),
    "flat children": ("wm", lambda m, x, h: h.flatten()[:4], "aten.flatten.using_ints", "mixes"),
    "norm of children": (
        "wm",
        lambda m, x, h: F.layer_norm(h.t(), (h.shape[0],)).sum(1),
        "aten.layer_norm.default",
        "layer_norm over the children",
    ),
    "log_softmax": (
        "wm",
        lambda m, x, h: F.log_softmax(h, 0).sum(0),
        "aten.log_softmax.int",
        "log_softmax over the children",
    ),
    "weights alone": (
        "wm",
        lambda m, x, h: torch.softmax(h, 0).max(0).values,
        "aten.max.dim",
        "a softmax over the children that does not weigh them",
    ),
    "weighted mean": (
        "wm",
        lambda m, x, h: (torch.softmax(h, 0) * h).mean(0),
        "aten.mean.dim",
        "a softmax over the children that does not weigh them",
    ),
    "indices": (
        "wm",
        lambda m, x, h: h.max(0).indices.float(),
        "aten.to.dtype",
        "the indices of a maximum",
    ),
    "after a sum": (
        "wm",
        lambda m, x, h: torch.softmax(h @ h.sum(0), 0) @ h,
        "aten.matmul.default",
        "make a second cell",
    ),
}


def frozen(self, a):
    with torch.no_grad():
        return a * 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    ports, function, op, text = OPERATIONS[name]
    module = Fn(function, cube=numbers(1, 8))
    module.frozen = frozen.__get__(module)
    error = refused(module, ports)
    assert text in str(error)
    if op is not None:
        assert op in error.op
        assert error.filename == __file__ or not KNOWS_FUNCTIONS


@pytest.mark.parametrize(
    "module, way",
    [(nn.LSTM(H, H), "nn.LSTMCell"), (nn.GRU(H, H), "nn.GRUCell"), (nn.RNN(H, H), "nn.RNNCell")],
)
def test_recurrent_modules(module, way):
    error = refused(module, "s", forward=lambda m, x: m(x[None])[0][0])
    assert way in str(error)


def test_dropout_of_attention():
    module = nn.MultiheadAttention(H, 2, dropout=0.1)
    for weights in (False, True):
        error = refused(
            module, "sm", forward=lambda m, q, h: m(q[None], h, h, need_weights=weights)[0][0]
        )
        assert "dropout of the weights" in str(error) and ".eval()" in str(error)
    net, _, state = records()
    trace(
        net,
        "node",
        module.eval(),
        [state, many(state)],
        state,
        forward=lambda m, q, h: m(q[None], h, h, need_weights=False)[0][0],
    )


def test_results():
    net, _, state = records()
    both = net.record("both", h=H, c=H)
    error = refused(Fn(lambda m, x, h: (h.sum(0), h.mean(0))))
    assert "results: expected 1, one for each field of record state (h), got 2" in str(error)
    for result, text in [({"h": 1}, "dict"), (None, "NoneType"), ((1, 2), "(int, int)")]:
        error = refused(Fn(lambda m, x, h: result))
        assert f"results: expected tensors, got {text}" in str(error)
    with pytest.raises(TraceError, match=r"expected 2, one for each field of record both \(h, c\)"):
        trace(net, "node", nn.Linear(H, H), [state], both)
    assert "a port `row` as a result" in str(refused(Fn(lambda m, i: i), "r"))


def test_random_numbers_in_eval():
    error = refused(Fn(lambda m, a: F.dropout(a, 0.5)), "s")
    assert "its results must depend on its arguments and parameters alone" in str(error)


def test_rows():
    error = refused(Fn(lambda m, i, h: h.sum(0) * i), "rm")
    assert error.op == "aten.mul.Tensor" and "only nn.Embedding reads it" in str(error)
    error = refused(Fn(lambda m, i: m.e(i), e=nn.Embedding(5, H, padding_idx=0)), "r")
    assert error.op == "aten.embedding.default" and "padding_idx" in str(error)
    error = refused(Fn(lambda m, i: m.e(i), e=nn.Embedding(5, H, max_norm=1.0)), "r")
    assert error.op in ("aten.embedding_renorm.default", None)
    error = refused(Fn(lambda m, i: F.embedding(i, m.e.weight * 2), e=nn.Embedding(5, H)), "r")
    assert "expected a port `row` and a parameter" in str(error)
