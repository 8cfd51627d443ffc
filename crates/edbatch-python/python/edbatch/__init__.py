"""Fast inference for dynamic neural networks, whose graph differs from input to input.

A network declares cells once. A function wires one input; the engine batches the calls of all:

    import edbatch as ed

    net = ed.Network()
    state = net.record("state", h=128)

    @net.cell(state)
    def node(c):
        x = c.lookup("word", "embed", (30_000, 64))
        h, = c.many("children", state).sum()
        return (c.parameter("w", (128, 64)) @ x + c.parameter("u", (128, 128)) @ h).tanh()
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import cells
from ._graphs import dags, from_dgl, from_pyg
from ._native import (
    Awaitable,
    Build,
    CallError,
    CallList,
    Cell,
    CellBuilder,
    CellError,
    DeviceError,
    Engine,
    FileError,
    Graph,
    Group,
    Index,
    Network,
    Optimizer,
    Outcome,
    Record,
    Report,
    Schedule,
    Session,
    SessionStatistics,
    Statistics,
    Tensor,
    Trainer,
    TrainReport,
    Values,
    Weights,
    WeightsError,
    __version__,
    ada_grad,
    adam,
    adam_w,
    load,
    rms_prop,
    save,
    sgd,
)

if TYPE_CHECKING:
    from ._native import _Value as Value
else:
    # A value of an input: the result of a call, a given value, or an initial value.
    Value = int

Mapping.register(Weights)

__all__ = [
    "Awaitable",
    "Build",
    "CallError",
    "CallList",
    "Cell",
    "CellBuilder",
    "CellError",
    "DeviceError",
    "Engine",
    "FileError",
    "Graph",
    "Group",
    "Index",
    "Network",
    "Optimizer",
    "Outcome",
    "Record",
    "Report",
    "Schedule",
    "Session",
    "SessionStatistics",
    "Statistics",
    "Tensor",
    "Trainer",
    "TrainReport",
    "Value",
    "Values",
    "Weights",
    "WeightsError",
    "__version__",
    "ada_grad",
    "adam",
    "adam_w",
    "cells",
    "dags",
    "from_dgl",
    "from_pyg",
    "load",
    "rms_prop",
    "save",
    "sgd",
]
