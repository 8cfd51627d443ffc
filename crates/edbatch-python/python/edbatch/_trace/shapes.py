"""ATen operations that rearrange elements, and that make constants."""

import math
from collections.abc import Sequence
from typing import Any

from .elementwise import Handler
from .values import Scope, Unsupported, Value


def _view(t: Scope, x: Any, *_: Any, **__: Any) -> Any:
    return t.reshape(x, t.result)


def _same(t: Scope, x: Any, *_: Any, **__: Any) -> Any:
    return x


def _detach(t: Scope, x: Value) -> Value:
    if x.x.op != "constant":
        t.warnings.append(("detach has no effect in a cell: gradients flow through it", t.place))
    return x


def _expand(t: Scope, x: Any, *_: Any, **__: Any) -> Any:
    return t.expand(x, t.result)


def _repeat(t: Scope, x: Value, repeats: Sequence[int]) -> Value:
    sizes = (1,) * (len(repeats) - len(x.shape)) + x.shape
    if any(size != 1 and count != 1 for size, count in zip(sizes, repeats, strict=True)):
        raise Unsupported(
            f"{t.shown(x.shape)} repeated {list(repeats)} times: only dimensions of one element "
            "can be repeated: use cat, or an unsqueeze before"
        )
    return t.expand(x, t.result)


def _transpose(t: Scope, x: Value, a: int, b: int) -> Value:
    order = list(range(len(x.shape)))
    order[a], order[b] = order[b], order[a]
    return t.permute(x, order)


def _reverse(t: Scope, x: Value) -> Value:
    return t.permute(x, list(range(len(x.shape)))[::-1])


def _slice(
    t: Scope, x: Value, dim: int = 0, start: int | None = None, end: Any = None, step: int = 1
) -> Value:
    dim, (first, last, _) = dim % len(x.shape), slice(start, end).indices(x.shape[dim])
    if step != 1:
        raise Unsupported(f"a slice with the step {step}: expected a step of 1")
    if (first, last) == (0, x.shape[dim]):
        return x
    return t.part(x, dim, first, last)


def _select(t: Scope, x: Value, dim: int, index: int) -> Any:
    dim %= len(x.shape)
    index %= x.shape[dim]
    return t.reshape(t.part(x, dim, index, index + 1), t.result)


def _narrow(t: Scope, x: Value, dim: int, start: int, length: int) -> Value:
    return t.part(x, dim % len(x.shape), start, start + length)


def _split(t: Scope, x: Value, *args: Any, dim: int = 0) -> list[Value]:
    """Parts of a dimension: their sizes are those of the results."""
    dim = args[1] if len(args) > 1 else dim
    dim, parts, start = dim % len(x.shape), [], 0
    for shape in t.result:
        parts.append(t.part(x, dim, start, start + shape[dim]))
        start += shape[dim]
    return parts


def _unbind(t: Scope, x: Value, dim: int = 0) -> list[Any]:
    dim %= len(x.shape)
    return [t.reshape(t.part(x, dim, at, at + 1), shape) for at, shape in enumerate(t.result)]


def _cat(t: Scope, parts: Sequence[Value], dim: int = 0) -> Value:
    parts = [part for part in parts if part.shape != (0,)]
    dim %= len(parts[0].shape)
    if any(t.axis(part.shape) == dim for part in parts):
        raise Unsupported(
            "children cannot be concatenated with other values: wire the other value as a child, "
            "or reduce the children before"
        )
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    places = t.places(tuple(shape))
    pieces = [t.explicit(part, places) for part in parts]
    if places.index(dim) == 0:
        return t.value(t.e.concat(pieces), shape)
    turned = t.e.concat([t.e.transpose(piece) for piece in pieces])
    return t.value(t.e.transpose(turned), shape)


def _stack(t: Scope, parts: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(parts[0].shape) + 1
    return _cat(t, [t.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:])) for x in parts], dim)


def _filled(number: float) -> Handler:
    return lambda t, *_, **__: t.filled(number, t.result)


def _full(t: Scope, _: Any, number: Any, **__: Any) -> Value:
    return t.filled(number, t.result)


def _full_new(t: Scope, _: Any, __: Any, number: Any, **___: Any) -> Value:
    return t.filled(number, t.result)


def constant(t: Scope, tensor: Any) -> Value:
    """A tensor of the module's code. All of its elements must be equal."""
    if not tensor.numel() or not bool((tensor == tensor.flatten()[0]).all()):
        raise Unsupported(
            f"a tensor {list(tensor.shape)} that is no parameter or buffer of the module, and not "
            "one number: make it a buffer by `register_buffer`, or a parameter"
        )
    number = float(tensor.flatten()[0])
    if math.isnan(number):
        raise Unsupported("a tensor of NaN: expected a number")
    return t.filled(number, tensor.shape)


_VIEWS = ("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
_AS = ("view_as", "reshape_as")
_SAME = ("clone", "contiguous", "alias", "lift_fresh", "lift_fresh_copy", "to", "_to_copy", "float")

SHAPES: dict[str, Handler] = {
    **dict.fromkeys((*_VIEWS, *_AS), _view),
    **dict.fromkeys((*_SAME, "type_as"), _same),
    "detach": _detach,
    "expand": _expand,
    "expand_as": _expand,
    "repeat": _repeat,
    "transpose": _transpose,
    "permute": lambda t, x, order: t.permute(x, order),
    **dict.fromkeys(("t", "numpy_T"), _reverse),
    "mT": lambda t, x: _transpose(t, x, -2, -1),
    "slice": _slice,
    "select": _select,
    "narrow": _narrow,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), _split),
    "unbind": _unbind,
    "cat": _cat,
    "stack": _stack,
    **{name: _filled(0) for name in ("zeros", "zeros_like", "new_zeros")},
    **{name: _filled(1) for name in ("ones", "ones_like", "new_ones")},
    "full": _full,
    "full_like": _full,
    "new_full": _full_new,
}
