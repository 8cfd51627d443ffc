"""A step of training in PyTorch with our layer inside, and the same model level by level.

    python layer_vs_torch.py [--trees FILE | --leaves 20] [--hidden 256] [--batch 64] [--steps 15]

Embedding, binary TreeLSTM, classifier of the roots; Adam; one thread. The steps of both alternate.
Trees are random, or the first of a file of SST, plain or .gz. PyTorch's side gets its best: trees
are sorted into levels beforehand, leaves and gates are stacked, and all nodes of a level run
together. Ours wires each tree in Python within the step. Prints the losses, which must agree, and
medians.
"""

import argparse
import gzip
import itertools
import random
import re
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

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
    leaves = [leaves_of(tree) for tree in trees]
    words = torch.randint(WORDS, (sum(leaves),))
    labels = torch.randint(CLASSES, (args.batch,))
    levels = Levels(trees)

    net, build = network(args.hidden, args.hidden)
    layer = Layer(net, build, given=("word",))
    encoder = Encoder(layer)
    embed, classify = nn.Embedding(WORDS, args.hidden), nn.Linear(args.hidden, CLASSES)

    def ours(embed, classify):
        return classify(torch.cat(layer(trees, embed(words).split(leaves))))

    def theirs(embed, classify):
        return classify(encoder(embed(words), levels))

    sides = []
    for name, module, forward in [("with Layer", layer, ours), ("torch alone", encoder, theirs)]:
        around = [nn.Embedding(WORDS, args.hidden), nn.Linear(args.hidden, CLASSES)]
        for copied, original in zip(around, (embed, classify)):
            copied.load_state_dict(original.state_dict())
        parameters = [*module.parameters(), *(p for it in around for p in it.parameters())]
        sides.append((name, forward, around, torch.optim.Adam(parameters, lr=1e-3), [], []))
    for step in range(args.steps + 2):
        for _, forward, around, optimizer, times, losses in sides:
            start = time.perf_counter()
            loss = F.cross_entropy(forward(*around), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # The first steps allocate.
            if step >= 2:
                times.append(time.perf_counter() - start)
            losses.append(loss.item())
    print(f"{len(trees)} trees of {sum(leaves)} leaves, {len(levels.levels)} levels, H = {args.hidden}")
    for name, *_, times, losses in sides:
        print(f"{name}: {1e3 * statistics.median(times):.1f} ms a step, losses {losses[0]:.5f} to {losses[-1]:.5f}")
    ratio = statistics.median(sides[0][4]) / statistics.median(sides[1][4])
    print(f"with Layer / torch alone: {ratio:.2f}")


main()
