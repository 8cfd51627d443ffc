"""The ports of a traced cell: the arguments of its module."""

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._native import Record
from .errors import Place

_namedtuple: Any = namedtuple


@dataclass(frozen=True)
class Many:
    """A port of any number of values. See `many`."""

    record: Record


class Row:
    """A port that names a row of a table. See `row`."""

    def __repr__(self) -> str:
        return "row"

    def __reduce__(self) -> str:
        return "row"


#: In ``ports`` of `trace`: the index of a row, which ``nn.Embedding`` reads. The module gets an
#: int64 scalar, a call an int.
row = Row()


def many(record: Record) -> Many:
    """Returns an entry of ``ports`` of `trace`: any number of values of a record.

    The module gets a tensor ``[n, *shape]``, or a named tuple of them if the record has several
    fields. At most one port takes any number.
    """
    if not isinstance(record, Record):
        raise TypeError(f"many: expected a Record, got {type(record).__name__}")
    return Many(record)


@dataclass(frozen=True)
class Port:
    """An argument of the module."""

    name: str
    #: None for a row.
    record: Record | None
    many: bool

    @property
    def fields(self) -> list[tuple[str, tuple[int, ...]]]:
        return list(self.record.fields.items()) if self.record is not None else []

    def __str__(self) -> str:
        if self.record is None:
            return f"a row of {self.name}"
        return f"a list of values for {self.name}" if self.many else f"a value for {self.name}"


def named(entries: Sequence[Any], function: Callable[..., Any], skip: int) -> list[Port]:
    """The ports of the entries, with the names of the arguments of a function after the first."""
    names = _arguments(function, len(entries), skip)
    ports = []
    for name, entry in zip(names, entries, strict=True):
        if not isinstance(entry, (Record, Many, Row)):
            got = type(entry).__name__
            raise TypeError(f"ports: expected a Record, many(record) or row for {name}, got {got}")
        record = entry if isinstance(entry, Record) else getattr(entry, "record", None)
        ports.append(Port(name, record, isinstance(entry, Many)))
    if sum(port.many for port in ports) > 1:
        raise ValueError(
            "ports: expected at most one `many`: concatenate the values, or reduce them before"
        )
    return ports


def _arguments(function: Callable[..., Any], count: int, skip: int) -> list[str]:
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*range(skip + count))
    except TypeError as error:
        raise ValueError(
            f"ports: expected an entry for each argument of {signature}: {error}"
        ) from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names.extend(f"{name}{at}" for at in range(len(value))) if several else names.append(name)
    return names[skip:]


@dataclass(frozen=True)
class Signature:
    """How the module is called, and with what."""

    ports: list[Port]
    forward: Callable[..., Any] | None
    batched: bool
    #: The line that defines the module's function.
    place: Place

    def leaves(self) -> Iterator[tuple[int, int, bool]]:
        """The port, the field, and whether there are many, of each tensor of an argument."""
        for number, port in enumerate(self.ports):
            for field in range(len(port.fields) or 1):
                yield number, field, port.many

    def described(self, children: int) -> str:
        """The shapes of the arguments, as the module gets them."""
        texts = []
        for port in self.ports:
            texts += [f"{port.name}: a row"] if port.record is None else []
            for field, shape in port.fields:
                name = port.name if len(port.fields) == 1 else f"{port.name}.{field}"
                texts.append(f"{name}: {[1] * self.batched + [children] * port.many + [*shape]}")
        if any(port.many for port in self.ports):
            texts.append(f"where {children} stands for the number of children")
        return ", ".join(texts)

    def examples(self, children: int, make: Callable[..., Tensor]) -> list[Tensor]:
        """A tensor for each field of each port, and 0 for each row."""
        tensors = []
        for port in self.ports:
            if port.record is None:
                tensors.append(torch.zeros((), dtype=torch.int64))
            for _, shape in port.fields:
                tensors.append(make((children, *shape) if port.many else shape))
        return tensors

    def call(self, module: nn.Module, tensors: Sequence[Tensor]) -> Any:
        """Calls the module with a tensor for each field."""
        rest = iter([tensor[None] for tensor in tensors] if self.batched else tensors)
        arguments = [_argument(port, rest) for port in self.ports]
        results = self.forward(module, *arguments) if self.forward else module(*arguments)
        results = [results] if isinstance(results, Tensor) else results
        if not isinstance(results, (tuple, list)) or not all(
            isinstance(r, Tensor) for r in results
        ):
            return results
        return [r.squeeze(0) if self.batched and r.dim() else r for r in results]


def _argument(port: Port, rest: Iterator[Tensor]) -> Any:
    """A tensor, or a named tuple if the record has several fields."""
    if len(port.fields) < 2:
        return next(rest)
    names = [name for name, _ in port.fields]
    return _namedtuple("Fields", names, rename=True)(*(next(rest) for _ in names))
