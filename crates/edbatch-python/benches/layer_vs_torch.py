"""A step of training in PyTorch with our layer inside, and the same model level by level.

    python layer_vs_torch.py [--trees FILE | --leaves 20] [--hidden 256] [--batch 64] [--steps 15]

Embedding, binary TreeLSTM, classifier of the roots; Adam; one thread. The steps of both alternate.
Trees are random, or the first of a file of SST, plain or .gz. PyTorch's side gets its best: trees
are sorted into levels beforehand, leaves and gates are stacked, and all nodes of a level run
together. Ours wires each tree in Python within the step. Prints the losses, which must agree,
medians of CPU time, and of the ratio of two steps that follow each other.

Then the same with a Child-Sum TreeLSTM, which has a word at each node (`child_sum.py`): a traced
module beside the same cells declared by hand, beside natural cells, and beside PyTorch.
"""

import argparse
import copy
import gzip
import itertools
import random
import re
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

import child_sum
import edbatch as ed
from edbatch.torch import Layer

WORDS, CLASSES = 1000, 5


def network(width, hidden):
    net = ed.Network()
    word = net.record("word", x=width)
    state = net.record("state", h=hidden, c=hidden)
    output = net.record("output", h=hidden)

    def gate(c, name, *inputs):
        sums = [c.parameter(f"{name}.{w}", (hidden, x.shape[0])) @ x for w, x in inputs]
        return sum(sums[1:], sums[0]) + c.parameter(f"{name}.b", hidden)

    @net.cell(state)
    def leaf(c):
        x = c.one("word", word).x
        i, o, u = (gate(c, f"leaf.{name}", ("w", x)) for name in "iou")
        cell = i.sigmoid() * u.tanh()
        return o.sigmoid() * cell.tanh(), cell

    @net.cell(state)
    def node(c):
        (left, left_cell), (right, right_cell) = c.one("left", state), c.one("right", state)
        gates = (gate(c, f"node.{name}", ("l", left), ("r", right)) for name in ("i", "o", "u", "f", "g"))
        i, o, u, f, g = gates
        cell = i.sigmoid() * u.tanh() + f.sigmoid() * left_cell + g.sigmoid() * right_cell
        return o.sigmoid() * cell.tanh(), cell

    @net.cell(output)
    def read(c):
        return c.one("root", state).h

    def build(b, tree, words):
        words = iter(words)

        def wire(tree):
            if tree is None:
                return b.call(leaf, next(words))
            left, right = tree
            return b.call(node, wire(left), wire(right))

        b.emit(b.call(read, wire(tree)))

    return net, build


class Levels:
    """The places of a mini-batch's nodes: leaves first, then level by level."""

    def __init__(self, trees):
        self.levels = []
        leaves, roots = [], []

        def height(tree):
            if tree is None:
                leaves.append(None)
                return 0, ("leaf", len(leaves) - 1)
            (below, left), (beside, right) = height(tree[0]), height(tree[1])
            level = 1 + max(below, beside)
            while len(self.levels) < level:
                self.levels.append([])
            self.levels[level - 1].append((left, right))
            return level, (level, len(self.levels[level - 1]) - 1)

        roots = [height(tree)[1] for tree in trees]
        starts, count = {"leaf": 0}, len(leaves)
        for level, nodes in enumerate(self.levels, 1):
            starts[level] = count
            count += len(nodes)

        def places(keys):
            return torch.tensor([starts[level] + index for level, index in keys])

        self.levels = [
            (places([left for left, _ in nodes]), places([right for _, right in nodes]))
            for nodes in self.levels
        ]
        self.roots = places(roots)


class Encoder(nn.Module):
    def __init__(self, layer):
        super().__init__()
        state = layer.state_dict()

        def stack(cell, part, gates):
            return nn.Parameter(torch.cat([state[f"{cell}.{gate}.{part}"] for gate in gates]).clone())

        self.leaf_w, self.leaf_b = (stack("leaf", part, "iou") for part in "wb")
        self.left, self.right, self.bias = (stack("node", part, "ioufg") for part in "lrb")

    def forward(self, words, levels):
        i, o, u = F.linear(words, self.leaf_w, self.leaf_b).chunk(3, 1)
        c = i.sigmoid() * u.tanh()
        h = o.sigmoid() * c.tanh()
        weight = torch.cat([self.left, self.right], 1)
        for left, right in levels.levels:
            children = torch.cat([h[left], h[right]], 1)
            i, o, u, f, g = F.linear(children, weight, self.bias).chunk(5, 1)
            new = i.sigmoid() * u.tanh() + f.sigmoid() * c[left] + g.sigmoid() * c[right]
            h, c = torch.cat([h, o.sigmoid() * new.tanh()]), torch.cat([c, new])
        return h[levels.roots]


