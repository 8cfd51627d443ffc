"""The error of a module that cannot be traced, and the line of the user's code that it names."""

import inspect
import linecache
import os
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .._native import CellError

#: The folder of this package. Frames in it, and in PyTorch's, are not the user's.
_PACKAGE = str(Path(__file__).parents[1])

_FRAME = re.compile(r'File "(.+)", line (\d+)')


class TraceError(CellError):
    """What `edbatch.torch.trace` cannot make a cell of.

    ``filename`` and ``lineno`` are the line of the module's code that computes it, ``op`` is the
    name of the operation, such as ``aten.cumsum.default``. Each is None if it is not known.
    """

    __module__ = "edbatch.torch"

    filename: str | None
    lineno: int | None
    op: str | None

    def __init__(
        self,
        text: str,
        filename: str | None = None,
        lineno: int | None = None,
        op: str | None = None,
    ) -> None:
        super().__init__(text)
        self.filename, self.lineno, self.op = filename, lineno, op

    def __reduce__(self) -> tuple[Any, ...]:
        return TraceError, (self.args[0], self.filename, self.lineno, self.op)


Place = tuple[str, int] | None


def error(cell: str, text: str, place: Place = None, op: str | None = None) -> TraceError:
    """Returns the error of a cell, with the operation and the line."""
    where = [] if op is None else [op]
    if place is not None:
        line = linecache.getline(*place).strip()
        where.append(f'at {place[0]}:{place[1]}, "{line}"')
    filename, lineno = place or (None, None)
    parts = [f"cell {cell}", ", ".join(where), text]
    return TraceError(": ".join(filter(None, parts)), filename, lineno, op)


def of_stack(stack: str | None) -> Place:
    """The last line of the user's in the text of a stack trace."""
    return _last([(name, int(line)) for name, line in _FRAME.findall(stack or "")])


def of_exception(exception: BaseException) -> Place:
    """The last line of the user's in a traceback, below the call of the module."""
    frames = traceback.extract_tb(exception.__traceback__)
    return _last([(frame.filename, frame.lineno or 0) for frame in below_call(frames)])


def of_function(function: Any) -> Place:
    """The line that defines a function of the user's."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return _last([(code.co_filename, code.co_firstlineno)]) if code is not None else None


def below_call(frames: Sequence[traceback.FrameSummary]) -> Sequence[traceback.FrameSummary]:
    """The frames below the call of the module, or all of them if there is none."""
    calls = [at for at, frame in enumerate(frames) if _is_within(frame.filename, _PACKAGE)]
    return frames[calls[-1] + 1 :] if calls else frames


def is_users(file: str) -> bool:
    folders = (_PACKAGE, str(Path(torch.__file__).parent))
    return not file.startswith("<") and not any(_is_within(file, folder) for folder in folders)


def _last(frames: list[tuple[str, int]]) -> Place:
    users = [frame for frame in frames if is_users(frame[0])]
    return users[-1] if users else None


def _is_within(file: str, folder: str) -> bool:
    return file.startswith(folder + os.sep)
