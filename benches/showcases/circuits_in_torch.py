"""The model of `circuits.py` level by level in PyTorch, and the comparison.

`Levels` prepares the indices of a mini-batch once. Nodes are in the order of levels, so each level
is a range of rows. `predict` writes into one buffer of all states. `train_pass` hands the states of
a level on to the levels that read them, because the gradient of `states[sources]` is as large as
all states.
"""

import copy
import statistics
import time

import numpy as np
import torch
from torch import nn

from aiger import levels
from circuits import DeepGate, H, cones, files, options, step


class Pass:
    """The levels of a direction: for each its nodes, what it reads, and who reads it."""

    def __init__(self, nodes, edges):
        of_nodes = levels(nodes, edges)
        self.order = np.argsort(of_nodes, kind="stable")
        self.sizes = np.bincount(of_nodes).tolist()
        ends = np.cumsum(self.sizes)
        place = np.empty(nodes, np.int64)
        place[self.order] = np.arange(nodes)
        sources, targets = place[edges]
        source_levels, target_levels = of_nodes[edges]
        starts = ends - self.sizes

        # Edges by the level that they enter, then by the one that they leave.
        entering = np.lexsort([source_levels, target_levels])
        cuts = np.cumsum(np.bincount(target_levels, minlength=len(ends)))[:-1]
        reads = np.split(sources[entering], cuts)
        into = np.split((targets - starts[target_levels])[entering], cuts)
        self.steps = [(*map(torch.from_numpy, pair),) for pair in zip(reads, into)]

        leaving = np.lexsort([target_levels, source_levels])
        cuts = np.cumsum(np.bincount(source_levels, minlength=len(ends)))[:-1]
        rows = np.split((sources - starts[source_levels])[leaving], cuts)
        self.sends = []
        for own, to in zip(rows, np.split(target_levels[leaving], cuts)):
            readers, counts = np.unique(to, return_counts=True)
            self.sends.append((torch.from_numpy(own), counts.tolist(), readers.tolist()))
        self.order = torch.from_numpy(self.order)


class Levels:
    """A circuit, or a mini-batch of them, prepared for both passes."""

    def __init__(self, circuit):
        kinds, edges = torch.from_numpy(circuit.kinds), circuit.edges
        self.up, self.down = Pass(len(kinds), edges), Pass(len(kinds), edges[::-1])
        self.x = nn.functional.one_hot(kinds, 3).float()[self.up.order]
        self.turn = torch.argsort(self.up.order)[self.down.order]
        self.nodes = torch.argsort(self.down.order)


def attend(below, into, nodes):
    """Attention of each node to rows `[h, 1, score]`: a softmax of the rows of each node."""
    scores = below[:, H + 1 :]
    weighted = below * (scores - scores.detach().max()).exp()
    sums = below.new_zeros(nodes, H + 2).index_add_(0, into, weighted)
    return sums[:, :H] / sums[:, H : H + 1]


def predict_pass(cell, x, levels):
    """The states of all nodes, by the equations of `nn.GRUCell`, which are faster in place."""
    gru, score, rows, start = cell.gru, cell.score, x.new_ones(len(x), H + 2), 0
    w_x, w_h, w_score = gru.weight_ih.t(), gru.weight_hh.t(), score.weight.t()
    for size, (sources, into) in zip(levels.sizes, levels.steps):
        end = start + size
        h = rows[start:end, :H]
        if start:
            message = attend(rows.index_select(0, sources), into, size)
            of_x = torch.addmm(gru.bias_ih, x[start:end], w_x)
            of_h = torch.addmm(gru.bias_hh, message, w_h)
            r, z = of_x[:, : 2 * H].add_(of_h[:, : 2 * H]).sigmoid_().chunk(2, 1)
            new = of_x[:, 2 * H :].addcmul_(r, of_h[:, 2 * H :]).tanh_()
            torch.lerp(new, message, z, out=h)
        else:
            h.copy_(gru(x[:end]))
        torch.addmm(score.bias, h, w_score, out=rows[start:end, H + 1 :])
        start = end
    return rows[:, :H]


