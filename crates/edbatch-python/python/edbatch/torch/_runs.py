"""The engines and trainers of a layer."""

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .._native import Engine, Network, Record, Trainer, Weights, sgd

if TYPE_CHECKING:
    from ._step import Step


class _Shared:
    """What copies of a layer share: all but its parameters."""

    def __init__(
        self,
        network: Network,
        build: Callable[..., None] | None,
        given: tuple[str, ...],
        seed: int,
        options: dict[str, Any],
        emits: str | None = None,
        sparse: tuple[str, ...] = (),
    ) -> None:
        self.network, self.build, self.given = network, build, given
        self.seed, self.options, self.emits, self.sparse = seed, options, emits, sparse
        self.records = [network.records[name] for name in given]
        self.emitted = None if emits is None else network.records[emits]
        #: For each record of given rows: its name, its number of elements, and its shapes.
        self.rows = [(each.name, width(each), list(each.fields.values())) for each in self.records]
        self.shapes = list(network.parameters.items())

    def __reduce__(self) -> tuple[Any, ...]:
        options = (self.seed, self.options, self.emits, self.sparse)
        return _Shared, (self.network, self.build, self.given, *options)


def width(record: Record) -> int:
    """The number of elements of all fields of a record."""
    return sum(math.prod(shape) for shape in record.fields.values())


#: If values are dropped, if given rows have gradients, and the device.
Key = tuple[bool, bool, str]


class _Runs:
    """The trainers and the engines of a layer, built when they are needed. They are not copied."""

    def __init__(self) -> None:
        #: Held while a trainer runs: threads take turns.
        self.lock = threading.RLock()
        self.trainers: dict[Key, Trainer] = {}
        #: The step whose values each trainer keeps.
        self.kept: dict[Key, Step] = {}
        #: The device of tensors on the CPU. Tests set "cuda-emulated", whose memory is there.
        self.on_cpu = "cpu"
        self.engines = _Engines()
        #: By user of the parameters: the versions of the tensors that it has, and the refreshes.
        self.versions: dict[Any, tuple[list[Any], int]] = {}
        #: Parameters are read again after a refresh.
        self.refreshed = 0
        self.steps = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.steps = state["steps"]

    def trainer(self, shared: _Shared, parameters: list[Tensor], key: Key) -> Trainer:
        """Returns a trainer with these parameters. The lock must be held."""
        if self._changed(key, parameters):
            weights = _weights(shared, parameters)
            if key in self.trainers:
                self.trainers[key].set_parameters(weights)
            else:
                self.trainers[key] = _trainer(shared, weights, key)
            self._has(key, parameters)
        return self.trainers[key]

    def of_device(self, shared: _Shared, key: Key) -> Trainer:
        """Returns a trainer on a device, which has yet to adopt parameters that have changed."""
        if key not in self.trainers:
            none = {name: np.zeros(shape, np.float32) for name, shape in shared.shapes}
            self.trainers[key] = _trainer(shared, Weights(none), key)
        return self.trainers[key]

    def engine(self, shared: _Shared, parameters: list[Tensor]) -> "_Borrowed":
        """Returns an engine with these parameters that no other thread uses."""
        with self.lock:
            if self._changed("engine", parameters):
                weights = _weights(shared, parameters)
                self.engines = _Engines(
                    Engine(shared.network, weights, shared.build, **shared.options)
                )
                self._has("engine", parameters)
            return _Borrowed(self.engines)

    def _changed(self, user: Any, parameters: list[Tensor]) -> bool:
        """True if a tensor was replaced or changed in place since the user has read all."""
        before, refreshed = self.versions.get(user, ([], -1))
        return refreshed != self.refreshed or not all(
            old[0] is tensor and old[1:] == (version(tensor), tensor.data_ptr())
            and old[1] is not None
            for old, tensor in zip(before, parameters, strict=True)
        )

    def _has(self, user: Any, parameters: list[Tensor]) -> None:
        """The user has read all parameters, without an error."""
        versions = [(each, version(each), each.data_ptr()) for each in parameters]
        self.versions[user] = versions, self.refreshed


class _Engines:
    """The engines for one state of the parameters."""

    def __init__(self, engine: Engine | None = None) -> None:
        #: Is forked, and never runs: an engine that runs cannot be forked.
        self.source = engine and engine.fork()
        self.free = [engine] if engine else []


class _Borrowed:
    """An engine, taken from the others while it runs."""

    def __init__(self, engines: _Engines) -> None:
        self.engines = engines
        assert engines.source is not None
        self.engine = engines.free.pop() if engines.free else engines.source.fork()

    def __enter__(self) -> Engine:
        return self.engine

    def __exit__(self, *_: Any) -> None:
        self.engines.free.append(self.engine)


def _trainer(shared: _Shared, weights: Weights, key: Key) -> Trainer:
    drops, given, device = key
    return Trainer(
        shared.network,
        weights,
        shared.build,
        optimizer=sgd(0.0),
        given_gradients=given,
        dropout=drops,
        seed=shared.seed,
        device=device,
        **shared.options,
    )


def version(tensor: Tensor) -> int | None:
    """The number of changes in place. Tensors of `inference_mode` do not count them."""
    return None if tensor.is_inference() else tensor._version


def _weights(shared: _Shared, parameters: list[Tensor]) -> Weights:
    return Weights(
        {
            name: tensor.detach().numpy().reshape(shape)
            for (name, shape), tensor in zip(shared.shapes, parameters, strict=True)
        }
    )


