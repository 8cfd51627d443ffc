"""Checks of what a module returns, and of the network that gets its cells."""

from typing import Any

from .._native import CellError, Network, Record
from .declare import Plan
from .errors import Place, error
from .expressions import Expression, reductions
from .ports import Signature
from .values import Scope, Value


def roots(
    cell: str, results: list[tuple[Any, Place]], record: Record, of: Signature, t: Scope
) -> list[Expression]:
    """The expression of each field of the record."""
    fields = record.fields
    if len(results) != len(fields):
        raise error(
            cell,
            f"results: expected {len(fields)}, one for each field of record {record.name} "
            f"({', '.join(fields)}), got {len(results)}",
            results[-1][1] if results else of.place,
        )
    found = []
    for (name, shape), (value, place) in zip(fields.items(), results, strict=True):
        if not isinstance(value, Value):
            got = type(value).__name__
            raise error(cell, f"results: expected a tensor for the field {name}, got {got}", place)
        if t.axis(value.shape) is not None:
            raise error(
                cell,
                f"result {name}: a tensor {t.shown(value.shape)} of each of the children: reduce "
                "it over the children, for example by `.sum(0)`",
                place,
            )
        if t.core(value.shape) != t.core(shape):
            raise error(
                cell,
                f"result {name}: expected the shape {t.shown(shape)} of the field, got "
                f"{t.shown(value.shape)}",
                place,
            )
        found.append(value.x)
    of_children = [port.name for port in of.ports if port.many]
    if of_children and not reductions(found):
        raise error(
            cell,
            f"port {of_children[0]}: the children are never reduced: expected a result that reads "
            "them, for example by `.sum(0)`",
            of.place,
        )
    return found


def own_record(network: Network, cell: str, record: Record) -> Record:
    """Returns the record as one of this network, not of an equal one.

    Raises CellError if it is of another network.
    """
    network.cell(record, cell)
    return network.records[record.name]


def check_names(network: Network, plan: Plan, parameters: dict[str, tuple[int, ...]]) -> None:
    """Raises CellError if the network has the name of a cell, a record or another parameter."""
    cells, records, declared = network.cells, network.records, network.parameters
    for name in plan.cells:
        if name in cells:
            raise CellError(f"cell {name}: expected a unique name, got the name of another cell")
    if plan.each is not None and f"{plan.name}.each" in records:
        raise CellError(
            f"record {plan.name}.each: expected a unique name, got the name of another record"
        )
    for name, dims in parameters.items():
        if declared.get(name, dims) != dims:
            raise CellError(
                f"cell {plan.name}: parameter {name}: expected {list(dims)} as the module has, got "
                f"{list(declared[name])}: rename the trace, or the parameter of the other cell"
            )
