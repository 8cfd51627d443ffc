"""Networks as modules of PyTorch, and modules of PyTorch as cells. Only here and `_trace` import
torch."""

try:
    import torch as _  # noqa: F401
except ModuleNotFoundError as _missing:
    if _missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        "edbatch.torch needs PyTorch: `pip install torch`, of which the version for CPUs is enough",
        name="torch",
    ) from None

from .._trace import TracedCell, TraceError, many, row, trace
from ._runs import _Runs, _Shared
from .layer import Layer
from .ranks import BalancedSampler

# Pickles name these three as `edbatch.torch.NAME`, as they did when this was one file.
for _kept in (Layer, _Shared, _Runs):
    _kept.__module__ = __name__
del _kept

__all__ = ["BalancedSampler", "Layer", "TraceError", "TracedCell", "many", "row", "trace"]
