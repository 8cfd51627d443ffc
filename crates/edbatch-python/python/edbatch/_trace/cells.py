"""The cells of a module: what each of them computes, and how they are called."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from .._native import CallError, CallList, Cell, Record
from .declare import Cells, Form, Plan
from .expressions import Expression, Expressions, fields_of_children, reductions
from .ports import Port


def plan(name: str, ports: list[Port], roots: list[Expression], e: Expressions) -> Plan:
    """Divides the expressions of the results into cells."""
    over = reductions(roots)
    read = list(dict.fromkeys(x for reduction in over for x in fields_of_children(reduction)))
    of_child = dict(zip(read, _names(read, ports), strict=True))
    each = None
    if all(x.op == "child" and x.shape == _field(x, ports)[1] for x in read):
        # Reductions of plain fields read the children themselves.
        of_child = {x: _field(x, ports)[0] for x in read}
    else:
        each = Form(read, of_child)
    leaf = None
    if over and all(x.op == "sum" for x in over):
        leaf = Form(e.without_children(roots))
    return Plan(name, ports, Form(roots, of_child), each, leaf)


def _field(x: Expression, ports: list[Port]) -> tuple[str, tuple[int, ...]]:
    """The name and the shape of a plain field."""
    port, number = x.constants
    return ports[port].fields[number]


def _names(read: list[Expression], ports: list[Port]) -> list[str]:
    """Names for the fields of a child's record: a plain field keeps its own."""
    own = [_field(x, ports)[0] if x.op == "child" else None for x in read]
    free = (f"v{number}" for number in range(2 * len(read)) if f"v{number}" not in own)
    return [name or next(free) for name in own]


class TracedCell:
    """The cells of a module. Called as ``cell(b, *operands)``, with an operand for each port.

    ``b`` is a Build or a CallList. An operand is a value, the number of a row, or at a port of any
    number a list of values. Returns a value.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        record: Record,
        ports: list[Port],
        cells: Cells,
    ) -> None:
        #: The name, which begins the names of the parameters.
        self.name = name
        self.module, self.record = module, record
        #: The cell of a node, of each of its children, and of a node without children, or None.
        self.cell: Cell = cells["node"][0]
        self.each: Cell | None = cells["each"][0] if "each" in cells else None
        self.leaf: Cell | None = cells["leaf"][0] if "leaf" in cells else None
        self._ports = [str(port) for port in ports]
        self._many = next((at for at, port in enumerate(ports) if port.many), -1)
        self._many_name = ports[self._many].name if self._many >= 0 else ""
        #: The numbers of the operands of each cell: `each` has them before and after the child.
        self._node, self._leaf = cells["node"][1], cells.get("leaf", (None, []))[1]
        of_each = cells.get("each", (None, []))[1]
        self._reads_child = self._many in of_each
        child = of_each.index(self._many) if self._reads_child else len(of_each)
        self._before, self._after = of_each[:child], of_each[child + 1 :]

    def __call__(self, b: CallList, *operands: int | Iterable[int]) -> Any:
        call: Any = b.call
        if len(operands) != len(self._ports):
            raise CallError(self._wrong_number(len(operands)))
        if self._many < 0:
            return call(self.cell, *[operands[at] for at in self._node])
        children = self._children(operands[self._many])
        if not children:
            if self.leaf is None:
                raise CallError(
                    f"call of {self.name}: {self._many_name}: expected at least one value, got none"
                )
            return call(self.leaf, *[operands[at] for at in self._leaf])
        if self.each is not None:
            children = self._of_each(call, operands, children)
        return call(
            self.cell, *[children if at == self._many else operands[at] for at in self._node]
        )

    def _of_each(self, call: Any, operands: Sequence[Any], children: list[Any]) -> list[Any]:
        """Calls the cell of each child."""
        before = [operands[at] for at in self._before]
        after = [operands[at] for at in self._after]
        if not self._reads_child:
            return [call(self.each, *before) for _ in children]
        return [call(self.each, *before, child, *after) for child in children]

    def _wrong_number(self, got: int) -> str:
        count = len(self._ports)
        return (
            f"call of {self.name}: expected {count} operand{'' if count == 1 else 's'} "
            f"({', '.join(self._ports)}), got {got}"
        )

    def _children(self, operand: Any) -> list[Any]:
        try:
            return list(operand)
        except TypeError:
            raise TypeError(
                f"call of {self.name}: {self._many_name}: expected a list of values, got "
                f"{type(operand).__name__}"
            ) from None

    def __repr__(self) -> str:
        return f"<edbatch.torch.TracedCell {self.name}({', '.join(self._ports)})>"
