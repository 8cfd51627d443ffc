"""A layer of trees with the same equations in torch, for the tests of `edbatch.torch`."""

import edbatch as ed
import torch
from edbatch.torch import Layer
from torch import nn

E, H = 4, 5
NET = ed.Network()
WORD, STATE = NET.record("word", x=E), NET.record("state", h=H)
NONE = NET.initial(STATE, h="none.h")
NAMES = ["none.h", "cell.w", "cell.u", "cell.b"]


@NET.cell(STATE)
def node(c):
    x = c.one("word", WORD).x
    (h,) = c.many("children", STATE).sum()
    w, u = c.parameter("cell.w", (H, E)), c.parameter("cell.u", (H, H))
    return (w @ x + u @ h + c.parameter("cell.b", H)).tanh()


def wire(call, tree, words):
    return call(node, words[tree[0]], [wire(call, below, words) for below in tree[1]] or [NONE])


def build(b, tree, words):
    b.emit(wire(b.call, tree, words))


# Trees whose words are numbered, and the numbers of these.
TREES = [(0, [(1, []), (2, [(3, []), (4, [])])]), (0, []), (2, [(1, []), (0, [])])]
SIZES, OFFSETS = [5, 1, 3], [0, 5, 6, 9]


def slot_list(index, network=NET):
    calls = ed.CallList(network)
    calls.emit(wire(calls.call, TREES[index], calls.slots(WORD, SIZES[index])))
    return calls


def slot_lists(indices=(0, 1, 2)):
    return [slot_list(index) for index in indices]


def matrix(seed=1, width=E, rows=9, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=generator).requires_grad_(grad)


def parts(x):
    return list(torch.split(x, SIZES))


def layer(**options):
    torch.manual_seed(0)
    return Layer(NET, build, ("word",), **options)


def named(layer):
    return {name: layer.get_parameter(name) for name in NAMES}


def reference(p, x, trees=TREES, offsets=OFFSETS):
    """The roots of trees by torch, from a mapping of parameters."""

    def state(tree, rows):
        below = [state(each, rows) for each in tree[1]]
        h = torch.stack(below).sum(0) if below else p["none.h"]
        return torch.tanh(p["cell.w"] @ rows[tree[0]] + p["cell.u"] @ h + p["cell.b"])

    pairs = zip(trees, offsets, offsets[1:])
    return torch.stack([state(tree, x[first:end]) for tree, first, end in pairs])


def close(got, expected, tolerance=1e-5):
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance, check_dtype=False)


class Model(nn.Module):
    """A layer between two others, with a tensor for each tree."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.pre, self.out = nn.Linear(3, E), nn.Linear(H, 2)
        self.enc = Layer(NET, build, ("word",), **options)

    def forward(self, trees, x):
        return self.out(torch.cat(self.enc(trees, parts(self.pre(x)))))


class Packed(Model):
    """The same model with one tensor for all trees."""

    def forward(self, lists, x):
        return self.out(self.enc.packed(lists, self.pre(x))[0])


class Equations(Model):
    """The same model in torch."""

    def forward(self, trees, x):
        return self.out(reference(named(self.enc), self.pre(x)))


def steps(model, inputs, x, count=4, call=None):
    """Trains, and returns the losses."""
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (model if call is None else call)(inputs, x).float().square().sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
