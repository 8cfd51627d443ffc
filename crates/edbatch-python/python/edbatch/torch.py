"""A network as a module of PyTorch. Only this file and `_trace` import torch."""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ._native import Engine, Network, Record, Trainer, Weights, sgd
from ._trace import TracedCell, TraceError, many, row, trace
from ._trace.tensors import of_network, read, write

__all__ = ["Layer", "TraceError", "TracedCell", "many", "row", "trace"]


class Layer(nn.Module):
    """A network between modules of PyTorch, trained by PyTorch's optimizers.

    Its parameters are those of the network, with the same names: a dot begins a submodule.

    ``given`` names records. ``forward(inputs, *given)`` takes for each of them a list with a tensor
    ``[rows, width]`` per input, where the width is the number of elements of all fields. These rows
    are given to the input, and ``build(b, x, *values)`` gets a list of values for each record;
    it gives nothing itself. Without ``given``, ``build`` is that of an Engine, and inputs may be
    call lists.

    ``forward`` returns what ``Engine.run`` returns, as tensors: per input ``[rows, width]``, or a
    list of vectors if they differ in width. Gradients reach the parameters and the given rows.
    Under ``torch.no_grad()``, or if no gradient is wanted, nothing is kept for a way back. Dropout
    follows ``train()`` and ``eval()``.

    ``weights`` are the initial parameters: drawn at random by default, by torch's generator, as are
    the masks of dropout. ``threads`` and ``policy`` are those of an Engine.

    Tensors must be float32 on the CPU; others raise TypeError. Parameters are read again when their
    version has changed, so change them in place or by `load_state_dict`, not through `.data`. A
    parametrization of them, such as `weight_norm`, raises ValueError.

    Modules whose cells were made by `trace` are submodules, under the names of their cells. Their
    parameters are read as they are, also by parametrizations.
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
    ) -> None:
        super().__init__()
        if isinstance(given, str):
            given = (given,)
        unknown = [name for name in given if name not in network.records]
        if unknown:
            raise ValueError(f"given: expected names of {list(network.records)}, got {unknown}")
        if given and build is None:
            raise ValueError("given: expected a `build`, which gets the given values")
        options = {"threads": threads, "policy": policy}
        seed = int(torch.randint(2**62, ()))
        self._shared = _Shared(network, build, tuple(given), seed, options)
        drawn = Weights.random(network, seed=seed) if weights is None else weights
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

    def _lacks(self, name: str) -> str:
        """Returns what to do about a parameter that is not among the module's any more."""
        *path, last = name.split(".")
        module = self.get_submodule(".".join(path))
        text = f"parameter {name}: expected a parameter of the layer, got none"
        if not parametrize.is_parametrized(module, last):
            return (
                f"{text}: do not delete or replace it, also not by a parametrization such as "
                "torch.nn.utils.weight_norm or torch.nn.utils.prune"
            )
        parametrizations: Any = module.parametrizations
        by = ", ".join(type(each).__name__ for each in parametrizations[last])
        owner = ".".join(["layer", *path])
        return (
            f"{text}, because a parametrization replaces it ({by}): a Layer takes none, so call "
            f"torch.nn.utils.parametrize.remove_parametrizations({owner}, {last!r})"
        )

    def forward(self, inputs: Iterable[Any], *given: Sequence[Tensor]) -> list[Any]:
        """Runs inputs together, with the given rows of each: see the class."""
        if isinstance(inputs, (str, bytes)):
            got = type(inputs).__name__
            raise TypeError(f"forward: expected a list of inputs, got {got}: pass [line] for a line")
        shared, inputs = self._shared, list(inputs)
        if not inputs:
            return []
        if len(given) != len(shared.given):
            raise TypeError(
                f"forward: expected rows for the records {list(shared.given)}, got {len(given)} lists"
            )
        for name, rows in zip(shared.given, given, strict=True):
            if len(rows) != len(inputs):
                raise ValueError(
                    f"given {name}: expected a tensor for each of {len(inputs)} inputs, got {len(rows)}"
                )
        tensors: dict[str, Tensor] = dict(self.named_parameters(remove_duplicate=False))
        for name in self._names:
            if name in self._traced:
                tensors[name] = read(self, name)
            elif name not in tensors:
                raise ValueError(self._lacks(name))
        parameters = [tensors[name] for name in self._names]
        rows = [tensor for of_record in given for tensor in of_record]
        for name, tensor in zip(self._names, parameters, strict=True):
            _check(f"parameter {name}", tensor)
        for tensor in rows:
            _check("given", tensor)
        wanted = any(tensor.requires_grad for tensor in (*parameters, *rows))
        drops = self.training and shared.network.has_dropout
        if drops:
            self._runs.steps += 1
        step = _Step(self._runs, shared, inputs, drops, self._runs.steps)
        if torch.is_grad_enabled() and wanted:
            flat = _Run.apply(step, len(parameters), *parameters, *rows)
            return step.nested(flat)
        arrays = step.outputs(parameters, rows, keep=False)
        return [_tensors(array) for array in arrays]

    def extra_repr(self) -> str:
        return repr(self._shared.network)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Layer":
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        for name, value in self.__dict__.items():
            other.__dict__[name] = value if name == "_shared" else copy.deepcopy(value, memo)
        return other


