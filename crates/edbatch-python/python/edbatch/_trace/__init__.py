"""Cells of PyTorch's modules. `edbatch.torch` has what is public."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .._native import Network, Record
from .aten import Reader, supported
from .capture import capture
from .cells import TracedCell, plan
from .check import check
from .declare import Plan, declare
from .errors import TraceError, of_function
from .ports import Signature, many, named, row
from .results import check_names, own_record, roots
from .tensors import Plain, Read, Traced, traced
from .values import Scope

__all__ = ["TraceError", "TracedCell", "many", "row", "trace"]

#: Numbers of children of the example. If a module has this number for another reason, the first
#: fails, and the second is tried.
_EXAMPLES = (53, 61)


def trace(
    network: Network,
    name: str,
    module: nn.Module,
    ports: Sequence[Any],
    record: Record,
    *,
    forward: Callable[..., Any] | None = None,
    batched: bool = False,
) -> TracedCell:
    """Makes cells of a module, which keeps its parameters.

    The module runs once, by ``torch.export``, with tensors without elements. ``ports`` has an entry
    for each argument of ``module.forward``: a Record for one value, ``many(record)`` for any
    number of them, or ``row`` for the index of a row of an ``nn.Embedding``. A value is a tensor of
    the shape of its field, or a named tuple if the record has several fields. ``many`` values are
    a tensor ``[n, *shape]``. The module returns a tensor for each field of ``record``.

    ``forward(module, *arguments)`` replaces ``module(*arguments)``, for example to change the order
    of arguments. ``batched=True`` puts a dimension of 1 in front of all arguments and results.

    Returns a cell. Call it as ``cell(b, *operands)`` where inputs are wired. Its parameters are
    named ``name.`` and the name in the module. A Layer of the network holds the module itself as
    ``layer.name``.

    Raises TraceError with the line of the module that a cell cannot compute. The network is then
    unchanged. Raises TypeError if a parameter is not float32, and ImportError if PyTorch is older
    than 2.6.
    """
    _check_version()
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name: expected an identifier, got {name!r}")
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
    function = forward or module.forward
    record = own_record(network, name, record)
    of_ports = [
        replace(port, record=port.record and own_record(network, name, port.record))
        for port in named(ports, function, 0 if forward is None else 1)
    ]
    signature, known = Signature(of_ports, forward, batched, of_function(function)), traced(network)
    read, made, scope = _planned(name, module, signature, record, known)
    tensors = {key: parameter.tensor for key, parameter in read.items()}
    made, dims = check(made, module, signature, record, tensors)
    check_names(network, made, dims)
    cells = declare(network, made, record)
    known.add(name, module, read)
    for text, place in scope.warnings:
        warnings.warn_explicit(f"cell {name}: {text}", UserWarning, *(place or ("<module>", 1)))
    return TracedCell(name, module, record, of_ports, cells)


def _planned(
    name: str, module: nn.Module, signature: Signature, record: Record, known: Traced
) -> tuple[dict[str, Read], Plan, Scope]:
    """Returns the parameters that the module reads, its cells, and their warnings."""
    plain = Plain(module)
    for children in _EXAMPLES:
        captured = capture(name, plain, signature, known, children, supported)
        scope = Scope(children)
        try:
            results = Reader(name, captured, scope).results()
            found = roots(name, results, record, signature, scope)
            return captured.parameters, plan(name, signature.ports, found, scope.e), scope
        except TraceError:
            if children == _EXAMPLES[-1]:
                raise
    raise AssertionError("the last example returns or raises")


def _check_version() -> None:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 6):
        raise ImportError(
            f"edbatch.torch.trace: expected torch 2.6 or later, got {torch.__version__}"
        )
