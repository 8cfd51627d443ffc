"""ATen products of matrices, attention, and cells of recurrent networks."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from .elementwise import Handler
from .expressions import Expression
from .reductions import REDUCTIONS, reduce
from .values import Row, Scope, Unsupported, Value


def matmul(t: Scope, a: Value, b: Value) -> Value:
    """A product as of `torch.matmul`, with any number of leading dimensions."""
    wide = a if len(a.shape) > 1 else t.reshape(a, (1, *a.shape))
    tall = b if len(b.shape) > 1 else t.reshape(b, (*b.shape, 1))
    y = _product(t, wide, tall)
    shape = list(y.shape)
    if len(b.shape) == 1:
        del shape[-1]
    if len(a.shape) == 1:
        del shape[-1 if len(b.shape) == 1 else -2]
    return t.reshape(y, shape)  # type: ignore[no-any-return]


def _product(t: Scope, a: Value, b: Value) -> Value:
    """The product of `[…, i, k]` and `[…, k, j]`."""
    inner = a.shape[-1]
    if inner == t.children:
        return _over_children(t, a, b)
    if "softmax" in (a.kind, b.kind):
        return t.binary("matmul", a, b)  # Raises.
    if inner == 1:
        return t.binary("mul", a, b)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    t.places(shape)
    return t.value(_inner(t, a, b), shape)


def _over_children(t: Scope, a: Value, b: Value) -> Value:
    """A product over the children: a sum of outer products, or the sum of weighted values."""
    left = t.reshape(a, (*a.shape, 1))
    right = t.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return reduce(t, "sum", t.binary("mul", left, right), -2)


def _inner(t: Scope, a: Value, b: Value) -> Expression:
    """The product of the expressions. `k` is a dimension of both."""
    e, x, y = t.e, a.x, b.x
    batch_a, batch_b = (any(p < len(v.shape) - 2 for p in t.places(v.shape)) for v in (a, b))
    rows, columns = (size not in (1, t.children) for size in (a.shape[-2], b.shape[-1]))
    if batch_a and batch_b:
        if rows or columns:
            raise Unsupported(
                f"a product of {t.shown(a.shape)} and {t.shown(b.shape)}: a cell multiplies "
                "matrices, no batches of them"
            )
        return e.dot(x, y)
    if batch_b:
        # `y` has the shape (batch, k).
        return e.matmul(y, e.transpose(x) if rows else x)
    if batch_a or rows:
        # `x` has the shape (batch or rows, k).
        return e.matmul(x, y)
    return e.matmul(e.transpose(y), x) if columns else e.dot(x, y)


def linear(t: Scope, x: Value, weight: Value, bias: Value | None = None) -> Value:
    y = matmul(t, x, _transposed(t, weight))
    return y if bias is None else t.binary("add", y, bias)


def _transposed(t: Scope, v: Value) -> Value:
    rank = len(v.shape)
    return t.permute(v, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else v


def _addmm(t: Scope, c: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    y = matmul(t, a, b)
    y = y if alpha == 1 else t.binary("mul", y, alpha)
    return t.binary("add", c if beta == 1 else t.binary("mul", c, beta), y)


def _outer(t: Scope, a: Value, b: Value) -> Value:
    return t.binary("mul", t.reshape(a, (*a.shape, 1)), b)


def _attention(
    t: Scope,
    query: Value,
    keys: Value,
    values: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    for refused, what in (
        (mask is not None, "a mask"),
        (causal, "is_causal"),
        (enable_gqa, "enable_gqa"),
    ):
        if refused:
            raise Unsupported(f"attention with {what}: wire the children that count, and no others")
    if dropout:
        raise Unsupported(
            "dropout of the weights of attention: set the module's dropout to 0, or trace it after "
            "`.eval()`"
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if keys.shape[-2] == t.children:
        return _attend(t, query, keys, values, scale)
    scores = t.binary("mul", matmul(t, query, _transposed(t, keys)), scale)
    return matmul(t, REDUCTIONS["softmax"](t, scores, -1), values)


def _attend(t: Scope, query: Value, keys: Value, values: Value, scale: float) -> Value:
    """Attention over the children: leading dimensions are heads."""
    if query.shape[-2] != 1 or t.axis(query.shape) is not None:
        raise Unsupported(
            f"attention of the queries {t.shown(query.shape)} over the children: expected one "
            "query of the node"
        )
    heads = torch.broadcast_shapes(*(v.shape[:-2] for v in (query, keys, values)))
    parts = [t.expand(v, (*heads, *v.shape[-2:])) for v in (query, keys, values)]
    flat = [t.e.reshape(v.x, (math.prod(v.x.shape),)) for v in parts]
    x = t.e.attention(flat[0], flat[1], flat[2], math.prod(heads), scale)
    return t.value(x, (*heads, 1, values.shape[-1]))


def _embedding(
    t: Scope,
    weight: Value,
    index: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    table = weight.x
    while table.op == "reshape":
        table = table.operands[0]
    if not isinstance(index, Row) or table.op != "parameter":
        raise Unsupported("an embedding of computed indices: expected a port `row` and a parameter")
    if padding_idx >= 0 or scale_grad_by_freq:
        raise Unsupported(
            "padding_idx and scale_grad_by_freq change gradients: make the Embedding without them; "
            "padding is not needed in a cell"
        )
    (name,), dims = table.constants, table.shape
    return t.value(t.e.lookup(index.port, name, dims), (*index.shape, *dims[1:]))


def _gates(t: Scope, y: Value, count: int) -> list[Value]:
    width = y.shape[-1] // count
    last = len(y.shape) - 1
    return [t.part(y, last, gate * width, (gate + 1) * width) for gate in range(count)]


def _gru_cell(
    t: Scope, x: Value, h: Value, w: Value, u: Value, b: Any = None, d: Any = None
) -> Value:
    of_x, of_h = _gates(t, linear(t, x, w, b), 3), _gates(t, linear(t, h, u, d), 3)
    reset, update = (t.unary("sigmoid", t.binary("add", of_x[i], of_h[i])) for i in (0, 1))
    new = t.unary("tanh", t.binary("add", of_x[2], t.binary("mul", reset, of_h[2])))
    return t.binary("add", new, t.binary("mul", update, t.binary("sub", h, new)))


def _lstm_cell(
    t: Scope, x: Value, state: Sequence[Value], w: Value, u: Value, b: Any = None, d: Any = None
) -> tuple[Value, Value]:
    h, c = state
    i, f, g, o = _gates(t, t.binary("add", linear(t, x, w, b), linear(t, h, u, d)), 4)
    i, f, o = (t.unary("sigmoid", gate) for gate in (i, f, o))
    c = t.binary("add", t.binary("mul", f, c), t.binary("mul", i, t.unary("tanh", g)))
    return t.binary("mul", o, t.unary("tanh", c)), c


def _rnn_cell(function: str) -> Handler:
    def handler(
        t: Scope, x: Value, h: Value, w: Value, u: Value, b: Any = None, d: Any = None
    ) -> Value:
        return t.unary(function, t.binary("add", linear(t, x, w, b), linear(t, h, u, d)))

    return handler


PRODUCTS: dict[str, Handler] = {
    **dict.fromkeys(("matmul", "mm", "mv", "bmm", "dot"), matmul),
    "linear": linear,
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _addmm),
    "outer": _outer,
    "scaled_dot_product_attention": _attention,
    "embedding": _embedding,
    "gru_cell": _gru_cell,
    "lstm_cell": _lstm_cell,
    "rnn_tanh_cell": _rnn_cell("tanh"),
    "rnn_relu_cell": _rnn_cell("relu"),
}