def train_pass(cell, x, levels):
    of_nodes, inbox, states = x.split(levels.sizes), [[] for _ in levels.sizes], []
    for level, (_, into) in enumerate(levels.steps):
        own, counts, readers = levels.sends[level]
        message = attend(torch.cat(inbox[level]), into, levels.sizes[level]) if level else None
        inbox[level] = None
        h = cell.gru(of_nodes[level], message)
        states.append(h)
        rows = torch.cat([h, h.new_ones(len(h), 1), cell.score(h)], 1).index_select(0, own)
        for reader, sent in zip(readers, rows.split(counts)):
            inbox[reader].append(sent)
    return torch.cat(states)


class InTorch(nn.Module):
    """The model with copies of the modules of a `DeepGate`."""

    def __init__(self, model):
        super().__init__()
        modules = model.up.start, model.down.end, model.down.read
        self.up, self.down, self.read = (copy.deepcopy(module) for module in modules)

    def forward(self, batch):
        """The share of ones of each node, in the order of nodes."""
        one_pass = train_pass if torch.is_grad_enabled() else predict_pass
        states = one_pass(self.up, batch.x, batch.up)
        states = one_pass(self.down, states.index_select(0, batch.turn), batch.down)
        return self.read(states).index_select(0, batch.nodes)[:, 0]


def timed(function, *arguments):
    """The result, and the seconds of CPU time: both sides have one thread."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def compare_forward(ours, theirs, found, seconds):
    """Prints a row of a table for each circuit. `seconds` is the time that PyTorch may take."""
    print("| circuit | nodes | levels | ours, ms | PyTorch, ms | ratio | laps | difference |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, circuit in files(found):
        wired, batch = ours.wire(circuit), Levels(circuit)
        with torch.inference_mode():
            expected, first = timed(theirs, batch)
            difference = (ours(wired) - expected).abs().max().item()
            laps = max(3, min(21, int(seconds / first)))
            pairs = [(timed(ours, wired)[1], timed(theirs, batch)[1]) for _ in range(laps)]
        mine, others = (statistics.median(each) for each in zip(*pairs))
        print(
            f"| {name} | {len(circuit.kinds):,} | {len(batch.up.sizes):,} | {1e3 * mine:,.1f} | "
            f"{1e3 * others:,.1f} | {others / mine:.2f} | {laps} | {difference:.1e} |", flush=True
        )  # fmt: skip


def compare_training(ours, theirs, data, epochs):
    """Trains both, each mini-batch by the one and then by the other. Returns their losses."""
    mine, others = (torch.optim.Adam(model.parameters(), 1e-3) for model in (ours, theirs))
    data = [(ours.wire(batch), Levels(batch), labels) for batch, labels in data]
    print("| epoch | loss, ours | loss, PyTorch | ours, ms a step | PyTorch, ms a step | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    losses = []
    for epoch in range(epochs):
        of_ours = of_theirs = ()
        for wired, batch, labels in data:
            of_ours += (timed(step, ours, mine, wired, labels),)
            of_theirs += (timed(step, theirs, others, batch, labels),)
        (loss, expected), (a, b) = (
            [f([pair[at] for pair in laps]) for laps in (of_ours, of_theirs)]
            for at, f in enumerate((statistics.mean, statistics.median))
        )
        losses.append((loss, expected))
        print(
            f"| {epoch + 1} | {loss:.6f} | {expected:.6f} | {1e3 * a:.1f} | {1e3 * b:.1f} | "
            f"{b / a:.2f} |", flush=True
        )  # fmt: skip
    return losses


def main():
    parser = options("Compares the model with PyTorch's. Prints tables: medians of laps in turn.")
    parser.add_argument("--seconds", type=float, default=2, help="of PyTorch's laps on a circuit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    ours = DeepGate()
    theirs = InTorch(ours)
    compare_forward(ours, theirs, args.folder, args.seconds)
    print()
    compare_training(ours, theirs, cones(args.cones, args.batch, args.seed), args.epochs)


if __name__ == "__main__":
    main()
