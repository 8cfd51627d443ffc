"""The torch layer beside the Trainer, on kept call lists.

    python packed.py [--trees 64] [--leaves 20] [--hidden 64] [--steps 40]

A binary tree network without tables; its words are given rows. Both sides run the same kept lists
forward and back, with the parameters set before each step, and without an optimizer. The steps
alternate. `bare` is the least that a layer costs: the same Trainer in an autograd function that
does nothing else. Then engines run lists that were made here, and the same lists after pickling in
another process. Prints medians of CPU time, and of the ratio of two steps that follow each other.
"""

import argparse
import multiprocessing
import pickle
import random
import statistics
import time

import numpy as np
import torch

import edbatch as ed
from edbatch.torch import Layer


def network(hidden):
    net = ed.Network()
    word, state = net.record("word", x=hidden), net.record("state", h=hidden)

    @net.cell(state)
    def leaf(c):
        return (c.parameter("leaf.w", (hidden, hidden)) @ c.one("word", word).x).tanh()

    @net.cell(state)
    def node(c):
        (left,), (right,) = c.one("left", state), c.one("right", state)
        w, u = c.parameter("node.w", (hidden, hidden)), c.parameter("node.u", (hidden, hidden))
        return (w @ left + u @ right + c.parameter("node.b", hidden)).tanh()

    return net


def wire(net, calls, leaves, words, rng):
    if leaves == 1:
        return calls.call(net.cells["leaf"], next(words))
    left = rng.randint(1, leaves - 1)
    below = [wire(net, calls, count, words, rng) for count in (left, leaves - left)]
    return calls.call(net.cells["node"], *below)


def slots(net, leaves, seed):
    calls = ed.CallList(net)
    words = iter(calls.slots(net.records["word"], leaves))
    calls.emit(wire(net, calls, leaves, words, random.Random(seed)))
    return calls


def given(net, leaves, seed, rows):
    calls = ed.CallList(net)
    words = iter([calls.give(net.records["word"], row) for row in rows])
    calls.emit(wire(net, calls, leaves, words, random.Random(seed)))
    return calls


def pickled(arguments):
    """Makes lists in another process."""
    hidden, trees, leaves = arguments
    net = network(hidden)
    rows = np.ones((leaves, hidden), np.float32)
    return pickle.dumps([given(net, leaves, seed, rows) for seed in range(trees)])


class Bare(torch.autograd.Function):
    """The calls of a trainer, without checks."""

    @staticmethod
    def forward(ctx, trainer, names, lists, record, rows, *parameters):
        ctx.trainer, ctx.shape = trainer, rows.shape
        ctx.save_for_backward(rows, *parameters)
        arrays = (each.detach().numpy() for each in parameters)
        trainer.set_parameters(ed.Weights(dict(zip(names, arrays))))
        given = [record], [rows.numpy()], None, None, False
        return torch.from_numpy(trainer._forward_packed(lists, given)[0]).view(len(lists), -1)

    @staticmethod
    def backward(ctx, gradient):
        (of_rows,) = ctx.trainer._backward_packed(gradient.numpy())
        of_parameters = map(torch.from_numpy, ctx.trainer.gradients().values())
        ctx.trainer.clear_gradients()
        return None, None, None, None, torch.from_numpy(of_rows).view(ctx.shape), *of_parameters


def compare(ours, theirs, steps):
    times = []
    for _ in range(steps):
        pair = []
        for side in (ours, theirs):
            start = time.process_time()
            side()
            pair.append(time.process_time() - start)
        times.append(pair)
    times = times[3:]
    medians = [1e3 * statistics.median(of_side) for of_side in zip(*times, strict=True)]
    return *medians, statistics.median(ours / theirs for ours, theirs in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("trees", 64), ("leaves", 20), ("hidden", 64), ("steps", 40)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    trees, leaves, hidden = options.trees, options.leaves, options.hidden
    torch.set_num_threads(1)
    net = network(hidden)
    layer = Layer(net, given=("word",))
    x = torch.randn(trees * leaves, hidden, requires_grad=True)
    lists = [slots(net, leaves, seed) for seed in range(trees)]
    weight = torch.ones(trees, hidden)

    names, parameters = list(net.parameters), list(layer.parameters())

    def back(forward):
        for tensor in (x, *parameters):
            tensor.grad = None
        forward().backward(weight)

    def ours():
        layer.refresh()
        back(lambda: layer.packed(lists, x)[0])

    rows = x.detach().numpy().reshape(trees, leaves, hidden)
    fixed = [given(net, leaves, seed, of_tree) for seed, of_tree in enumerate(rows)]
    arrays = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    weights = ed.Weights(arrays)
    trainer = ed.Trainer(net, weights, optimizer=ed.sgd(0.0), given_gradients=True)
    inside = ed.Trainer(net, weights, optimizer=ed.sgd(0.0), given_gradients=True)
    word = net.records["word"]
    ones = list(np.ones((trees, 1, hidden), np.float32))

    def theirs():
        trainer.set_parameters(ed.Weights(arrays))
        trainer.forward(fixed)
        trainer.backward(ones)
        trainer.gradients()
        trainer.clear_gradients()

    def bare():
        back(lambda: Bare.apply(inside, names, lists, word, x, *parameters))

    for name, side in (("packed", ours), ("bare", bare)):
        own, of_trainer, ratio = compare(side, theirs, options.steps)
        print(f"forward and back: {name} {own:.2f} ms, Trainer {of_trainer:.2f} ms, {ratio:.3f}")

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (text,) = pool.map(pickled, [(hidden, trees, leaves)])
    others = pickle.loads(text)
    assert others[0].network is net
    local = [given(net, leaves, seed, np.ones((leaves, hidden))) for seed in range(trees)]
    engine = ed.Engine(net, weights)
    other, own, ratio = compare(
        lambda: engine.run(others), lambda: engine.run(local), 5 * options.steps
    )
    print(f"run: lists of another process {other:.2f} ms, lists made here {own:.2f} ms, {ratio:.3f}")


if __name__ == "__main__":
    main()
