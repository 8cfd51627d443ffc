"""The fields of a value at a port: a named tuple whose members are tensors."""

from collections import namedtuple
from typing import Any, NoReturn

from ._native import CellError


def fields(port: str, names: list[str], tensors: list[Any]) -> Any:
    """Returns the fields of the value at a port. Names that are no identifiers are numbered."""
    plain = namedtuple("plain", names, rename=True)  # type: ignore[misc]

    class Fields(plain):
        __slots__ = ()

        def __repr__(self) -> str:
            return f"<the fields {', '.join(self._fields)} of the value at port {port}>"

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(_expected(port, self._fields, f".{name}"))

    for operator in ("add", "sub", "mul", "truediv", "matmul"):
        for method in (f"__{operator}__", f"__r{operator}__"):
            setattr(Fields, method, _refused(port))
    for method in ("__neg__", "__abs__"):
        setattr(Fields, method, _refused(port))
    return Fields(*tensors)


def _refused(port: str) -> Any:
    def refuse(self: Any, *_: Any) -> NoReturn:
        raise CellError(_expected(port, self._fields, "an operator"))

    return refuse


def _expected(port: str, names: tuple[str, ...], got: str) -> str:
    unpacked = f"{', '.join(names)}{',' if len(names) == 1 else ''} = …"
    return (
        f"port {port}: expected a tensor in front of {got}, got all fields of a value: "
        f"write `{unpacked}`, or `.{names[0]}`"
    )
