"""A call of a layer, and its way back through autograd."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _device
from ._runs import Key, _Runs, _Shared, width

_SPARSE_IN_DDP = (
    "edbatch.torch.Layer: sparse gradients ({}) do not work in DistributedDataParallel: put the "
    "table outside, as nn.Embedding(..., sparse=True) and given rows (with gloo), or leave out "
    "`sparse` for a dense gradient"
)


class Step:
    """A call of a layer: its inputs, where their rows are, and the shapes of its outputs."""

    def __init__(
        self,
        runs: _Runs,
        shared: _Shared,
        inputs: list[Any],
        offsets: list[Any] | None,
        packed: bool,
        drops: bool,
        number: int,
        device: str,
    ) -> None:
        self.runs, self.shared, self.inputs, self.offsets = runs, shared, inputs, offsets
        self.packed, self.drops, self.number, self.device = packed, drops, number, device
        self.in_ddp = torch.nn.parallel.DistributedDataParallel._active_ddp_module is not None
        #: Where the emitted values of each input begin, and their widths if they differ.
        self.ends: np.ndarray = np.zeros(1, np.int64)
        self.widths: np.ndarray | None = None

    def run(self, parameters: list[Tensor], rows: Sequence[Tensor]) -> Any:
        """Runs the step, and keeps no values. Dropout needs a trainer."""
        if not self.drops and self.device == "cpu":
            with self.runs.engine(self.shared, parameters) as engine:
                return self._shapes(engine._run_packed(self.inputs, self._given(rows)))
        with self.runs.lock:
            return self._forward(parameters, rows, (self.drops, False, self.device))

    def forward(self, parameters: list[Tensor], rows: Sequence[Tensor], given: bool) -> Any:
        """Runs the step, and keeps its values for the way back."""
        with self.runs.lock:
            key = self.drops, given, self.device
            elements = self._forward(parameters, rows, key)
            self.runs.kept[key] = self
            return elements

    def _forward(self, parameters: list[Tensor], rows: Sequence[Tensor], key: Key) -> Any:
        if self.device != "cpu":
            self.runs.kept.pop(key, None)
            with torch.cuda.device_of([*parameters, *rows][0]):
                return self._shapes(_device.forward(self, parameters, rows, key))
        trainer = self.runs.trainer(self.shared, parameters, key)
        self.runs.kept.pop(key, None)
        trainer.set_updates(self.number)
        return self._shapes(trainer._forward_packed(self.inputs, self._given(rows)))

    def _given(self, rows: Sequence[Tensor]) -> tuple[Any, ...]:
        arrays = [tensor.detach().numpy() for tensor in rows]
        shared = self.shared
        return shared.records, arrays, self.offsets, shared.emitted, not self.packed

    def _shapes(self, outputs: tuple[Any, Any, Any]) -> Any:
        elements, self.ends, widths = outputs
        # For few rows, a set is faster than NumPy.
        few = len(widths) < 256
        if (len(set(widths.tolist())) if few else len(np.unique(widths))) <= 1:
            return elements.reshape(len(widths), widths[0] if len(widths) else 0)
        self.widths = widths
        if self.packed:
            got = sorted(set(widths.tolist()))
            raise ValueError(
                f"packed: expected emitted values of one width, got {got}: call the layer"
            )
        return elements

    def tensors(self, elements: Any) -> tuple[Tensor, ...]:
        """The outputs: all rows, as on a device, or a tensor for each input or vector."""
        if isinstance(elements, Tensor):
            if self.packed and not elements.numel() and self.shared.emitted is not None:
                elements = elements.reshape(len(elements), width(self.shared.emitted))
            return (elements,)
        if self.packed:
            if not elements.size and self.shared.emitted is not None:
                elements = elements.reshape(len(elements), width(self.shared.emitted))
            return (torch.from_numpy(elements),)
        if self.widths is None:
            starts = self.ends.tolist()
            return tuple(
                torch.from_numpy(elements[start:end]) for start, end in zip(starts, starts[1:])
            )
        vectors = np.split(elements, np.cumsum(self.widths)[:-1])
        return tuple(torch.from_numpy(vector) for vector in vectors)

    def nested(self, tensors: tuple[Tensor, ...]) -> tuple[Any, ...]:
        """A tensor for each input, or a tuple of vectors if an input's values differ in width."""
        if self.device != "cpu":
            sizes = np.diff(self.ends) if self.widths is None else self.widths
            tensors = torch.split(tensors[0], sizes.tolist())
        if self.widths is None:
            return tensors
        outputs: list[Any] = []
        starts = self.ends.tolist()
        for start, end in zip(starts, starts[1:]):
            widths = set(self.widths[start:end].tolist())
            vectors = tensors[start:end]
            if len(widths) > 1:
                outputs.append(vectors)
            else:
                empty = torch.zeros(0, 0, device=tensors[0].device)
                outputs.append(torch.stack(vectors) if vectors else empty)
        return tuple(outputs)

    def gradients(
        self, parameters: list[Tensor], rows: list[Tensor], outputs: Sequence[Tensor], given: bool
    ) -> tuple[list[Tensor], list[Any]]:
        """Returns the gradients of the parameters and of the given rows."""
        if self.shared.sparse and self.in_ddp:
            raise RuntimeError(_SPARSE_IN_DDP.format(", ".join(self.shared.sparse)))
        key = (self.drops, given, self.device)
        with self.runs.lock:
            if self.runs.kept.get(key) is not self:
                # Another call of the layer came between: its values replaced those of this one.
                self.forward(parameters, rows, given)
            self.runs.kept.pop(key)
            if self.device != "cpu":
                with torch.cuda.device_of(outputs[0]):
                    return _device.backward(self, parameters, rows, outputs[0], key)
            trainer = self.runs.trainers[key]
            trainer.clear_gradients()
            of_given = trainer._backward_packed(_joined(outputs))
            of_parameters: dict[str, Any] = trainer.gradients(sparse=list(self.shared.sparse))
            trainer.clear_gradients()
        named = [
            _gradient(of_parameters[name], tensor)
            for (name, _), tensor in zip(self.shared.shapes, parameters, strict=True)
        ]
        if not given:
            return named, [None] * len(rows)
        of_rows = zip(of_given, rows, strict=True)
        return named, [torch.from_numpy(array.reshape(each.shape)) for array, each in of_rows]