def random_tree(leaves):
    if leaves == 1:
        return None
    left = random.randint(1, leaves - 1)
    return random_tree(left), random_tree(leaves - left)


def read_trees(path, count):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        return [
            read_tree(iter(re.findall(r"[()]|[^\s()]+", line)[1:]))
            for line in itertools.islice(lines, count)
        ]


def read_tree(words):
    """Reads `(label word)` or `(label tree tree)` after its opening parenthesis."""
    next(words)
    if next(words) != "(":
        next(words)
        return None
    left = read_tree(words)
    next(words)
    right = read_tree(words)
    next(words)
    return left, right


def leaves_of(tree):
    return 1 if tree is None else sum(map(leaves_of, tree))


def nodes_of(tree):
    return 1 + sum(map(nodes_of, tree or ()))


class Side:
    """A contestant: a module between an embedding and a classifier of its own."""

    def __init__(self, name, module, forward, around):
        self.name, self.forward, self.around = name, forward, copy.deepcopy(around)
        parameters = [*module.parameters(), *self.around.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-3)
        self.times, self.losses = [], []

    def step(self, words, labels):
        start = time.process_time()
        embed, classify = self.around
        loss = F.cross_entropy(classify(self.forward(embed(words))), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.times.append(time.process_time() - start)
        self.losses.append(loss.item())

    @property
    def median(self):
        return statistics.median(self.times[2:])  # The first steps allocate.


def measure(sides, words, labels, steps):
    """Alternates the steps of all sides, and prints losses, times, and ratios to the first."""
    for _ in range(steps + 2):
        for side in sides:
            side.step(words, labels)
    for side in sides:
        first, last = side.losses[0], side.losses[-1]
        print(f"{side.name}: {1e3 * side.median:.1f} ms a step, losses {first:.5f} to {last:.5f}")
    for side in sides[1:]:
        ratios = [ours / theirs for ours, theirs in zip(sides[0].times[2:], side.times[2:])]
        print(f"{sides[0].name} / {side.name}: {statistics.median(ratios):.3f}")


def binary(trees, around, labels, args):
    leaves = [leaves_of(tree) for tree in trees]
    words = torch.randint(WORDS, (sum(leaves),))
    levels = Levels(trees)
    net, build = network(args.hidden, args.hidden)
    layer = Layer(net, build, given=("word",))
    encoder = Encoder(layer)
    print(f"{len(trees)} trees of {sum(leaves)} leaves, {len(levels.levels)} levels, H = {args.hidden}")
    sides = [
        Side("with Layer", layer, lambda x: torch.cat(layer(trees, x.split(leaves))), around),
        Side("torch alone", encoder, lambda x: encoder(x, levels), around),
    ]
    measure(sides, words, labels, args.steps)


def sums(trees, around, labels, args):
    nodes = [nodes_of(tree) for tree in trees]
    words = torch.randint(WORDS, (sum(nodes),))
    levels = child_sum.Levels(trees)
    module = child_sum.Cell(args.hidden, args.hidden)
    masked, sorted_ = copy.deepcopy(module), copy.deepcopy(module)
    edges, roots = child_sum.edges_of(trees)
    layer, seconds = child_sum.traced(module, args.hidden, args.hidden)
    same, natural = (
        make(args.hidden, args.hidden) for make in (child_sum.same_cells, child_sum.natural_cells)
    )
    for other in (same, natural):
        other.load_state_dict(layer.state_dict())

    def forward(layer):
        return lambda x: torch.cat(layer(trees, x.split(nodes)))

    print(f"{len(trees)} Child-Sum trees of {sum(nodes)} nodes, traced in {seconds:.2f} s")
    sides = [
        Side("traced", layer, forward(layer), around),
        Side("same cells by hand", same, forward(same), around),
        Side("natural cells by hand", natural, forward(natural), around),
        Side("torch", masked, lambda x: child_sum.by_masks(masked, x, edges)[roots], around),
        Side("torch, sorted", sorted_, lambda x: child_sum.by_levels(sorted_, x, levels), around),
    ]
    measure(sides, words, labels, args.steps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trees")
    for name, default in [("hidden", 256), ("batch", 64), ("leaves", 20), ("steps", 15)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(1)
    if args.trees:
        trees = read_trees(args.trees, args.batch)
    else:
        trees = [random_tree(args.leaves) for _ in range(args.batch)]
    labels = torch.randint(CLASSES, (args.batch,))
    around = nn.ModuleList([nn.Embedding(WORDS, args.hidden), nn.Linear(args.hidden, CLASSES)])
    for model in (binary, sums):
        model(trees, around, labels, args)


main()
