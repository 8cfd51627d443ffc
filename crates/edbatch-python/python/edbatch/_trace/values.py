"""Values of a traced module: an expression, and the shape that the tensor has in PyTorch.

The expression has no dimension of the children and no dimensions of one element. So a tensor
`[children, 1, 150]` is an expression of shape `(150,)`, and one of shape `[1]` or `[]` is `(1,)`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .errors import Place
from .expressions import Expression, Expressions, Shape


class Unsupported(Exception):
    """What a cell cannot compute. The tracer adds the operation and the user's line."""


@dataclass(frozen=True)
class Value:
    """A tensor of the module."""

    shape: Shape
    x: Expression
    #: "tensor"; "softmax", over the children, of the scores `x`; "weighted", by the softmax of
    #: `scores`, the values `x` as a vector; or "indices", which cells do not have.
    kind: str = "tensor"
    scores: Expression | None = None
    #: Weighted values: the shape of their sum, transposed if `turned`.
    of: Shape = ()
    turned: bool = False


@dataclass(frozen=True)
class Row:
    """The row of a table that a call names: an integer at a port."""

    shape: Shape
    port: int


class Scope:
    """Makes values. `children` is the number of children of the example."""

    def __init__(self, children: int) -> None:
        self.children = children
        self.e = Expressions()
        #: The shape of the result of the operation, or the shapes of its results.
        self.result: Any = ()
        #: Numbers the dropouts, each of which has a mask of its own.
        self.dropouts = 0
        #: The line of the operation, and warnings with their lines.
        self.place: Place = None
        self.warnings: list[tuple[str, Place]] = []

    def axis(self, shape: Shape) -> int | None:
        """The dimension of the children."""
        found = [at for at, size in enumerate(shape) if size == self.children]
        if len(found) > 1:
            raise Unsupported(
                f"a tensor {self.shown(shape)} of each child with each other: a cell computes for "
                "each child, and reduces over all of them: attend with one query of the node"
            )
        return found[0] if found else None

    def places(self, shape: Shape) -> list[int]:
        """The dimensions that the expression has."""
        self.axis(shape)
        if 0 in shape:
            raise Unsupported(f"an empty tensor {self.shown(shape)}: leave it out")
        places = [at for at, size in enumerate(shape) if size not in (1, self.children)]
        if len(places) > 2:
            raise Unsupported(
                f"a tensor {self.shown(shape)}: expected at most two dimensions of more than one "
                "element beside the children's: compute parts of it one by one"
            )
        return places

    def core(self, shape: Shape) -> Shape:
        """The shape of the expression."""
        return tuple(shape[at] for at in self.places(shape)) or (1,)

    def shown(self, shape: Shape) -> str:
        sizes = ["children" if size == self.children else str(size) for size in shape]
        return f"[{', '.join(sizes)}]"

    def value(self, x: Expression, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        return Value(shape, self.e.reshape(x, self.core(shape)))

    def number(self, number: float) -> Value:
        return Value((), self.e.constant(number, (1,)))

    def filled(self, number: float, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        return Value(shape, self.e.constant(number, self.core(shape)))

    def map(self, value: Value, x: Expression) -> Value:
        """Another expression of the same shape."""
        return replace(value, x=x)

    def unary(self, op: str, value: Value, *constants: Any) -> Value:
        return self.map(value, self.e.unary(op, value.x, *constants))

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        """The same elements in the same order: a view, or more or fewer dimensions of one."""
        shape = tuple(shape)
        if isinstance(value, Row):
            return Row(shape, value.port)
        old, new = self.axis(value.shape), self.axis(shape)
        before = [
            math.prod(s[:at]) for s, at in ((value.shape, old), (shape, new)) if at is not None
        ]
        if (old is None) != (new is None) or len(set(before)) > 1:
            raise Unsupported(
                f"{self.shown(value.shape)} as {self.shown(shape)} mixes the children with other "
                "dimensions: keep a dimension for the children"
            )
        return replace(value, shape=shape, x=self.e.reshape(value.x, self.core(shape)))

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        order = [at % len(value.shape) for at in order]
        shape = tuple(value.shape[at] for at in order)
        places = self.places(value.shape)
        kept = [at for at in order if at in places]
        x = value.x if kept == places else self.e.transpose(value.x)
        return replace(value, shape=shape, x=x)

    def part(self, value: Value, dim: int, start: int, end: int) -> Value:
        """A range of a dimension other than the children's."""
        if dim == self.axis(value.shape):
            raise Unsupported(
                "children cannot be taken one by one, as their number differs from call to call: "
                "reduce over all of them, or give each child a port of its own"
            )
        shape = (*value.shape[:dim], end - start, *value.shape[dim + 1 :])
        places, x = self.places(value.shape), value.x
        if dim in places and places.index(dim) == 0:
            x = self.e.rows(x, start, end)
        elif dim in places:
            x = self.e.transpose(self.e.rows(self.e.transpose(x), start, end))
        return replace(value, shape=shape, x=self.e.reshape(x, self.core(shape)))

    def explicit(self, value: Value, places: list[int]) -> Expression:
        """The expression with these dimensions, also where they have one element."""
        return self.e.reshape(value.x, tuple(value.shape[at] for at in places))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeats dimensions of one element, and adds dimensions in front."""
        shape = tuple(shape)
        old = (1,) * (len(shape) - len(value.shape)) + value.shape
        places = self.places(shape)
        size = tuple(shape[at] for at in places)
        has = [old[at] != 1 for at in places]
        x, e = value.x, self.e
        if x.op == "constant":
            x = e.constant(x.constants[0], size or (1,))
        elif not any(has) and places:
            ones = e.constant(1, (math.prod(size),))
            x = e.reshape(e.binary("mul", ones, x), size)
        elif has == [True, False]:
            x = e.matmul(e.reshape(x, (size[0], 1)), e.constant(1, (1, size[1])))
        elif has == [False, True]:
            x = e.matmul(e.constant(1, (size[0], 1)), e.reshape(x, (1, size[1])))
        return replace(value, shape=shape, x=x)

    def binary(self, op: str, a: Any, b: Any) -> Value:
        """An operation of each element, with PyTorch's broadcasting."""
        a, b = (v if isinstance(v, Value) else self.number(v) for v in (a, b))
        if "softmax" in (a.kind, b.kind):
            return self._weighted(op, a, b)
        shape = tuple(torch.broadcast_shapes(a.shape, b.shape))
        return Value(shape, self._broadcast(op, a, b, shape))

    def _has(self, value: Value, shape: Shape) -> list[bool]:
        """For each dimension of a result: whether the operand has it too."""
        old = (1,) * (len(shape) - len(value.shape)) + value.shape
        return [old[at] != 1 for at in self.places(shape)]

    def _broadcast(self, op: str, a: Value, b: Value, shape: Shape) -> Expression:
        of_a, of_b, e = self._has(a, shape), self._has(b, shape), self.e
        if len(of_a) < 2 or of_a == of_b or not (any(of_a) and any(of_b)):
            return e.binary(op, a.x, b.x)
        if not all(of_a) and not all(of_b):
            if op == "mul":
                column, row = (a.x, b.x) if of_a[0] else (b.x, a.x)
                shapes = [(*column.shape, 1), (1, *row.shape)]
                return e.matmul(
                    *(e.reshape(x, s) for x, s in zip((column, row), shapes, strict=True))
                )
            a, of_a = self.expand(a, shape), [True, True]
        if [True, False] in (of_a, of_b):
            return e.columns(op, a.x, b.x)
        turned = (e.transpose(x) if all(has) else x for x, has in ((a.x, of_a), (b.x, of_b)))
        return e.transpose(e.columns(op, *turned))

    def _weighted(self, op: str, a: Value, b: Value) -> Value:
        """Values weighted by a softmax over the children."""
        if op != "mul" or a.kind == b.kind:
            raise Unsupported(
                "a softmax over the children that does not weigh them: expected "
                "`(weights * values).sum(0)` or `weights @ values`"
            )
        weights, values = (a, b) if a.kind == "softmax" else (b, a)
        shape = tuple(torch.broadcast_shapes(a.shape, b.shape))
        of, has = self.core(shape), self._has(weights, shape)
        x = self.expand(values, shape).x
        turned = has == [False, True]
        if turned:
            x, of = self.e.transpose(x), of[::-1]
        flat = (math.prod(of),)
        scores = self.e.reshape(weights.x, (math.prod(weights.x.shape),))
        return Value(shape, self.e.reshape(x, flat), "weighted", scores, of, turned)