def _joined(outputs: Sequence[Tensor]) -> Any:
    if len(outputs) == 1:
        return outputs[0].detach().numpy()
    return torch.cat([gradient.detach().reshape(-1) for gradient in outputs]).numpy()


def _gradient(gradient: Any, tensor: Tensor) -> Tensor:
    if not isinstance(gradient, tuple):
        return torch.from_numpy(gradient.reshape(tensor.shape))
    rows, values = gradient
    order = np.argsort(rows)
    indices = torch.from_numpy(rows[order].astype(np.int64))
    values = values.reshape(len(rows), *tensor.shape[1:])[order]
    return torch.sparse_coo_tensor(
        indices[None],
        torch.from_numpy(values),
        tensor.shape,
        is_coalesced=True,
        check_invariants=False,
    )


class Run(torch.autograd.Function):
    """A step as a function of parameters and given rows."""

    @staticmethod
    def forward(ctx: Any, step: Step, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.step, ctx.count = step, count
        ctx.given = any(ctx.needs_input_grad[2 + count :])
        ctx.save_for_backward(*tensors)
        return step.tensors(step.forward([*tensors[:count]], tensors[count:], ctx.given))

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        with torch.no_grad():
            of_parameters, of_rows = ctx.step.gradients(
                [*tensors[: ctx.count]], [*tensors[ctx.count :]], outputs, ctx.given
            )
        gradients = [*of_parameters, *of_rows]
        if torch.is_grad_enabled():
            known = [gradient for gradient in gradients if gradient is not None]
            once = iter(_Once.apply(len(known), *known, *outputs, *tensors))
            gradients = [None if each is None else next(once) for each in gradients]
        return (None, None, *gradients)


class _Once(torch.autograd.Function):
    """The first derivatives as functions of all that they depend on, without derivatives."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise RuntimeError(
            "edbatch.torch.Layer: double backward is not supported: the layer has first "
            "derivatives only, so a loss of its gradients (a gradient penalty) cannot be trained"
        )


class Nothing(torch.autograd.Function):
    """Zeros that depend on tensors, with gradients of zero."""

    @staticmethod
    def forward(
        ctx: Any, shape: tuple[int, ...], sparse: Sequence[bool], *tensors: Tensor
    ) -> Tensor:
        ctx.sparse, ctx.shapes = sparse, [tensor.shape for tensor in tensors]
        ctx.types = [(tensor.dtype, tensor.device) for tensor in tensors]
        return torch.zeros(shape, device=tensors[0].device if tensors else None)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Any, ...]:
        def zeros(shape: Any, of: Any, sparse: bool) -> Tensor:
            dtype, device = of
            if not sparse:
                return torch.zeros(shape, dtype=dtype, device=device)
            none = torch.zeros(1, 0, dtype=torch.int64, device=device)
            values = torch.zeros(0, *shape[1:], dtype=dtype, device=device)
            return torch.sparse_coo_tensor(none, values, shape, is_coalesced=True)

        return (None, None, *map(zeros, ctx.shapes, ctx.types, ctx.sparse))
