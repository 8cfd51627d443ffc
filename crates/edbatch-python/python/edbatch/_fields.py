"""The fields of a value at a port: a named tuple whose members are tensors."""

from collections import namedtuple
from typing import Any, NoReturn

from ._native import CellError


class _Fields:
    """What a named tuple of fields refuses, with the words that help."""

    __slots__ = ()
    _fields: tuple[str, ...]
    _port: str

    def __repr__(self) -> str:
        return f"<the fields {', '.join(self._fields)} of a value at port {self._port}>"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(self._expected(f".{name}"))

    def _refuse(self, *_: Any) -> NoReturn:
        raise CellError(self._expected("an operator"))

    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __neg__ = __abs__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = _refuse

    def _expected(self, operation: str) -> str:
        names = self._fields
        unpacked = f"{', '.join(names)}{',' if len(names) == 1 else ''} = …"
        return (
            f"port {self._port}: {operation} needs a tensor, got all fields of a value: write "
            f"`{unpacked}`, or `.{names[0]}`"
        )


_namedtuple: Any = namedtuple


def fields(port: str, names: list[str], tensors: list[Any]) -> Any:
    """Returns the fields of a value at a port. Names that are no identifiers are numbered."""
    bases = (_Fields, _namedtuple("Fields", names, rename=True))
    return type("Fields", bases, {"__slots__": (), "_port": port})(*tensors)
