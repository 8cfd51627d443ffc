"""The cells of a module: what each of them computes, and how they are called."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

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

    __module__ = "edbatch.torch"

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
        self._made_of = (name, module, record, ports, cells)

    def __reduce__(self) -> tuple[Any, ...]:
        return traced_cell, self._made_of

    def __call__(self, b: CallList, /, *operands: int | Iterable[int]) -> Any:
        """Calls the cells. `traced_cell` replaces it."""
        raise NotImplementedError

    def _of_graphs(self) -> tuple[Any, ...]:
        """The cells, and the names of rows, of ports for one value and of that for any number."""
        ports = self._made_of[3]
        many = next((port.name for port in ports if port.many), None)
        rows = [port.name for port in ports if port.record is None]
        ones = [port.name for port in ports if port.record is not None and not port.many]
        return self.cell, self.each, self.leaf, (rows, ones, many)

    def fail_number(self, operands: Iterable[Any]) -> NoReturn:
        count, got = len(self._ports), sum(operand is not MISSING for operand in operands)
        raise CallError(
            f"call of {self.name}: expected {count} operand{'' if count == 1 else 's'} "
            f"({', '.join(self._ports)}), got {got}"
        )

    def listed(self, port: str, operand: Any) -> list[Any]:
        """The operand of a port of any number, which may be any iterable."""
        try:
            return list(operand)
        except TypeError:
            raise TypeError(
                f"call of {self.name}: {port}: expected a list of values, got "
                f"{type(operand).__name__}"
            ) from None

    def fail_without_children(self, port: str) -> NoReturn:
        raise CallError(f"call of {self.name}: {port}: expected at least one value, got none")

    def __repr__(self) -> str:
        return f"<edbatch.torch.TracedCell {self.name}({', '.join(self._ports)})>"


#: An operand that a call does not have.
MISSING = object()


def traced_cell(
    name: str, module: nn.Module, record: Record, ports: list[Port], cells: Cells
) -> TracedCell:
    """Returns the cells of a module, with a `__call__` of their own.

    It is compiled from text, because wiring runs for each node of each input: so it costs what
    calls that are written by hand do.
    """
    scope: dict[str, Any] = {part: cell for part, (cell, _) in cells.items()}
    scope["missing"] = MISSING
    exec("\n".join(_wiring(ports, {part: takes for part, (_, takes) in cells.items()})), scope)
    kind = type("TracedCell", (TracedCell,), {"__call__": scope["wire"]})
    made: TracedCell = kind(name, module, record, ports, cells)
    return made


def _wiring(ports: list[Port], takes: dict[str, list[int]]) -> Iterator[str]:
    """The lines of a function that calls each cell with the operands that it takes."""
    names = [f"v{at}" for at in range(len(ports))]
    calls = {
        part: f"call({', '.join([part, *(names[at] for at in which)])})"
        for part, which in takes.items()
    }
    yield f"def wire(self, b, {''.join(f'{name}=missing, ' for name in names)}*more):"
    yield f"    if {f'{names[-1]} is missing or ' if names else ''}more:"
    yield f"        self.fail_number(({''.join(f'{name}, ' for name in names)}*more))"
    yield "    call = b.call"
    for name, port in zip(names, ports, strict=True):
        if port.many:
            yield f"    if type({name}) is not list:"
            yield f"        {name} = self.listed({port.name!r}, {name})"
            yield f"    if not {name}:"
            without = f"self.fail_without_children({port.name!r})"
            yield f"        return {calls.get('leaf', without)}"
            if "each" in calls:
                yield f"    {name} = [{calls['each']} for {name} in {name}]"
    yield f"    return {calls['node']}"
