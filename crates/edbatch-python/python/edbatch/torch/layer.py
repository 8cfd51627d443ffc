"""A network as a module of PyTorch."""

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._native import CallError, Network, Record, Weights, save
from .._trace.tensors import _is_hook, of_network, write
from ._device import checked, device_of
from ._runs import _Runs, _Shared, width
from ._step import Nothing, Run, Step
from ._tables import check_tables

_REASON = (
    "edbatch.torch.Layer runs outside of the graph: it wires each input by Python and runs in "
    "Rust. torch.compile(fullgraph=True) and torch.export cannot include it"
)


def _outside(function: Any) -> Any:
    """Lets torch.compile call a function as it is."""
    disable: Any = torch.compiler.disable
    if "reason" in inspect.signature(disable).parameters:
        return disable(function, reason=_REASON)
    return disable(function)


class Layer(nn.Module):
    """A network between modules of PyTorch, trained by PyTorch's optimizers.

    Its parameters are those of the network, with the same names: a dot begins a submodule.

    ``given`` names records. ``forward(inputs, *given)`` takes for each of them a list with a tensor
    ``[rows, width]`` per input, where the width is the number of elements of all fields. These rows
    are given to the input, and ``build(b, x, *values)`` gets a list of values for each record;
    it gives nothing itself. Inputs may also be call lists, whose slots are the rows; without
    ``build``, all are. ``packed`` takes the rows of all inputs as one tensor, and returns one.

    ``forward`` returns what ``Engine.run`` returns, as a tuple of tensors: per input
    ``[rows, width]``, or a tuple of vectors if they differ in width. Gradients reach the parameters
    and the given rows. Under ``torch.no_grad()``, or if no gradient is wanted, nothing is kept for
    a way back. Dropout follows ``train()`` and ``eval()``.

    ``weights`` are the initial parameters: drawn at random by default, by torch's generator, as are
    the masks of dropout. ``threads`` and ``policy`` are those of an Engine. ``emits`` names the
    record of all emitted values, which ``packed`` needs where it may get no inputs. ``sparse``
    names tables whose gradients are sparse tensors.

    Parameters must be float32 on the CPU or on a CUDA device, and rows also float16 or bfloat16,
    on the same device; others raise TypeError. Parameters are read again when their version has changed, and after ``train()``,
    ``eval()`` and ``refresh()``: call that after a change through ``.data``.

    Modules whose cells were made by `trace` are submodules, under the names of their cells.
    Parametrizations, such as ``weight_norm``, apply to all parameters.
    """

    #: The names of the parameters of traced modules.
    _traced: frozenset[str] = frozenset()

    def __init__(
        self,
        network: Network,
        build: Callable[..., None] | None = None,
        given: Sequence[str] = (),
        *,
        weights: Weights | None = None,
        threads: int = 1,
        policy: str | None = None,
        emits: str | None = None,
        sparse: Sequence[str] = (),
    ) -> None:
        super().__init__()
        given = (given,) if isinstance(given, str) else tuple(given)
        sparse = (sparse,) if isinstance(sparse, str) else tuple(sparse)
        _check_names(network, given, emits, sparse)
        options = {"threads": threads, "policy": policy}
        seed = int(torch.randint(2**62, ()))
        self._shared = _Shared(network, build, given, seed, options, emits, sparse)
        drawn = Weights.random(network, seed=seed) if weights is None else weights
        network._freeze()
        modules, self._traced = of_network(network)
        for name, module in modules.items():
            self._add_module(name, module)
        self._names = list(network.parameters)
        for name in self._names:
            if name not in self._traced:
                self._add(name, torch.from_numpy(drawn[name]))
            elif weights is not None:
                write(self, name, torch.from_numpy(weights[name]))
        self._runs = _Runs()

    @property
    def network(self) -> Network:
        """The network."""
        return self._shared.network

    def _add_module(self, name: str, module: nn.Module) -> None:
        try:
            self.add_module(name, module)
        except KeyError as error:
            raise ValueError(
                f"cell {name}: expected a name that torch.nn.Module does not use: {error}"
            ) from error

    def _add(self, name: str, values: Tensor) -> None:
        """Registers a parameter, in a submodule for each part of its name that ends in a dot."""
        *modules, last = name.split(".")
        module: nn.Module = self
        if modules and modules[0] in of_network(self._shared.network)[0]:
            raise ValueError(
                f"parameter {name}: {modules[0]} is a traced module: rename the parameter"
            )
        try:
            for part in modules:
                if part not in module._modules:
                    module.add_module(part, nn.Module())
                module = module.get_submodule(part)
            module.register_parameter(last, nn.Parameter(values))
        except (KeyError, AttributeError) as error:
            raise ValueError(
                f"parameter {name}: expected a name that torch.nn.Module does not use: {error}"
            ) from error

    def forward(self, inputs: Iterable[Any], *given: Any, _packed: bool = False) -> tuple[Any, ...]:
        """Runs inputs together, with the given rows of each: see the class."""
        if getattr(torch.compiler, "is_exporting", bool)():
            raise RuntimeError(_REASON)
        if torch._C._are_functorch_transforms_active():
            raise RuntimeError(
                "edbatch.torch.Layer: torch.func transforms (grad, vmap, jacrev, jvp) are not "
                "supported: use torch.autograd.grad, which computes gradients of any loss"
            )
        if isinstance(inputs, (str, bytes)):
            got = type(inputs).__name__
            raise TypeError(f"forward: expected a list of inputs, got {got}: pass [line] for a line")
        inputs = list(inputs)
        if _packed:
            return self._run_packed(inputs, *given)
        return self._run(inputs, *self._joined(inputs, given)) if inputs else ()

    def packed(
        self, inputs: Iterable[Any], given: Any = (), offsets: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Runs inputs together, with the given rows of all of them in one tensor.

        ``given`` is a tensor ``[rows, width]``, or a tuple with one for each record of ``given``.
        Input i has the rows ``offsets[i]:offsets[i + 1]``; with several records, ``offsets`` is a
        tuple of such lists. Without ``offsets``, all inputs are call lists, whose slots say it.

        Returns ``(rows, offsets)``: all emitted values, ``[total, width]``, and where those of each
        input begin.
        """
        outputs: tuple[Tensor, Tensor] = self(inputs, given, offsets, _packed=True)
        return outputs

    def zero(self) -> Tensor:
        """A zero that depends on all parameters, for a loss without inputs."""
        return self._nothing(())

    def refresh(self) -> None:
        """Reads all parameters again at the next call: after a change through ``.data``."""
        self._runs.refreshed += 1

    def train(self, mode: bool = True) -> "Layer":
        """Sets the mode for dropout, and reads all parameters again at the next call."""
        self.refresh()
        return super().train(mode)

    def save_pretrained(self, folder: Any) -> None:
        """Writes the network and its weights to a folder, which ``ed.load`` runs."""
        with torch.no_grad():
            parameters = zip(self._names, self._parameters_of_network(self), strict=True)
            shapes = self.network.parameters
            arrays = {
                name: tensor.cpu().numpy().reshape(shapes[name]) for name, tensor in parameters
            }
        Path(folder).mkdir(parents=True, exist_ok=True)
        save(folder, self.network, Weights(arrays))

    @classmethod
    def from_pretrained(
        cls,
        folder: Any,
        build: Callable[..., None] | None = None,
        given: Sequence[str] = (),
        **options: Any,
    ) -> "Layer":
        """Makes a layer of a folder as `save_pretrained` writes it. ``options`` are those of the
        constructor, without ``weights``."""
        network = Network.load(Path(folder) / "network.json")
        weights = Weights.load(Path(folder) / "weights.safetensors")
        return cls(network, build, given, weights=weights, **options)

    def _joined(self, inputs: list[Any], given: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        """The rows of all inputs as one tensor for each record, and where those of each begin."""
        shared = self._shared
        if len(given) != len(shared.given):
            raise TypeError(
                f"forward: expected rows for the records {list(shared.given)}, got {len(given)} lists"
            )
        joined, offsets = [], []
        for record, rows in zip(shared.rows, given, strict=True):
            if len(rows) != len(inputs):
                raise ValueError(
                    f"given {record[0]}: expected a tensor for each of {len(inputs)} inputs, got "
                    f"{len(rows)}: give one tensor for all inputs to `layer.packed`"
                )
            tensors = [_rows(record, tensor) for tensor in rows]
            joined.append(torch.cat(tensors))
            offsets.append([0, *itertools.accumulate(map(len, rows))])
        return joined, offsets

    def _run_packed(self, inputs: list[Any], given: Any, offsets: Any) -> tuple[Tensor, Tensor]:
        records = self._shared.records
        given = (given,) if isinstance(given, Tensor) else tuple(given)
        if len(given) != len(records):
            expected = f"rows for the records {list(self._shared.given)}"
            if not records:
                expected = "no rows, because the layer was made without `given=`"
            raise TypeError(f"packed: expected {expected}, got {len(given)} tensors")
        rows = [_rows(*each) for each in zip(self._shared.rows, given, strict=True)]
        of_records = _offsets(offsets, records, rows, len(inputs))
        if not inputs:
            return self._empty(rows)
        (elements,), step = self._steps(inputs, rows, of_records, packed=True)
        return elements, torch.from_numpy(step.ends)

    def _empty(self, rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        shared = self._shared
        if shared.emitted is None:
            raise ValueError(
                "packed: no inputs: expected emits=, the name of the record of all emitted values, "
                "in the constructor, for the width of the result"
            )
        for name, tensor in zip(shared.given, rows, strict=True):
            if len(tensor):
                raise ValueError(
                    f"offsets: expected no rows of record {name} without inputs, got {len(tensor)}"
                )
        return self._nothing((0, width(shared.emitted)), rows), torch.zeros(1, dtype=torch.int64)

    def _nothing(self, shape: tuple[int, ...], rows: Sequence[Tensor] = ()) -> Tensor:
        """Zeros that depend on all parameters and on rows."""
        named = [*self.named_parameters(), *(("", tensor) for tensor in rows)]
        sparse = [name in self._shared.sparse for name, _ in named]
        zeros: Tensor = Nothing.apply(shape, sparse, *(tensor for _, tensor in named))
        return zeros

    def _run(self, inputs: list[Any], rows: list[Tensor], offsets: list[Any]) -> tuple[Any, ...]:
        tensors, step = self._steps(inputs, rows, offsets, packed=False)
        return step.nested(tensors)

    def _steps(
        self, inputs: list[Any], rows: list[Tensor], offsets: list[Any] | None, packed: bool
    ) -> tuple[tuple[Tensor, ...], Step]:
        """Runs inputs. Returns their outputs one after the other, and their shapes."""
        shared, runs = self._shared, self._runs
        parameters = self._parameters_of_network()
        tensors = [*parameters, *rows]
        device = device_of(tensors, [*self._names, *shared.given], len(parameters), runs.on_cpu)
        drops = self.training and shared.network.has_dropout
        with runs.lock:
            runs.steps += drops
            step = Step(runs, shared, inputs, offsets, packed, drops, runs.steps, device)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return Run.apply(step, len(parameters), *tensors), step
        return step.tensors(step.run(parameters, rows)), step

    def _parameters_of_network(self, called: nn.Module | None = None) -> list[Tensor]:
        """The parameters in the order of the network, as parametrizations compute them.

        The older `weight_norm` and `prune` compute them in hooks of submodules, which are not
        called. Those of the layer itself have run when it was called.
        """
        modules = dict(self.named_modules())
        for module in modules.values():
            if module._forward_pre_hooks and (module is not self or called is self):
                for hook in list(module._forward_pre_hooks.values()):
                    if _is_hook(hook):
                        with self._exactly():
                            hook(module, ())
        tensors = []
        for name in self._names:
            path, _, last = name.rpartition(".")
            # A dictionary is faster than `getattr`, but does not have what a property computes.
            module = modules.get(path)
            tensor = None if module is None else module._parameters.get(last)
            tensor = self._named(name) if tensor is None else tensor
            tensors.append(checked(f"parameter {name}", tensor))
        return tensors

    def _exactly(self) -> Any:
        """Without autocast, which would compute parametrizations in half precision."""
        device = next((each.device.type for each in self.parameters()), "cpu")
        return torch.autocast("cuda" if device == "cuda" else "cpu", enabled=False)

    def _named(self, name: str) -> Any:
        """The attribute of a submodule with this name."""
        owner: Any = self
        try:
            with self._exactly():
                for part in name.split("."):
                    owner = getattr(owner, part)
        except AttributeError:
            raise ValueError(
                f"parameter {name}: expected a parameter of the layer, got none: do not delete or "
                "replace it"
            ) from None
        return owner

    def extra_repr(self) -> str:
        return repr(self._shared.network)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for name, value in self.__dict__.items():
            other.__dict__[name] = value if name == "_shared" else copy.deepcopy(value, memo)
        return other


# As functions, so that their types stay.
setattr(Layer, "forward", _outside(Layer.forward))
setattr(Layer, "packed", _outside(Layer.packed))


def _check_names(
    network: Network, given: tuple[str, ...], emits: str | None, sparse: tuple[str, ...]
) -> None:
    unknown = [name for name in given if name not in network.records]
    if unknown:
        raise ValueError(f"given: expected names of {list(network.records)}, got {unknown}")
    if emits is not None and emits not in network.records:
        raise ValueError(f"emits: expected a name of {list(network.records)}, got {emits!r}")
    if len(set(given)) < len(given):
        raise ValueError(f"given: expected each record once, got {list(given)}")
    check_tables(network, sparse)


def _rows(record: tuple[str, int, list[tuple[int, ...]]], tensor: Any) -> Tensor:
    """Given rows in float32, as `[rows, width]` also if the only field is a matrix."""
    name, size, shapes = record
    if isinstance(tensor, Tensor) and tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    tensor = checked("given", tensor)
    shape = tensor.shape
    if len(shape) == 2 and shape[1] == size:
        return tensor
    if len(shapes) == 1 and len(shape) == 3 and shape[1:] == shapes[0]:
        return tensor.reshape(len(tensor), size)
    expected = list(shapes[0]) if len(shapes) == 1 else [size]
    raise CallError(
        f"give of record {name}: expected an array of shape {expected} for each row, got "
        f"{list(shape)} for all"
    )


def _offsets(
    offsets: Any, records: list[Record], rows: list[Tensor], inputs: int
) -> list[list[int]] | None:
    """The offsets of each record, or None if slots say them."""
    if offsets is None:
        return None if records else []
    several = isinstance(offsets, (tuple, list)) and any(
        isinstance(each, (list, tuple)) or getattr(each, "ndim", 0) for each in offsets
    )
    of_records = list(offsets) if several else [offsets]
    if len(of_records) != len(records):
        raise ValueError(
            f"offsets: expected a list for each of {len(records)} records, got {len(of_records)}"
        )
    checked = []
    for record, tensor, each in zip(records, rows, of_records, strict=True):
        array = np.asarray(each.cpu() if isinstance(each, Tensor) else each)
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"offsets: expected integers, got {array.dtype}")
        numbers = array.tolist()
        ends = [*numbers[:1], *numbers[-1:]] if array.ndim == 1 else []
        if len(numbers) != inputs + 1 or ends != [0, len(tensor)] or numbers != sorted(numbers):
            raise ValueError(
                f"offsets: expected {inputs + 1} ascending numbers from 0 to {len(tensor)}, the "
                f"number of rows of record {record.name}, got {numbers}"
            )
        checked.append(numbers)
    return checked