class _Shared:
    """What copies of a layer share: all but its parameters."""

    def __init__(
        self,
        network: Network,
        build: Callable[..., None] | None,
        given: tuple[str, ...],
        seed: int,
        options: dict[str, Any],
    ) -> None:
        self.network, self.build, self.given = network, build, given
        self.seed, self.options = seed, options
        self.records = [network.records[name] for name in given]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shared, (self.network, self.build, self.given, self.seed, self.options)

    def wire(self, b: Any, item: tuple[Any, ...]) -> None:
        """Gives the rows of an input, and wires it."""
        x, *given = item
        assert self.build is not None
        values = [
            [b.give(record, row) for row in _in_shape(record, rows)]
            for record, rows in zip(self.records, given, strict=True)
        ]
        return self.build(b, x, *values)

    def wiring(self) -> Callable[..., None] | None:
        return self.wire if self.given else self.build


class _Runs:
    """The trainers and the engine of a layer, built when they are needed. They are not copied."""

    def __init__(self) -> None:
        self.trainers: dict[bool, Trainer] = {}
        self.engine: Engine | None = None
        #: By user of the parameters: the versions of the tensors that it has.
        self.versions: dict[str, list[Any]] = {}
        #: The step whose values each trainer keeps.
        self.kept: dict[bool, _Step] = {}
        self.steps = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.steps = state["steps"]

    def trainer(self, shared: _Shared, parameters: list[Tensor], drops: bool) -> Trainer:
        changed = self._changed(f"trainer {drops}", parameters)
        if drops not in self.trainers:
            self.trainers[drops] = Trainer(
                shared.network,
                _weights(shared, parameters),
                shared.wiring(),
                optimizer=sgd(0.0),
                given_gradients=bool(shared.given),
                dropout=drops,
                seed=shared.seed,
                **shared.options,
            )
        elif changed:
            self.trainers[drops].set_parameters(_weights(shared, parameters))
        return self.trainers[drops]

    def forward_engine(self, shared: _Shared, parameters: list[Tensor]) -> Engine:
        if self._changed("engine", parameters) or self.engine is None:
            weights = _weights(shared, parameters)
            self.engine = Engine(shared.network, weights, shared.wiring(), **shared.options)
        return self.engine

    def _changed(self, user: str, parameters: list[Tensor]) -> bool:
        """True if a tensor was replaced or changed in place since the last time."""
        versions = [(tensor, tensor._version, tensor.data_ptr()) for tensor in parameters]
        before = self.versions.get(user, [])
        self.versions[user] = versions
        same = len(before) == len(versions) and all(
            old[0] is new[0] and old[1:] == new[1:]
            for old, new in zip(before, versions, strict=True)
        )
        return not same


