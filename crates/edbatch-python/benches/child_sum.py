"""Child-Sum Tree-LSTMs for `layer_vs_torch.py`: one module in five ways.

Traced; the same cells declared by hand; cells as one writes them by hand; and level by level in
PyTorch, with levels from masks in each step, or sorted beforehand. All of them have the parameters
of the module.
"""

import time

import torch
from torch import nn

import edbatch as ed
from edbatch.torch import Layer, many, trace


class Cell(nn.Module):
    """The equations of a node, which has any number of children."""

    def __init__(self, width, hidden):
        super().__init__()
        self.ioux, self.iouh = nn.Linear(width, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.fx, self.fh = nn.Linear(width, hidden), nn.Linear(hidden, hidden)

    def forward(self, x, below):
        f = torch.sigmoid(self.fx(x) + self.fh(below.h))
        i, o, u = (self.ioux(x) + self.iouh(below.h.sum(0))).chunk(3)
        c = torch.sigmoid(i) * torch.tanh(u) + (f * below.c).sum(0)
        return torch.sigmoid(o) * torch.tanh(c), c


def records(width, hidden):
    net = ed.Network()
    return net, net.record("word", x=width), net.record("state", h=hidden, c=hidden)


def reader(net, state, hidden):
    """A cell that returns the field h of a state."""
    return net.cell(net.record("output", h=hidden), "read")(lambda c: c.one("root", state).h)


def layer_of(net, node, read):
    """A layer over trees whose nodes are numbered as they are visited. `node` calls cells."""

    def build(b, tree, words):
        words = iter(words)

        def wire(tree):
            x = next(words)
            return node(b, x, [wire(child) for child in tree or ()])

        b.emit(b.call(read, wire(tree)))

    return Layer(net, build, given=("word",))


def traced(module, width, hidden):
    """Returns the layer, and the seconds of a second trace."""
    net, word, state = records(width, hidden)
    trace(net, "node", Cell(width, hidden), [word, many(state)], state)
    start = time.perf_counter()
    trace(net, "again", Cell(width, hidden), [word, many(state)], state)
    seconds = time.perf_counter() - start
    net, word, state = records(width, hidden)
    cell = trace(net, "node", module, [word, many(state)], state)
    return layer_of(net, cell, reader(net, state, hidden)), seconds


class Equations:
    """The equations of a cell, by hand."""

    def __init__(self, c, hidden):
        self.c, self.hidden = c, hidden

    def linear(self, name, x, rows):
        w = self.c.parameter(f"node.{name}.weight", (rows, x.shape[0]))
        return w @ x + self.c.parameter(f"node.{name}.bias", rows)

    def forget(self, x, h):
        return (self.linear("fx", x, self.hidden) + self.linear("fh", h, self.hidden)).sigmoid()

    def update(self, x, sums, fc=None):
        iou = self.linear("ioux", x, 3 * self.hidden) + sums
        i, o, u = (iou[part * self.hidden : (part + 1) * self.hidden] for part in range(3))
        cell = i.sigmoid() * u.tanh()
        cell = cell if fc is None else cell + fc
        return o.sigmoid() * cell.tanh(), cell


def same_cells(width, hidden):
    """The cells that a trace makes: each child's record has its h, so one port has all sums."""
    net, word, state = records(width, hidden)
    made = net.record("node.each", v0=hidden, h=hidden)

    @net.cell(made, "node.each")
    def each(c):
        x, below = c.one("x", word).x, c.one("below", state)
        return Equations(c, hidden).forget(x, below.h) * below.c, below.h

    @net.cell(state)
    def node(c):
        x, below, of = c.one("x", word).x, c.many("below", made).sum(), Equations(c, hidden)
        return of.update(x, of.linear("iouh", below.h, 3 * hidden), below.v0)

    leaf = leaf_cell(net, word, state, hidden)

    def call(b, x, children):
        if not children:
            return b.call(leaf, x)
        return b.call(node, x, [b.call(each, x, child) for child in children])

    return layer_of(net, call, reader(net, state, hidden))


def natural_cells(width, hidden):
    """As one writes it by hand: the two children of a node are ports of one cell."""
    net, word, state = records(width, hidden)

    @net.cell(state)
    def node(c):
        x, of = c.one("x", word).x, Equations(c, hidden)
        (left, left_cell), (right, right_cell) = c.one("left", state), c.one("right", state)
        fc = of.forget(x, left) * left_cell + of.forget(x, right) * right_cell
        return of.update(x, of.linear("iouh", left + right, 3 * hidden), fc)

    leaf = leaf_cell(net, word, state, hidden)

    def call(b, x, children):
        return b.call(node, x, *children) if children else b.call(leaf, x)

    return layer_of(net, call, reader(net, state, hidden))


def leaf_cell(net, word, state, hidden):
    @net.cell(state, "node.leaf")
    def leaf(c):
        x = c.one("x", word).x
        return Equations(c, hidden).update(x, c.parameter("node.iouh.bias", 3 * hidden))

    return leaf


def edges_of(trees):
    """Pairs of a child and its parent, `[2, edges]`, and the roots."""
    pairs, roots, count = [], [], 0

    def visit(tree):
        nonlocal count
        at, count = count, count + 1
        pairs.extend([visit(child), at] for child in tree or ())
        return at

    for tree in trees:
        roots.append(visit(tree))
    return torch.tensor(pairs).T, torch.tensor(roots)


def by_masks(m, x, edges):
    """The module level by level, as such models are commonly written."""
    level = torch.zeros(len(x), dtype=torch.long)
    while (level[edges[1]] <= level[edges[0]]).any():
        level.scatter_reduce_(0, edges[1], level[edges[0]] + 1, "amax")
    h = c = x.new_zeros(len(x), m.fh.in_features)
    for k in range(int(level.max()) + 1):
        nodes = (level == k).nonzero()[:, 0]
        child, parent = edges[:, level[edges[1]] == k]
        f = torch.sigmoid(m.fx(x[parent]) + m.fh(h[child]))
        zeros, at = h.new_zeros(len(nodes), h.shape[1]), torch.searchsorted(nodes, parent)
        h_sum, fc = (zeros.index_add(0, at, y) for y in (h[child], f * c[child]))
        i, o, u = (m.ioux(x[nodes]) + m.iouh(h_sum)).chunk(3, dim=1)
        new = torch.sigmoid(i) * torch.tanh(u) + fc
        c = c.index_copy(0, nodes, new)
        h = h.index_copy(0, nodes, torch.sigmoid(o) * torch.tanh(new))
    return h


class Levels:
    """The nodes of a mini-batch by level. `places` are those of the trees' nodes among them."""

    def __init__(self, trees):
        levels, places, roots = [], [], []

        def visit(tree):
            at = len(places)
            places.append(None)
            children = [visit(child) for child in tree or ()]
            level = 1 + max((places[child][0] for child in children), default=-1)
            while len(levels) <= level:
                levels.append([])
            places[at] = level, len(levels[level])
            levels[level].append((at, children))
            return at

        roots = [visit(tree) for tree in trees]
        starts = [0]
        for nodes in levels:
            starts.append(starts[-1] + len(nodes))

        def place(node):
            return starts[places[node][0]] + places[node][1]

        self.words = torch.tensor([at for nodes in levels for at, _ in nodes])
        self.levels = []
        for start, nodes in zip(starts, levels):
            edges = [(place(k), at) for at, (_, below) in enumerate(nodes) for k in below]
            children, parents = zip(*edges) if edges else ((), ())
            self.levels.append((start, len(nodes), torch.tensor(children), torch.tensor(parents)))
        self.roots = torch.tensor([place(root) for root in roots])


def by_levels(module, words, levels):
    """The module with levels sorted beforehand. Products with words are one for all nodes."""
    words = words[levels.words]
    of_iou, of_f = module.ioux(words), module.fx(words)
    h = c = None
    for start, count, children, parents in levels.levels:
        iou, fc = of_iou[start : start + count], 0.0
        if h is None:
            iou = iou + module.iouh.bias
        else:
            below, zeros = h[children], h.new_zeros(count, h.shape[1])
            f = torch.sigmoid(of_f[start + parents] + module.fh(below))
            fc = zeros.index_add(0, parents, f * c[children])
            iou = iou + module.iouh(zeros.index_add(0, parents, below))
        i, o, u = iou.chunk(3, 1)
        new = torch.sigmoid(i) * torch.tanh(u) + fc
        state = torch.sigmoid(o) * torch.tanh(new)
        h, c = (state, new) if h is None else (torch.cat([h, state]), torch.cat([c, new]))
    return h[levels.roots]
