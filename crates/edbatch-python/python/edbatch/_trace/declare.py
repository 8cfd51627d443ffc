"""Declares the cells of a traced module, by a `CellBuilder` for each."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._native import Cell, CellBuilder, Network, Record, Tensor
from .expressions import REDUCTIONS, Expression, in_order
from .ports import Port


@dataclass(frozen=True)
class Form:
    """A cell to declare."""

    roots: list[Expression]
    #: The names of the fields of a child that reductions read, or that the cell makes.
    of_child: dict[Expression, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The cells of a traced module: of a node, of each of its children, without children."""

    name: str
    ports: list[Port]
    node: Form
    each: Form | None
    leaf: Form | None

    @property
    def cells(self) -> list[str]:
        """The names of the cells."""
        ends = {"": self.node, ".each": self.each, ".leaf": self.leaf}
        return [self.name + end for end, form in ends.items() if form is not None]


#: Cells by part ("node", "each", "leaf"), with the number of the port of each operand.
Cells = dict[str, tuple[Cell, list[int]]]


def declare(network: Network, plan: Plan, record: Record) -> Cells:
    cells: Cells = {}
    children = next((port.record for port in plan.ports if port.many), None)
    if plan.each is not None:
        shapes = {name: x.shape for x, name in plan.each.of_child.items()}
        of_each = network.record(f"{plan.name}.each", **shapes)
        cells["each"] = _cell(network, f"{plan.name}.each", of_each, plan.each, plan.ports, None)
        children = of_each
    cells["node"] = _cell(network, plan.name, record, plan.node, plan.ports, children)
    if plan.leaf is not None:
        cells["leaf"] = _cell(network, f"{plan.name}.leaf", record, plan.leaf, plan.ports, None)
    return cells


def _cell(
    network: Network,
    name: str,
    record: Record,
    form: Form,
    ports: list[Port],
    children: Record | None,
) -> tuple[Cell, list[int]]:
    takes: list[int] = []

    def equations(c: CellBuilder) -> list[Tensor]:
        maker = _Maker(c, form)
        takes.extend(maker.declare(ports, children))
        outputs = maker.outputs()
        shapes = record.fields.values()
        return [_shaped(y, shape) for y, shape in zip(outputs, shapes, strict=True)]

    return network.cell(record, name)(equations), takes


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else tensor.reshape(*shape)


class _Maker:
    """Makes the tensors of a cell: its tables, its ports, then each expression."""

    def __init__(self, c: CellBuilder, form: Form) -> None:
        self.c, self.form = c, form
        self.order = in_order(form.roots)
        self.tensors: dict[Expression, Any] = {}
        #: The values of the port of any number, the names of their fields, and reductions of all.
        self.children: Any = None
        self.fields: list[str] = []
        self.reductions: dict[str, Any] = {}

    def declare(self, ports: list[Port], children: Record | None) -> list[int]:
        """Adds the ports that are read. Returns the number of the port of each operand.

        A child is the last operand, and so are all children.
        """
        takes = []
        for x in self.order:
            if x.op == "lookup":
                port, parameter, dims = x.constants
                row = self.c.lookup(ports[port].name, parameter, dims)
                self.tensors[x] = _shaped(row, x.shape)
                takes.append(port)
        for at, port in sorted(enumerate(ports), key=lambda item: item[1].many):
            read = [x for x in self.order if x.op in ("field", "child") and x.constants[0] == at]
            if read and port.record is not None:
                values = self.c.one(port.name, port.record)
                for x in read:
                    self.tensors[x] = _shaped(values[x.constants[1]], x.shape)
                takes.append(at)
        if children is not None and any(x.op in REDUCTIONS for x in self.order):
            at = next(at for at, port in enumerate(ports) if port.many)
            self.children = self.c.many(ports[at].name, children)
            self.fields = list(children.fields)
            takes.append(at)
        return takes

    def outputs(self) -> list[Any]:
        for x in self.order:
            if x not in self.tensors:
                self.tensors[x] = self._reduced(x) if x.op in REDUCTIONS else self._made(x)
        return [self.tensors[root] for root in self.form.roots]

    def _reduced(self, x: Expression) -> Any:
        names = [self.form.of_child.get(each, "") for each in x.operands]
        if x.op == "softmax_sum":
            return self.children.softmax_sum(*names)
        if x.op == "attention":
            return self.children.attention(self.tensors[x.operands[0]], *names[1:], *x.constants)
        if x.op not in self.reductions:
            self.reductions[x.op] = getattr(self.children, x.op)()
        return _shaped(self.reductions[x.op][self.fields.index(names[0])], x.shape)

    def _made(self, x: Expression) -> Any:
        operands = [self.tensors[each] for each in x.operands]
        op, _, columns = x.op.partition(" ")
        if op in _BINARY:
            return _BINARY[op](*(_columns(operands) if columns else _numbers(x, operands)))
        if op in _MAKERS:
            return _MAKERS[op](self.c, x, *operands)
        return getattr(operands[0], op)(*operands[1:], *x.constants)


def _columns(operands: list[Any]) -> list[Any]:
    """A matrix and a vector with an element for each row."""
    return [y if len(y.shape) == 2 else y[:, None] for y in operands]


def _numbers(x: Expression, operands: list[Any]) -> list[Any]:
    """The operands, with a bare number for one constant beside a tensor of the result's shape."""
    for at, other in ((1, 0), (0, 1)):
        if x.operands[at].op == "constant" and x.operands[other].shape == x.shape:
            operands[at] = x.operands[at].constants[0]
            break
    return operands


def _method(name: str) -> Callable[[Any, Any], Any]:
    """A method of a tensor, whose operands commute: one of them may be a number."""
    return lambda a, b: getattr(b, name)(a) if isinstance(a, float) else getattr(a, name)(b)


#: Operations of two tensors, element by element.
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "maximum": _method("maximum"),
    "minimum": _method("minimum"),
}

#: The other operations that are no methods of a tensor with the same name and constants.
_MAKERS: dict[str, Callable[..., Any]] = {
    "parameter": lambda c, x: c.parameter(x.constants[0], x.shape),
    "constant": lambda c, x: c.constant(x.constants[0], x.shape),
    "matmul": lambda c, x, a, b: a @ b,
    "reshape": lambda c, x, a: a.reshape(*x.shape),
    "rows": lambda c, x, a: a[x.constants[0] : x.constants[1]],
    "concat": lambda c, x, *parts: c.concat(parts),
    "dropout": lambda c, x, a: a.dropout(x.constants[0]),
}
