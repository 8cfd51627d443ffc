"""A call of a layer whose tensors are on a device, which is torch's current one: no element is copied
through the host."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .. import _native

if TYPE_CHECKING:
    from ._runs import Key
    from ._step import Step


def checked(what: str, tensor: Any) -> Tensor:
    """A tensor in which a layer can compute."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
    if tensor.dtype != torch.float32 or not (tensor.is_cpu or tensor.is_cuda):
        cuda = tensor.is_cuda
        raise TypeError(
            f"{what}: expected a tensor of float32 on {'CUDA' if cuda else 'the CPU'}, got "
            f"{tensor.dtype} on {tensor.device}: a Layer computes there, so "
            + (
                f"convert with `.float(){'' if cuda else '.cpu()'}`"
                if tensor.is_floating_point()
                else "embed indices before, or pass them to `build` with the inputs"
            )
        )
    return tensor


def device_of(tensors: Sequence[Tensor], names: Sequence[str], count: int, on_cpu: str) -> str:
    """The name of the device of all tensors; ``on_cpu`` if they are there. The first ``count`` are
    parameters, and the others given rows."""
    if on_cpu == "cpu" and all(tensor.is_cpu for tensor in tensors):
        return on_cpu

    def what(at: int) -> str:
        return f"{'parameter' if at < count else 'given'} {names[at]}"

    device = tensors[0].device if tensors else torch.device("cpu")
    for at, tensor in enumerate(tensors):
        if tensor.device != device:
            raise TypeError(
                f"{what(at)}: expected a tensor on {device}, as {what(0)} is, got one on "
                f"{tensor.device}: move the layer or the tensor by `.to(...)`"
            )
        if not tensor.is_contiguous():
            raise TypeError(
                f"{what(at)}: expected a contiguous tensor on a device, got strides "
                f"{tensor.stride()} of shape {list(tensor.shape)}: call `.contiguous()`"
            )
    return f"cuda:{device.index}" if device.type == "cuda" else on_cpu


def forward(step: "Step", parameters: list[Tensor], rows: Sequence[Tensor], key: "Key") -> Any:
    """Runs a step forward, and returns its elements, the offsets of inputs, and widths."""
    runs, shared, device = step.runs, step.shared, [*parameters, *rows][0].device
    stream = _stream(device)
    trainer = runs.of_device(shared, key)
    trainer.set_updates(step.number)
    counts = [tensor.numel() for tensor in rows]
    given = shared.records, counts, step.offsets, shared.emitted, not step.packed
    # All work of the host comes before that of the device.
    count, offsets, widths = _native._decide(trainer, step.inputs, given)
    if runs._changed(key, parameters):
        _native._adopt(trainer, stream, _capsules(parameters))
        runs._has(key, parameters)
    elements = torch.empty(count, device=device)
    _native._forward_into(trainer, stream, _capsules(rows), _capsule(elements))
    return elements, offsets, widths


def backward(
    step: "Step", parameters: list[Tensor], rows: list[Tensor], outputs: Tensor, key: "Key"
) -> tuple[list[Tensor], list[Any]]:
    """Runs back the step that ran forward last, and returns all gradients."""
    trainer, device = step.runs.trainers[key], outputs.device
    shapes = [shape for _, shape in step.shared.shapes]
    # The others are masks of dropout.
    rows_of = _native._gradient_rows(trainer)[: len(shapes)]
    partial = zip(shapes, rows_of, strict=True)
    values = [
        torch.empty(shape if rows is None else (len(rows), *shape[1:]), device=device)
        for shape, rows in partial
    ]
    of_rows = [torch.empty_like(tensor) for tensor in rows] if key[1] else []
    outputs = outputs.detach().contiguous()
    _native._backward_from(
        trainer, _stream(device), _capsule(outputs), _capsules(of_rows), _capsules(values)
    )
    names = [name in step.shared.sparse for name, _ in step.shared.shapes]
    named = [
        _gradient(*each) for each in zip(rows_of, values, shapes, parameters, names, strict=True)
    ]
    return named, of_rows or [None] * len(rows)


def _gradient(
    rows: Any, values: Tensor, shape: tuple[int, ...], tensor: Tensor, sparse: bool
) -> Tensor:
    if rows is None:
        return values.reshape(tensor.shape)
    order = np.argsort(rows)
    indices = torch.from_numpy(np.stack([rows, order]).astype(np.int64)).to(values.device)
    if not sparse:
        zeros = torch.zeros(shape, device=values.device)
        return zeros.index_copy_(0, indices[0], values).reshape(tensor.shape)
    return torch.sparse_coo_tensor(
        indices[0][indices[1]][None],
        values.index_select(0, indices[1]).reshape(len(rows), *tensor.shape[1:]),
        tensor.shape,
        is_coalesced=True,
        check_invariants=False,
    )


def _stream(device: torch.device) -> int:
    """The stream whose order all work keeps."""
    if device.type != "cuda":
        return 0
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "edbatch.torch.Layer: a CUDA graph cannot capture it, because it wires and plans each "
            "mini-batch on the host: call it outside of torch.cuda.graph"
        )
    return int(torch.cuda.current_stream(device).cuda_stream)


def _capsule(tensor: Tensor) -> Any:
    # -1: the trainer itself waits for the stream.
    return tensor.detach().__dlpack__(stream=-1)


def _capsules(tensors: Sequence[Tensor]) -> list[Any]:
    return [_capsule(tensor) for tensor in tensors]
