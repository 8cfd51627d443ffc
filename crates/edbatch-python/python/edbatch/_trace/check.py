"""Runs the cells of a module beside the module itself, with random values."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._native import CallList, Engine, Network, Record, Weights
from .cells import TracedCell, traced_cell
from .declare import Plan, declare
from .errors import error, of_exception
from .ports import Port, Signature

#: Numbers of children.
COUNTS = (1, 2, 5)
TOLERANCE = 1e-4


def check(
    plan: Plan,
    module: nn.Module,
    signature: Signature,
    record: Record,
    parameters: dict[str, Tensor],
) -> tuple[Plan, dict[str, tuple[int, ...]]]:
    """Returns the cells, and the shapes of their parameters.

    There is no cell without children if the module fails without them.

    Raises TraceError if the cells compute something else than the module.
    """
    network = Network()
    copies: dict[str, Record] = {}
    for each in (record, *(port.record for port in plan.ports)):
        if each is not None and each.name not in copies:
            copies[each.name] = network.record(each.name, **each.fields)
    ports = [Port(p.name, p.record and copies[p.record.name], p.many) for p in plan.ports]
    trial = Plan(plan.name, ports, plan.node, plan.each, plan.leaf)
    cell = traced_cell(
        plan.name, module, record, ports, declare(network, trial, copies[record.name])
    )
    arrays = {
        name: parameters[name].detach().numpy().reshape(dims)
        for name, dims in network.parameters.items()
    }
    engine = Engine(network, Weights(arrays))
    makers = _makers()
    counts = COUNTS if any(port.many for port in ports) else COUNTS[:2]
    for count in counts + ((0,) if cell.leaf is not None else ()):
        tensors = signature.examples(count, makers[count % 2])
        (got,) = engine.run([_calls(network, cell, ports, tensors, count)])
        try:
            want = _results(module, signature, tensors)
        except Exception as exception:
            if count == 0:
                plan = replace(plan, leaf=None)
                continue
            text = f"the module fails with {count} children, but any number must do: {exception}"
            raise error(plan.name, text, of_exception(exception)) from exception
        if not _close(np.ravel(got), want):
            raise error(plan.name, _difference(ports, count), signature.place)
    return plan, network.parameters


def _makers() -> list[Any]:
    """Makes tensors of positive numbers, and of any."""
    random = torch.Generator().manual_seed(0)

    def any_numbers(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=random)

    return [lambda shape: any_numbers(shape).abs() + 0.1, any_numbers]


def _calls(
    network: Network, cell: TracedCell, ports: list[Port], tensors: list[Tensor], count: int
) -> CallList:
    """A call of the cell with these values."""
    calls, rest, operands = CallList(network), iter(tensors), []
    for port in ports:
        if port.record is None:
            operands.append(int(next(rest)))
            continue
        fields = [next(rest).numpy() for _ in port.fields]
        if port.many:
            children = [calls.give(port.record, *(f[at] for f in fields)) for at in range(count)]
            operands.append(children)  # type: ignore[arg-type]
        else:
            operands.append(calls.give(port.record, *fields))
    calls.emit(cell(calls, *operands))
    return calls


def _results(module: nn.Module, signature: Signature, tensors: list[Tensor]) -> Any:
    with _evaluated(module), torch.no_grad():
        results = signature.call(module, tensors)
    return np.concatenate([result.numpy().ravel() for result in results])


def _close(got: Any, want: Any) -> bool:
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    return got.shape == want.shape and np.allclose(
        got, want, rtol=0, atol=TOLERANCE * scale, equal_nan=True
    )


def _difference(ports: list[Port], count: int) -> str:
    text = "the cell computes something else than the module"
    reason = "its results must depend on its arguments and parameters alone, also in `eval()`"
    if not any(port.many for port in ports):
        return f"{text}: {reason}"
    return (
        f"with {count} children, {text}: {reason}, and not on the number of children, except by "
        "`sum`, `mean` and `repeat`"
    )


@contextlib.contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Sets the module to `eval()`, and back."""
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for each, training in modes:
            each.training = training
