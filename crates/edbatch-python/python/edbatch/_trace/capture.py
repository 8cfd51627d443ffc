"""Runs a module once by `torch.export`, and returns the graph of its operations."""

import contextlib
import io
import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .errors import TraceError, below_call, error, is_users, of_exception
from .ports import Signature
from .tensors import Plain, Read, Traced


@dataclass
class Captured:
    """A graph, and what its inputs are by name.

    An input is a tensor of the module's code, or a tuple: ("parameter", name in the network),
    ("row", port) or ("field", port, field, many).
    """

    graph: Any
    inputs: dict[str, Any]
    #: The parameters and buffers that are read, by their names in the network.
    parameters: dict[str, Read]
    #: The name of an argument or a buffer that the module changes in place.
    changed: str | None


class _Whole(nn.Module):
    """The module with one argument for each tensor."""

    def __init__(self, module: nn.Module, signature: Signature) -> None:
        super().__init__()
        self.module = module
        self.signature = signature
        #: What the module returned, if it is not tensors.
        self.returned = _Returned()

    def forward(self, *tensors: Tensor) -> Any:
        results = self.signature.call(self.module, tensors)
        if not isinstance(results, list):
            self.returned.other = describe(results)
            return ()
        return tuple(results)


class _Returned:
    other: str | None = None


def describe(results: Any) -> str:
    if isinstance(results, (tuple, list)):
        return (
            "("
            + ", ".join("a tensor" if isinstance(r, Tensor) else type(r).__name__ for r in results)
            + ")"
        )
    return type(results).__name__


def capture(
    cell: str,
    plain: Plain,
    signature: Signature,
    known: Traced,
    children: int,
    supported: Callable[[Any], bool],
) -> Captured:
    """Returns the graph of a module, in place operations replaced by others.

    Raises TraceError where the module cannot be run with tensors that have no elements.
    """
    whole = _Whole(plain.module, signature)
    examples = tuple(signature.examples(children, torch.zeros))
    try:
        with _quiet(), _stacks_of_users(), torch.enable_grad():
            program = torch.export.export(whole, examples, strict=False)
            if not supported(program.graph):
                program = program.run_decompositions({})
    except TraceError:
        raise
    except Exception as exception:
        for name, parameter in plain.module.named_parameters():
            _check_type(f"cell {cell}: parameter {cell}.{name}", parameter)
        raise _failed(cell, exception, signature.described(children)) from exception
    if whole.returned.other is not None:
        raise error(cell, f"results: expected tensors, got {whole.returned.other}", signature.place)
    program.graph.eliminate_dead_code()
    return _captured(cell, program, plain, signature, known)


def _captured(
    cell: str, program: Any, plain: Plain, signature: Signature, known: Traced
) -> Captured:
    made, names = program.graph_signature, plain.names()
    users = dict(zip(made.user_inputs, signature.leaves(), strict=True))
    arguments = {name: signature.ports[port].name for name, (port, _, _) in users.items()}
    constants = made.inputs_to_lifted_tensor_constants
    of_module = {**made.inputs_to_parameters, **made.inputs_to_buffers}
    captured = Captured(program.graph, {}, {}, _changed(made, arguments))
    for node in program.graph.nodes:
        if node.op != "placeholder" or not node.users:
            continue
        if node.name in users:
            port, field, many = users[node.name]
            row = signature.ports[port].record is None
            captured.inputs[node.name] = ("row", port) if row else ("field", port, field, many)
        elif node.name in constants:
            captured.inputs[node.name] = program.constants[constants[node.name]]
        else:
            read = plain.read(of_module[node.name].removeprefix("module."))
            name = known.names.get(read.identity, f"{cell}.{names[id(read.tensor)]}")
            _check_type(f"cell {cell}: parameter {name}", read.tensor)
            captured.inputs[node.name] = ("parameter", name)
            captured.parameters[name] = read
    return captured


def _check_type(what: str, tensor: Tensor) -> None:
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise TypeError(
            f"{what}: expected float32 on the CPU, got {tensor.dtype} on {tensor.device}: convert "
            "the module with `.float().cpu()` before it is traced"
        )


def _failed(cell: str, exception: Exception, arguments: str) -> TraceError:
    """The error of a module that raised while it ran."""
    place = of_exception(exception)
    text = str(exception).strip()
    if "DataDependent" in type(exception).__name__ or "data-dependent" in text:
        return error(
            cell,
            "the value of a tensor decides what runs next, but a cell is the same for each call: "
            "choose the cell where inputs are wired, or use relu, clamp, maximum or minimum",
            place,
        )
    text = f"{type(exception).__name__}: {text.splitlines()[0] if text else ''}"
    return error(cell, f"{text} (arguments: {arguments})", place)


def _changed(made: Any, arguments: dict[str, str]) -> str | None:
    """The name of an argument or a buffer that the module changes in place."""
    for name in made.user_inputs_to_mutate.values():
        return arguments[name]
    for name in made.buffers_to_mutate.values():
        return str(name).removeprefix("module.")
    return None


#: They print graphs and tracebacks of failures, which TraceError tells in words.
_LOGGERS = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._subclasses.fake_tensor",
    "torch.export",
)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps torch.export from printing, and attention from a fast path without gradients.

    What the module itself prints appears when its cells are checked.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    disabled, fast = [each.disabled for each in loggers], torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    for each in loggers:
        each.disabled = True
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for each, before in zip(loggers, disabled, strict=True):
            each.disabled = before


@contextlib.contextmanager
def _stacks_of_users() -> Iterator[None]:
    """Records all of the user's frames with each operation, also those of functions that the
    module's `forward` calls. PyTorch keeps those of methods named `forward` alone."""
    tracer: Any = torch.fx.proxy.TracerBase
    kept = getattr(tracer, "_filter_traceback_frames", None)
    if kept is None:
        yield
        return

    def users(_: Any, stack: Any) -> Any:
        frames = [frame for frame in below_call(stack) if is_users(frame.filename)]
        return traceback.StackSummary.from_list(frames)

    tracer._filter_traceback_frames = users
    try:
        yield
    finally:
        tracer._filter_traceback_frames = kept
