"""Cells of PyTorch's modules. `edbatch.torch` has what is public."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from .._native import CellError, Network, Record
from .aten import Reader, supported
from .capture import capture
from .cells import TracedCell, plan, traced_cell
from .check import check
from .declare import Plan, declare
from .errors import Place, TraceError, of_function
from .ports import Signature, many, named, row
from .results import check_names, own_record, roots
from .tensors import Plain, Read, Traced, traced
from .values import Scope

__all__ = ["TraceError", "TracedCell", "many", "row", "trace"]

#: Numbers of children of the example: primes, which tensors rarely have for another reason.
_EXAMPLES = (53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


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
    of_network = own_record(network, name, record)
    of_ports = [
        replace(port, record=port.record and own_record(network, name, port.record))
        for port in named(ports, function, 0 if forward is None else 1)
    ]
    signature = Signature(of_ports, forward, batched, of_function(function))
    made = _cells(name, module, signature, of_network, traced(network))
    check_names(network, made.plan, made.shapes)
    cells = declare(network, made.plan, of_network)
    traced(network).add(name, module, made.parameters)
    inactive = [key for key, part in module.named_modules() if _is_inactive_dropout(part)]
    if inactive:
        warnings.warn(
            f"cell {name}: {', '.join(inactive)}: no dropout, also after `train()`, because the "
            "module was traced in `eval()`: trace it before, or set p = 0",
            stacklevel=2,
        )
    for text, place in made.warnings:
        warnings.warn_explicit(f"cell {name}: {text}", UserWarning, *(place or ("<module>", 1)))
    return traced_cell(name, module, record, of_ports, cells)


@dataclass(frozen=True)
class _Made:
    """The cells of a module, and the parameters and buffers that they read."""

    plan: Plan
    parameters: dict[str, Read]
    shapes: dict[str, tuple[int, ...]]
    warnings: list[tuple[str, Place]]


def _cells(
    name: str, module: nn.Module, signature: Signature, record: Record, known: Traced
) -> _Made:
    """Plans the cells, and checks them. A second number of children is tried if the first fails,
    as the module may have that number for another reason."""
    plain = Plain(module)
    tensors = [*plain.module.parameters(), *plain.module.buffers()]
    shapes = [tensor.shape for tensor in tensors] + list(record.fields.values())
    shapes += [shape for port in signature.ports for _, shape in port.fields]
    sizes = {size for shape in shapes for size in shape}
    failures = []
    for children in [prime for prime in _EXAMPLES if prime not in sizes][:2]:
        try:
            return _planned(name, plain, module, signature, record, known, children)
        except CellError as failure:
            failures.append(failure)
    raise failures[-1]


def _planned(
    name: str,
    plain: Plain,
    module: nn.Module,
    signature: Signature,
    record: Record,
    known: Traced,
    children: int,
) -> _Made:
    captured, scope = capture(name, plain, signature, known, children, supported), Scope(children)
    found = roots(name, Reader(name, captured, scope).results(), record, signature, scope)
    of_node = plan(name, signature.ports, found, scope.e)
    tensors = {key: parameter.tensor for key, parameter in captured.parameters.items()}
    checked, shapes = check(of_node, module, signature, record, tensors)
    return _Made(checked, captured.parameters, shapes, scope.warnings)


def _is_inactive_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0 and not module.training


def _check_version() -> None:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 6):
        raise ImportError(
            f"edbatch.torch.trace: expected torch 2.6 or later, got {torch.__version__}"
        )
