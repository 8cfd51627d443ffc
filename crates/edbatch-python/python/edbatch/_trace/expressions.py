"""Expressions of a cell: what a traced module computes, in operations of a `CellBuilder`.

A shape has one or two dimensions, as that of a tensor in a cell: a scalar is a vector of one
element. An expression over the children of a call is either one *of each child* (`each`), which
reads fields of a child, or a reduction over all of them (`reduced`). It is never both.
"""

import math
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Expression:
    """An operation, its operands, and its constants. See the functions that make them."""

    op: str
    operands: tuple["Expression", ...]
    constants: tuple[Any, ...]
    shape: Shape
    #: True if it reads a field of a child, outside of a reduction.
    each: bool
    #: True if it reads a reduction over the children.
    reduced: bool


class Expressions:
    """Makes expressions. Equal ones are one object, and constants are folded."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Expression] = {}

    def make(self, op: str, shape: Shape, *operands: Expression, constants: Any = ()) -> Expression:
        key = (op, shape, tuple(map(id, operands)), constants)
        if key not in self._known:
            over_children = op in REDUCTIONS
            each = op == "child" or (not over_children and any(x.each for x in operands))
            reduced = over_children or any(x.reduced for x in operands)
            self._known[key] = Expression(op, operands, constants, shape, each, reduced)
        return self._known[key]

    def field(self, port: int, field: int, shape: Shape, many: bool) -> Expression:
        """A field of a value at a port: of a child if the port takes any number."""
        return self.make("child" if many else "field", shape, constants=(port, field))

    def parameter(self, name: str, dims: Shape) -> Expression:
        return self.make("parameter", dims or (1,), constants=(name,))

    def lookup(self, port: int, name: str, dims: Shape) -> Expression:
        return self.make("lookup", dims[1:], constants=(port, name, dims))

    def constant(self, value: float, shape: Shape) -> Expression:
        return self.make("constant", shape, constants=(float(value),))

    def unary(self, op: str, x: Expression, *constants: Any) -> Expression:
        """A function of each element, or a normalization of each row: a method of a Tensor."""
        return self.make(op, x.shape, x, constants=constants)

    def binary(self, op: str, a: Expression, b: Expression) -> Expression:
        """An operation of each element. Shapes are equal, or one of them is a scalar's."""
        shape = a.shape if math.prod(a.shape) > 1 else b.shape
        if op in ("add", "sub") and is_constant(b, 0) and a.shape == shape:
            return a
        if op == "add" and is_constant(a, 0) and b.shape == shape:
            return b
        if op == "mul" and (is_constant(a, 0) or is_constant(b, 0)):
            return self.constant(0, shape)
        if op == "mul" and (a.op == "constant" or b.op == "constant"):
            number, other = (a, b) if a.op == "constant" else (b, a)
            if other.shape == shape:
                return self.scale(other, number.constants[0])
        return self.make(op, shape, a, b)

    def columns(self, op: str, a: Expression, b: Expression) -> Expression:
        """An operation of a matrix and a vector with an element for each of its rows."""
        matrix, vector = (a, b) if len(a.shape) == 2 else (b, a)
        if vector.op == "constant":
            vector = self.constant(vector.constants[0], matrix.shape)
            return self.binary(op, *((a, vector) if matrix is a else (vector, b)))
        return self.make(f"{op} columns", matrix.shape, a, b)

    def scale(self, x: Expression, factor: float) -> Expression:
        if factor == 1:
            return x
        if factor == 0 or x.op == "constant":
            return self.constant(factor * x.constants[0] if factor else 0, x.shape)
        return self.unary("scale", x, float(factor))

    def matmul(self, a: Expression, b: Expression) -> Expression:
        """A matrix times a vector or a matrix."""
        shape = (a.shape[0], *b.shape[1:])
        if is_constant(a, 0) or is_constant(b, 0):
            return self.constant(0, shape)
        return self.make("matmul", shape, a, b)

    def dot(self, a: Expression, b: Expression) -> Expression:
        """The inner product of two vectors, or of each pair of rows of two matrices."""
        shape = a.shape[:-1] or (1,)
        if is_constant(a, 0) or is_constant(b, 0):
            return self.constant(0, shape)
        return self.make("dot", shape, a, b)

    def reshape(self, x: Expression, shape: Shape) -> Expression:
        shape = shape or (1,)
        if x.shape == shape:
            return x
        if x.op == "constant":
            return self.constant(x.constants[0], shape)
        if x.op == "reshape":
            return self.reshape(x.operands[0], shape)
        return self.make("reshape", shape, x)

    def transpose(self, x: Expression) -> Expression:
        """The transpose of a matrix."""
        rows, columns = x.shape
        if x.op == "constant" or 1 in x.shape:
            return self.reshape(x, (columns, rows))
        if x.op == "transpose":
            return x.operands[0]
        return self.make("transpose", (columns, rows), x)

    def rows(self, x: Expression, start: int, end: int) -> Expression:
        """A range of the elements of a vector, or of the rows of a matrix."""
        if (start, end) == (0, x.shape[0]):
            return x
        shape = (end - start, *x.shape[1:])
        if x.op == "constant":
            return self.constant(x.constants[0], shape)
        if x.op == "rows":
            start, end, x = start + x.constants[0], end + x.constants[0], x.operands[0]
        return self.make("rows", shape, x, constants=(start, end))

    def concat(self, parts: list[Expression]) -> Expression:
        """Vectors, or matrices with equal numbers of columns, one below the other."""
        if len(parts) == 1:
            return parts[0]
        shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        return self.make("concat", shape, *parts)

    def reduce(self, by: str, x: Expression) -> Expression:
        """A reduction of each element over the children."""
        return self.make(by, x.shape, x)

    def softmax_sum(self, scores: Expression, values: Expression) -> Expression:
        return self.make("softmax_sum", values.shape, scores, values)

    def attention(
        self, query: Expression, keys: Expression, values: Expression, heads: int, scale: float
    ) -> Expression:
        constants = (heads, scale)
        return self.make("attention", values.shape, query, keys, values, constants=constants)

    def without_children(self, roots: list[Expression]) -> list[Expression]:
        """Returns the expressions where each sum over the children is zero."""
        done: dict[Expression, Expression] = {}
        for x in in_order(roots):
            if x.op == "sum":
                done[x] = self.constant(0, x.shape)
            else:
                done[x] = self._again(x, [done[each] for each in x.operands]) if x.reduced else x
        return [done[root] for root in roots]

    def _again(self, x: Expression, operands: list[Expression]) -> Expression:
        """The same operation of other operands, of the same shapes."""
        if x.op.endswith(" columns"):
            return self.columns(x.op.removesuffix(" columns"), operands[0], operands[1])
        if x.op in ("add", "sub", "mul"):
            return self.binary(x.op, operands[0], operands[1])
        if x.op == "reshape":
            return self.reshape(operands[0], x.shape)
        if x.op == "concat":
            return self.concat(operands)
        if x.op in ("matmul", "dot", "transpose", "scale", "rows"):
            folded: Expression = getattr(self, x.op)(*operands, *x.constants)
            return folded
        return self.make(x.op, x.shape, *operands, constants=x.constants)


def is_constant(x: Expression, value: float) -> bool:
    return x.op == "constant" and x.constants[0] == value


#: Reductions over the children, by name. The first operands of the last two are fields, too.
REDUCTIONS = ("sum", "mean", "max", "log_sum_exp", "softmax_sum", "attention")


def fields_of_children(x: Expression) -> tuple[Expression, ...]:
    """The operands of a reduction that are fields of each child."""
    return x.operands[1:] if x.op == "attention" else x.operands


def reductions(roots: list[Expression]) -> list[Expression]:
    """All reductions that are read, those that others read first."""
    return [x for x in in_order(roots) if x.op in REDUCTIONS]


def in_order(roots: list[Expression]) -> list[Expression]:
    """All expressions that are read outside of children's, operands first."""
    found: dict[Expression, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        x, ready = stack.pop()
        if ready:
            found[x] = None
        elif x not in found:
            stack.append((x, True))
            operands = x.operands
            if x.op in REDUCTIONS:
                operands = x.operands[:1] if x.op == "attention" else ()
            stack.extend((each, False) for each in reversed(operands))
    return list(found)