class _Step:
    """A call of a layer: its inputs, and the way to their outputs."""

    def __init__(
        self, runs: _Runs, shared: _Shared, inputs: list[Any], drops: bool, number: int
    ) -> None:
        self.runs, self.shared, self.inputs = runs, shared, inputs
        self.drops, self.number = drops, number
        #: For each input: the number of vectors in its list, or None for an array.
        self.lists: list[int | None] = []

    def items(self, rows: list[Tensor]) -> list[Any]:
        if not self.shared.given:
            return self.inputs
        arrays = [tensor.detach().numpy() for tensor in rows]
        count = len(self.inputs)
        return [(x, *arrays[index::count]) for index, x in enumerate(self.inputs)]

    def outputs(self, parameters: list[Tensor], rows: list[Tensor], keep: bool) -> list[Any]:
        """Runs the step. Dropout, or values that are kept for the way back, need a trainer."""
        items = self.items(rows)
        if not keep and not self.drops:
            return self.runs.forward_engine(self.shared, parameters).run(items)
        trainer = self.runs.trainer(self.shared, parameters, self.drops)
        self.runs.kept.pop(self.drops, None)
        trainer.set_updates(self.number)
        arrays = trainer.forward(items)
        if keep:
            self.runs.kept[self.drops] = self
        return arrays

    def flat(self, arrays: list[Any]) -> tuple[Tensor, ...]:
        """All outputs as tensors, with the lists of vectors taken apart."""
        self.lists = [len(array) if isinstance(array, list) else None for array in arrays]
        tensors: list[Tensor] = []
        for array in arrays:
            made = _tensors(array)
            tensors.extend(made if isinstance(made, list) else [made])
        return tuple(tensors)

    def nested(self, tensors: Iterable[Any]) -> list[Any]:
        rest = iter(tensors)
        return [
            next(rest) if count is None else [next(rest) for _ in range(count)]
            for count in self.lists
        ]

    def gradients(
        self, parameters: list[Tensor], rows: list[Tensor], outputs: Iterable[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Returns the gradients of the parameters and of the given rows."""
        if self.runs.kept.get(self.drops) is not self:
            # Another call of the layer came between: its values replaced those of this one.
            self.outputs(parameters, rows, keep=True)
        self.runs.kept.pop(self.drops)
        trainer = self.runs.trainers[self.drops]
        arrays = [gradient.contiguous().numpy() for gradient in outputs]
        trainer.clear_gradients()
        of_given = trainer.backward(self.nested(arrays))
        of_parameters = trainer.gradients()
        trainer.clear_gradients()
        named = [
            torch.from_numpy(of_parameters[name]).reshape(tensor.shape)
            for name, tensor in zip(self.shared.network.parameters, parameters, strict=True)
        ]
        return named, self._by_record(rows, of_given)

    def _by_record(self, rows: list[Tensor], of_given: list[Any]) -> list[Tensor]:
        """Divides the gradients of each input's rows by the records of these."""
        gradients, count = list(rows), len(self.inputs)
        for index, array in enumerate(of_given if rows else []):
            first = 0
            for place in range(index, len(rows), count):
                end = first + len(rows[place])
                part = array[first:end]
                values = np.asarray(part, np.float32).reshape(rows[place].shape)
                gradients[place] = torch.from_numpy(values)
                first = end
        return gradients


class _Run(torch.autograd.Function):
    """The step as a function of parameters and given rows."""

    @staticmethod
    def forward(ctx: Any, step: _Step, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.step, ctx.count = step, count
        ctx.save_for_backward(*tensors)
        return step.flat(step.outputs(list(tensors[:count]), list(tensors[count:]), keep=True))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        parameters, rows = list(tensors[: ctx.count]), list(tensors[ctx.count :])
        of_parameters, of_rows = ctx.step.gradients(parameters, rows, outputs)
        return (None, None, *of_parameters, *of_rows)


def _check(what: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
    if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise TypeError(
            f"{what}: expected a tensor of float32 on the CPU, got {tensor.dtype} on "
            f"{tensor.device}: a Layer computes there, so convert with `.float().cpu()`"
        )


def _in_shape(record: Record, rows: Any) -> Any:
    """Rows `[rows, width]` as matrices, if the only field of the record is a matrix."""
    shapes = list(record.fields.values())
    if len(shapes) == 1 and rows.shape[1:] == (math.prod(shapes[0]),):
        return rows.reshape(len(rows), *shapes[0])
    return rows


def _weights(shared: _Shared, parameters: list[Tensor]) -> Weights:
    shapes = shared.network.parameters.items()
    return Weights(
        {
            name: tensor.detach().numpy().reshape(shape)
            for (name, shape), tensor in zip(shapes, parameters, strict=True)
        }
    )


def _tensors(array: Any) -> Any:
    """An input's outputs as a tensor, or a list of tensors."""
    if isinstance(array, list):
        return [torch.from_numpy(vector) for vector in array]
    return torch.from_numpy(array)
