"""Prints what the package costs: calls, arrays, awaits, and TreeLSTMs beside the Rust model.

    python benches/speed.py [HIDDEN ...]

One core, medians of interleaved runs. The Rust model is `tree_lstm` of the zoo; its time is the
engine's own: construct, schedule, plan and execute.
"""

import json
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import edbatch as ed
import numpy as np

TREES, LEAVES, WORDS, CLASSES = 64, 20, 1000, 5


class TreeLstm:
    """The cells of the zoo's `tree_lstm`, and the wiring of a tree."""

    def __init__(self, hidden):
        self.hidden, net = hidden, ed.Network()
        self.net, state = net, net.record("state", h=hidden, c=hidden)
        logits = net.record("logits", logits=CLASSES)

        @net.cell(state)
        def leaf(c):
            e = c.lookup("token", "embed.weight", (WORDS, hidden))

            def gate(g):
                return c.parameter(f"leaf.w_{g}", (hidden, hidden)) @ e + c.parameter(
                    f"leaf.b_{g}", hidden
                )

            i, o = gate("i").sigmoid(), gate("o").sigmoid()
            memory = i * gate("u").tanh()
            return o * memory.tanh(), memory

        @net.cell(state)
        def node(c):
            (h_l, c_l), (h_r, c_r) = c.one("left", state), c.one("right", state)

            def u(g):
                return c.parameter(f"node.u_{g}", (hidden, hidden))

            def b(g):
                return c.parameter(f"node.b_{g}", hidden)

            def gate(g):
                return u(f"{g}_l") @ h_l + u(f"{g}_r") @ h_r + b(g)

            i, o = gate("i").sigmoid(), gate("o").sigmoid()
            f_l = (u("f_l") @ h_l + b("f")).sigmoid()
            f_r = (u("f_r") @ h_r + b("f")).sigmoid()
            memory = i * gate("u").tanh() + f_l * c_l + f_r * c_r
            return o * memory.tanh(), memory

        @net.cell(logits)
        def output(c):
            h = c.one("state", state).h
            return c.parameter("out.weight", (CLASSES, hidden)) @ h + c.parameter(
                "out.bias", CLASSES
            )

        self.leaf, self.node, self.output = leaf, node, output
        self.weights = ed.Weights.random(net)

    def build(self, b, tree):
        call, leaf, node, output, states = b.call, self.leaf, self.node, self.output, []

        def wire(tree):
            if isinstance(tree, int):
                state = call(leaf, tree)
            else:
                state = call(node, wire(tree[0]), wire(tree[1]))
            states.append(state)
            return state

        wire(tree)
        b.emit(*[call(output, state) for state in states])

    def zoo(self, folder):
        """Returns the Rust model with the same weights."""
        config = {"model": "tree_lstm", "input": "trees.txt", "hidden": self.hidden}
        config |= {"embed": self.hidden, "classes": CLASSES}
        (folder / "config.json").write_text(json.dumps(config))
        vocabulary = ["<unk>"] + [f"w{word}" for word in range(1, WORDS)]
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
        self.weights.save(folder / "weights.safetensors")
        return ed.load(folder)


def random_tree(rng, leaves):
    if leaves == 1:
        return rng.randrange(1, WORDS)
    left = rng.randrange(1, leaves)
    return random_tree(rng, left), random_tree(rng, leaves - left)


def text(tree):
    if isinstance(tree, int):
        return f"(2 w{tree})"
    return f"(2 {text(tree[0])} {text(tree[1])})"


def own_time(engine, inputs):
    """Runs inputs, and returns the time of the engine alone."""

    def total():
        s = engine.statistics
        return s.construct + s.schedule + s.plan + s.execute

    before = total()
    engine.run(inputs)
    return total() - before


def wall_time(engine, inputs):
    start = time.perf_counter()
    engine.run(inputs)
    return time.perf_counter() - start


