"""ATen reductions, over the children and over other dimensions, and normalizations."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from .elementwise import Handler
from .expressions import Expression
from .values import Scope, Unsupported, Value


def reduce(t: Scope, by: str, v: Value, dims: Any = None, keepdim: bool = False) -> Value:
    """Reduces dimensions, all of them without `dims`."""
    rank = len(v.shape)
    chosen = list(range(rank)) if dims is None or dims == [] else dims
    chosen = {dim % max(rank, 1) for dim in ([chosen] if isinstance(chosen, int) else chosen)}
    axis = t.axis(v.shape)
    others = [at for at, place in enumerate(t.places(v.shape)) if place in chosen]
    shape = [
        1 if dim in chosen else size
        for dim, size in enumerate(v.shape)
        if keepdim or dim not in chosen
    ]
    if v.kind == "weighted":
        return t.value(_weighted_sum(t, by, v, axis in chosen, others), shape)
    x = v.x
    if others:
        count = math.prod(v.x.shape[at] for at in others)
        x = _sum(t, by, x, others)
        x = t.e.scale(x, 1 / count) if by == "mean" else x
    if axis in chosen:
        x = over_children(t, by, x)
    return t.value(x, shape)


def over_children(t: Scope, by: str, x: Expression) -> Expression:
    """A reduction of each element. Fields of a child are reduced in their own shape."""
    if x.op in ("reshape", "transpose"):
        inner = over_children(t, by, x.operands[0])
        return t.e.reshape(inner, x.shape) if x.op == "reshape" else t.e.transpose(inner)
    return t.e.reduce(by, x)


def _sum(t: Scope, by: str, x: Expression, others: list[int]) -> Expression:
    """The sum over some dimensions of an expression, as a product with ones."""
    if by not in ("sum", "mean"):
        raise Unsupported(f"{by} over a dimension that is not the children's: only sum and mean")
    if len(others) == len(x.shape):
        flat = t.e.reshape(x, (math.prod(x.shape),))
        return t.e.dot(flat, t.e.constant(1, flat.shape))
    matrix = x if others == [1] else t.e.transpose(x)
    return t.e.matmul(matrix, t.e.constant(1, matrix.shape[1:]))


def _weighted_sum(
    t: Scope, by: str, v: Value, over_children: bool, others: list[int]
) -> Expression:
    if by != "sum" or not over_children or others or v.scores is None:
        raise Unsupported(
            "a softmax over the children that does not weigh them: expected a sum over the "
            "children of its product with values"
        )
    y = t.e.reshape(t.e.softmax_sum(v.scores, v.x), v.of)
    return t.e.transpose(y) if v.turned else y


def _reduction(by: str) -> Handler:
    def handler(t: Scope, v: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
        return reduce(t, by, v, dims, keepdim)

    return handler


def _max_dim(t: Scope, v: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    values = reduce(t, "max", v, dim, keepdim)
    return values, Value(values.shape, values.x, "indices")


def _softmax(t: Scope, v: Value, dim: int, *_: Any, **__: Any) -> Value:
    dim %= max(len(v.shape), 1)
    if v.shape and dim == t.axis(v.shape):
        return Value(v.shape, v.x, "softmax")
    return _of_rows(t, "softmax", v, dim, alone=1)


def _log_softmax(t: Scope, v: Value, dim: int, *_: Any, **__: Any) -> Value:
    dim %= max(len(v.shape), 1)
    if v.shape and dim == t.axis(v.shape):
        raise Unsupported(
            "log_softmax over the children: a cell has softmax, whose weights are summed with "
            "values, and logsumexp"
        )
    return _of_rows(t, "log_softmax", v, dim, alone=0)


def _of_rows(t: Scope, op: str, v: Value, dim: int, alone: float) -> Value:
    """A normalization of one dimension. `alone` is the result where it has one element."""
    places = t.places(v.shape)
    if dim not in places:
        return t.filled(alone, v.shape)
    if places.index(dim) == len(places) - 1:
        return t.unary(op, v)
    return t.map(v, t.e.transpose(t.e.unary(op, t.e.transpose(v.x))))


def _normalized(t: Scope, op: str, v: Value, shape: Sequence[int], eps: float) -> Value:
    """A normalization of the last dimensions, `shape`."""
    dims = range(len(v.shape) - len(shape), len(v.shape))
    if t.axis(v.shape) in dims:
        raise Unsupported(f"{op} over the children: normalize each child, or their reduction")
    places = t.places(v.shape)
    inside = [place for place in places if place in dims]
    if not inside:
        size = v if op == "rms_norm" else t.filled(0, v.shape)
        root = t.unary("sqrt", t.binary("add", t.binary("mul", size, size), eps))
        return t.binary("div", size, root)
    if len(inside) == len(places):
        flat = t.e.reshape(v.x, (math.prod(v.x.shape),))
        return t.map(v, t.e.reshape(t.e.unary(op, flat, eps), v.x.shape))
    return t.unary(op, v, eps)


def _layer_norm(
    t: Scope,
    v: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    y = _normalized(t, "layer_norm", v, shape, eps)
    y = y if weight is None else t.binary("mul", y, weight)
    return y if bias is None else t.binary("add", y, bias)


def _rms_norm(
    t: Scope,
    v: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    y = _normalized(t, "rms_norm", v, shape, eps)
    return y if weight is None else t.binary("mul", y, weight)


REDUCTIONS: dict[str, Handler] = {
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "amax": _reduction("max"),
    "max": _reduction("max"),
    "logsumexp": _reduction("log_sum_exp"),
    "max.dim": _max_dim,
    "softmax": _softmax,
    "_softmax": _softmax,
    "log_softmax": _log_softmax,
    "_log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "native_layer_norm": lambda *args: (_layer_norm(*args), None, None),
    "rms_norm": _rms_norm,
}
