"""Compares the cells of a traced module with the module itself, values and gradients."""

import torch
from torch import nn

import edbatch as ed
from edbatch.torch import Layer, many, trace

I, H = 3, 4

#: Old versions of PyTorch know the lines of `forward` alone, not of functions that it calls.
KNOWS_FUNCTIONS = hasattr(torch.fx.proxy.TracerBase, "_filter_traceback_frames")


class Fn(nn.Module):
    """A function of a module with these submodules and parameters."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(
                self, name, nn.Parameter(member) if isinstance(member, torch.Tensor) else member
            )

    def forward(self, *arguments):
        return self.function(self, *arguments)


def line_of(file, mark):
    """The number of the line that ends in `# at: mark`."""
    with open(file, encoding="utf-8") as lines:
        return next(
            at for at, line in enumerate(lines, 1) if line.rstrip().endswith(f"# at: {mark}")
        )


def numbers(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def records(**fields):
    net = ed.Network()
    return net, net.record("word", x=I), net.record("state", **(fields or {"h": H}))


def close(got, want, tolerance=1e-5):
    got, want = got.detach(), want.detach()
    assert got.shape == want.shape
    scale = max(1.0, float(want.abs().max()) if want.numel() else 0.0)
    assert got.numel() == 0 or float((got - want).abs().max()) <= tolerance * scale, (got, want)


def close_gradients(got, want, tensors):
    """The gradients of the sums of squares, where None is a gradient of zeros."""
    used = [tensor for tensor in tensors if tensor.requires_grad and tensor.numel()]
    sides = [torch.autograd.grad(y.square().sum(), used, allow_unused=True) for y in (got, want)]
    for tensor, ours, theirs in zip(used, *sides, strict=True):
        close(*(torch.zeros_like(tensor) if g is None else g for g in (ours, theirs)))


def compare(module, ports, counts=(1, 2, 5), **options):
    """Traces a module whose ports are words "w", states "s" and any number of states "m".

    Returns the traced cell and a layer that calls it.
    """
    net, word, state = records()
    kinds = {"w": word, "s": state, "m": many(state)}
    cell = trace(net, "node", module, [kinds[port] for port in ports], state, **options)
    layer = Layer(net, calls(cell, ports), ("word", "state")).eval()
    ones = ports.count("s")
    for count in counts if "m" in ports else (0,):
        x = numbers(count + 1, 1, I).requires_grad_()
        s = numbers(count + 2, ones + count, H).requires_grad_()
        got = layer([None], [x], [s])[0][0]
        rest = iter(s[:ones])
        arguments = [{"w": x[0], "m": s[ones:]}[p] if p in "wm" else next(rest) for p in ports]
        want = called(module, arguments, **options)
        close(got, want)
        close_gradients(got, want, [*module.parameters(), x, s])
    return cell, layer


def calls(cell, ports):
    """Wires one call with a given word and given states."""

    def build(b, _, words, states):
        rest = list(states)
        operands = {"w": lambda: words[0], "s": lambda: rest.pop(0), "m": lambda: rest}
        b.emit(cell(b, *[operands[port]() for port in ports]))

    return build


def called(module, arguments, forward=None, batched=False):
    """Calls the module as a trace with these options does."""
    training = module.training
    try:
        module.eval()
        if batched:
            return module(*[argument[None] for argument in arguments])[0]
        return forward(module, *arguments) if forward else module(*arguments)
    finally:
        module.train(training)