def shares(hidden, rounds=60):
    model, rng = TreeLstm(hidden), random.Random(1)
    trees = [random_tree(rng, LEAVES) for _ in range(TREES)]
    lists = []
    for tree in trees:
        calls = ed.CallList(model.net)
        model.build(calls, tree)
        lists.append(calls)
    arrays = [calls.to_arrays() for calls in lists]
    plain = ed.Engine(model.net, model.weights, model.build)
    kept = ed.Engine(model.net, model.weights)
    with tempfile.TemporaryDirectory() as folder:
        rust, lines = model.zoo(Path(folder)), [text(tree) for tree in trees]
        for ours, theirs in zip(plain.run(trees), rust.run(lines), strict=True):
            assert ours.tobytes() == theirs.tobytes(), "the same bits as the Rust model"

        def from_arrays():
            start = time.perf_counter()
            kept.run([ed.CallList.from_arrays(model.net, *calls) for calls in arrays])
            return time.perf_counter() - start

        ways = {
            "plain": lambda: wall_time(plain, trees),
            "kept": lambda: wall_time(kept, lists),
            "arrays": from_arrays,
            "rust": lambda: own_time(rust, lines),
        }
        times = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                times[name].append(way())
    medians = {name: statistics.median(each) for name, each in times.items()}
    line = "".join(f"  {name} {medians['rust'] / medians[name]:.2f}" for name in ways)
    print(f"H {hidden}: {medians['rust'] * 1e3:.2f} ms in Rust; share of its speed:{line}")


def nanoseconds(work, count, rounds=15):
    """Returns the median time of an item of work."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work()
        times.append((time.perf_counter_ns() - start) / count)
    return statistics.median(times)


def costs():
    model, n = TreeLstm(2), 20_000
    calls = ed.CallList(model.net)
    clear, call, leaf, node = calls.clear, calls.call, model.leaf, model.node

    def empty():
        for _ in range(n):
            clear()

    def leaves():
        clear()
        for word in range(n):
            call(leaf, 7)

    def nodes():
        clear()
        left = call(leaf, 7)
        for _ in range(n):
            call(node, left, left)

    weights = model.weights

    def tensors():
        for _ in range(n):
            weights["out.bias"]

    print(f"b.clear of an empty list: {nanoseconds(empty, n):.0f} ns")
    print(f"b.call of a leaf: {nanoseconds(leaves, n):.0f} ns")
    print(f"b.call of a node of two: {nanoseconds(nodes, n):.0f} ns")
    rng = random.Random(1)
    calls.clear()
    for _ in range(n // 78):
        model.build(calls, random_tree(rng, LEAVES))
    arrays, made = calls.to_arrays(), len(calls)
    each = nanoseconds(lambda: ed.CallList.from_arrays(model.net, *arrays), made)
    print(f"from_arrays, a call: {each:.1f} ns")
    kept, engine = ed.CallList(model.net), ed.Engine(model.net, model.weights)
    kept.emit(kept.call(leaf, 7))
    lists = [kept] * n
    all_lists = nanoseconds(lambda: engine.run(lists), n)
    print(f"an input of one call, run, its result as an array: {all_lists:.0f} ns")
    print(f"a small array alone, a tensor of the weights: {nanoseconds(tensors, n):.0f} ns")

    async def awaits(b, rounds):
        state = b.call(leaf, 7)
        for _ in range(rounds):
            _, state = await b.fetch(b.call(node, state, state), state)
        b.emit(state)

    decoder = ed.Engine(model.net, model.weights, awaits)
    each = nanoseconds(lambda: decoder.run([20] * 64), 20 * 64)
    print(f"an await with its call and its round, 64 inputs: {each:.0f} ns")


def of_threads(hidden=256, runs=20):
    """Two Python threads on forks beside one thread: the speed on two free cores."""
    model, rng = TreeLstm(hidden), random.Random(1)
    lists = []
    for _ in range(TREES):
        calls = ed.CallList(model.net)
        model.build(calls, random_tree(rng, LEAVES))
        lists.append(calls)
    engine = ed.Engine(model.net, model.weights)
    forks = [engine.fork(), engine.fork()]

    def work(fork):
        for _ in range(runs):
            fork.run(lists)

    def timed(forks):
        started = [threading.Thread(target=work, args=(fork,)) for fork in forks]
        start = time.perf_counter()
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return time.perf_counter() - start

    timed(forks)
    pairs = [(timed(forks[:1]), timed(forks)) for _ in range(5)]
    speed = statistics.median(2 * one / two for one, two in pairs)
    print(f"two threads on forks: {speed:.2f} times the speed of one")


if __name__ == "__main__":
    costs()
    of_threads()
    for width in [int(width) for width in sys.argv[1:]] or [128, 256]:
        shares(width)
