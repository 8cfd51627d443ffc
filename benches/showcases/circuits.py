"""The probability that each gate of a circuit is 1, by a graph network: the task of DeepGate.

Node states flow from the inputs to the outputs, then back. Each node attends to the nodes that it
reads, and updates its state by a GRU cell.

    python circuits.py                  # trains on cones of a random circuit, and predicts others
    python circuits.py --folder FOLDER  # predicts files in the AIGER format, such as EPFL's
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import aiger
import edbatch as ed
from edbatch.torch import Layer, many, trace

H = 64


class Cell(nn.Module):
    """A node: attention over the states that it reads, and a GRU cell. Its state has a score."""

    def __init__(self, inputs):
        super().__init__()
        self.gru, self.score = nn.GRUCell(inputs, H), nn.Linear(H, 1)

    def forward(self, x, below):  # [inputs]; of the n nodes that it reads: h [n, H], score [n, 1]
        message = (torch.softmax(below.score, 0) * below.h).sum(0)
        h = self.gru(x, message)
        return h, self.score(h)

    def first(self, x):  # A node that reads none.
        h = self.gru(x)
        return h, self.score(h)

    def again(self, x, below):  # A node that begins with a state of the pass before.
        return self(x.h, below)


class DeepGate(nn.Module):
    def __init__(self):
        super().__init__()
        up, down = Cell(3), Cell(H)
        read = nn.Sequential(nn.Linear(H, H), nn.ReLU(), nn.Linear(H, 1), nn.Sigmoid())
        net = ed.Network()
        kind, state = net.record("kind", x=3), net.record("state", h=H, score=1)
        self.up_cells = [
            trace(net, "start", up, [kind], state, forward=Cell.first),
            trace(net, "up", up, [kind, many(state)], state),
        ]
        self.up = Layer(net, given="kind", emits="state")
        net = ed.Network()
        state, share = net.record("state", h=H, score=1), net.record("share", p=1)
        self.down_cells = [
            trace(net, "end", down, [state], state, forward=lambda m, x: m.first(x.h)),
            trace(net, "down", down, [state, many(state)], state, forward=Cell.again),
        ]
        self.read = trace(net, "read", read, [state], share, forward=lambda m, s: m(s.h))
        self.down = Layer(net, given="state", emits="share")

    def wire(self, circuit):
        """Makes the call lists of both passes once, for any number of calls of `forward`."""
        kinds, edges, ptr = circuit
        nodes = np.arange(len(kinds))
        reads, is_read = (np.isin(nodes, ends).astype(int) for ends in edges[::-1])
        rows = {"ptr": ptr, "features": {"x": None}, "emit": "all"}
        up = ed.dags(self.up.network, self.up_cells, reads, edges, **rows)
        rows |= {"reverse": True, "readout": self.read}
        down = ed.dags(self.down.network, self.down_cells, is_read, edges, **rows)
        return nn.functional.one_hot(torch.from_numpy(kinds), 3).float(), up, down

    def forward(self, wired):  # The share of ones of each node.
        x, up, down = wired
        states, _ = self.up.packed(up, x)
        shares, _ = self.down.packed(down, states)
        return shares[:, 0]


def cones(count, size, seed, limit=500):
    """Mini-batches of cones of a random circuit, and the labels of their nodes."""
    whole = aiger.generate(seed, ands=20_000)
    roots = np.random.default_rng(seed).integers(1_000, len(whole.ands), count)
    graphs = [aiger.cone(whole, int(root), limit) for root in roots]
    batches = [aiger.join(graphs[at : at + size]) for at in range(0, count, size)]
    return [(batch, torch.from_numpy(aiger.labels(batch)).float()) for batch in batches]


def step(model, optimizer, batch, labels):  # Returns the loss.
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(batch), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def paths(folder):
    """The circuits of a folder, the smallest files first."""
    found = sorted(Path(folder).glob("*.a[ia]g"), key=lambda path: path.stat().st_size)
    if not found:
        raise argparse.ArgumentTypeError(f"{folder}: expected files *.aig or *.aag, got none")
    return found


def files(found):
    """The circuits of files by name, or generated ones."""
    generated = ("wide", 1_000, 5_000), ("middle", 100, 200), ("deep", 8, 8)
    yield from ((path.stem, aiger.read(path)) for path in found or ())
    for name, inputs, window in () if found else generated:
        yield name, aiger.graph(aiger.generate(1, inputs, 5_000, window))


def options(description):
    parser = argparse.ArgumentParser(description=description)
    add, folder = parser.add_argument, os.environ.get("EDBATCH_CIRCUITS")
    add("--folder", default=folder, type=paths, help="of *.aig and *.aag; EDBATCH_CIRCUITS")
    add("--cones", type=int, default=512, help="the number of circuits to train on")
    add("--batch", type=int, default=16, help="the number of circuits in a mini-batch")
    add("--epochs", type=int, default=3)
    add("--seed", type=int, default=1)
    return parser


def main():
    args = options("Trains on cones of a random circuit, and predicts whole circuits.").parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model, data = DeepGate(), cones(args.cones, args.batch, args.seed)
    data = [(model.wire(batch), labels) for batch, labels in data]
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(args.epochs):
        start = time.perf_counter()
        loss = np.mean([step(model, optimizer, *pair) for pair in data])
        print(f"epoch {epoch + 1}: loss {loss:.5f}, {time.perf_counter() - start:.1f} s")
    for name, circuit in files(args.folder):
        wired, start = model.wire(circuit), time.perf_counter()
        with torch.inference_mode():
            shares = model(wired).numpy()
        seconds = time.perf_counter() - start
        loss = np.abs(shares - aiger.labels(circuit, patterns=1_024)).mean()
        print(f"{name}: {len(shares):,} nodes, {1e3 * seconds:.1f} ms, loss {loss:.3f}")


if __name__ == "__main__":
    main()
