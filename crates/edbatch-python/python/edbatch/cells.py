"""Equations of PyTorch's recurrent modules, to be called inside of a cell.

The names of their parameters are those that ``Weights.from_state_dict(…, recurrent={"lstm": "rnn"})``
gives to a module ``lstm``: the prefix of its layer ``k`` is ``rnn.{k}``, that of the backward half
of a bidirectional module ``rnn_reverse.{k}``.
"""

from ._native import CellBuilder, Tensor

__all__ = ["gru", "lstm"]


def lstm(
    c: CellBuilder, prefix: str, x: Tensor, h: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """A step of ``torch.nn.LSTM``: returns the new state and the new cell, ``(h, cell)``.

    ``x`` has the shape ``(in,)``; ``h`` and ``cell``, which the previous step returned, ``(H,)``.
    Gate ``g`` of ``i, f, g, o`` has the parameters ``{prefix}.w_g`` ``(H, in)``, ``{prefix}.u_g``
    ``(H, H)`` and ``{prefix}.b_g`` ``(H,)``, the sum of PyTorch's two biases.

    Raises CellError if a shape does not fit.
    """
    i, f, g, o = (_gate(c, prefix, letter, x, h) for letter in "ifgo")
    new_cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new_cell.tanh(), new_cell


def gru(c: CellBuilder, prefix: str, x: Tensor, h: Tensor) -> Tensor:
    """A step of ``torch.nn.GRU``: returns the new state.

    ``x`` has the shape ``(in,)``; ``h``, which the previous step returned, ``(H,)``. Gate ``g`` of
    ``r, z, c`` has the parameters ``{prefix}.w_g`` ``(H, in)``, ``{prefix}.u_g`` ``(H, H)`` and
    ``{prefix}.b_g`` ``(H,)``; PyTorch calls the last one n. It also has the bias ``{prefix}.d_c``
    ``(H,)``, because the reset gate multiplies a product: ``tanh(w x + b + r * (u h + d))``.

    Raises CellError if a shape does not fit.
    """
    reset, update = (_gate(c, prefix, letter, x, h).sigmoid() for letter in "rz")
    hidden, inputs = h.shape[0], x.shape[0]
    product = c.parameter(f"{prefix}.u_c", (hidden, hidden)) @ h + c.parameter(f"{prefix}.d_c", hidden)
    new = c.parameter(f"{prefix}.w_c", (hidden, inputs)) @ x + c.parameter(f"{prefix}.b_c", hidden)
    new = (new + reset * product).tanh()
    return new + update * (h - new)


def _gate(c: CellBuilder, prefix: str, letter: str, x: Tensor, h: Tensor) -> Tensor:
    hidden, inputs = h.shape[0], x.shape[0]
    w = c.parameter(f"{prefix}.w_{letter}", (hidden, inputs))
    u = c.parameter(f"{prefix}.u_{letter}", (hidden, hidden))
    return w @ x + u @ h + c.parameter(f"{prefix}.b_{letter}", hidden)
