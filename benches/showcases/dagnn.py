"""DAGNN (Thost and Chen, ICLR 2021) by the equations of one node.

    python3 dagnn.py                                   # random architectures, some seconds
    python3 dagnn.py --data final_structures6.txt.gz   # or EDBATCH_ARCHITECTURES=FILE
    python3 dagnn.py --task functions                  # syntax trees of the standard library
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

import edbatch as ed
from dagnn_data import read, split
from edbatch.torch import Layer, many, row, trace


class Node(nn.Module):
    """Two layers; in each, attention over the nodes before, and a GRU."""

    def __init__(self, embed, hidden):
        super().__init__()
        self.embed = embed
        self.gru1, self.gru2 = nn.GRUCell(hidden, hidden), nn.GRUCell(hidden, hidden)
        self.score1, self.score2 = (nn.Linear(hidden, 1, bias=False) for _ in range(2))

    def forward(self, token, before):  # before: h1, h2, s1 and s2 of n nodes
        m1 = (before.s1.softmax(0) * before.h1).sum(0)
        m2 = (before.s2.softmax(0) * before.h2).sum(0)
        return self.update(token, m1, m2)

    def update(self, token, m1, m2):
        h1 = self.gru1(self.embed(token), m1)
        h2 = self.gru2(h1, m2)
        return h1, h2, self.score1(h1), self.score2(h2)

    def first(self, token):  # a node that reads no other
        zeros = torch.zeros(self.gru1.hidden_size)
        return self.update(token, zeros, zeros)


class Pool(nn.Module):
    def forward(self, ends):
        return torch.cat([ends.h1.amax(0), ends.h2.amax(0)])


class DAGNN(nn.Module):
    """Goes along the edges and against them, then predicts from both ends."""

    def __init__(self, tokens, outputs, hidden):
        super().__init__()
        net, embed = ed.Network(), nn.Embedding(tokens, hidden)
        state = net.record("state", h1=hidden, h2=hidden, s1=1, s2=1)
        pooled = net.record("pooled", h=2 * hidden)
        self.cells = []
        for way in ("along", "against"):
            node = Node(embed, hidden)
            first = trace(net, f"{way}_first", node, [row], state, forward=Node.first)
            self.cells.append([first, trace(net, way, node, [row, many(state)], state)])
        self.pool = trace(net, "pool", Pool(), [many(state)], pooled)
        self.layer = Layer(net)
        self.out = nn.Linear(4 * hidden, outputs)

    def lists(self, graphs):
        """Two call lists for each graph. They are made once."""
        lists = []
        for cells, way in zip(self.cells, (1, 0)):
            reads = np.bincount(graphs.edges[way], minlength=len(graphs.tokens)) > 0
            lists.append(ed.dags(
                self.layer.network, cells, reads.astype(int), graphs.edges, graphs.ptr,
                rows=graphs.tokens, reverse=way == 0, readout=self.pool,
            ))  # fmt: skip
        return list(zip(*lists))

    def forward(self, pairs):
        rows, _ = self.layer.packed([calls for pair in pairs for calls in pair])
        return self.out(rows.reshape(len(pairs), -1))


def epoch(model, optimizer, batches, loss):
    """Trains on pairs of inputs and targets, and returns the seconds of the processor."""
    start = time.process_time()
    for at in torch.randperm(len(batches)):
        inputs, targets = batches[at]
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return time.process_time() - start


def scaled(graphs, train):
    """Classes, or numbers whose mean is 0 and whose deviation is 1, and how to scale them back."""
    if graphs.classes:
        return torch.tensor(graphs.targets), nn.functional.cross_entropy, (0.0, 1.0)
    of_train = graphs.targets[np.concatenate(train)]
    mean, deviation = of_train.mean(), of_train.std()
    targets = torch.tensor((graphs.targets - mean) / deviation, dtype=torch.float32)[:, None]
    return targets, nn.functional.mse_loss, (mean, deviation)


def errors(graphs, model, inputs, test, scale):
    """Accuracy, or the root of the mean squared error and Pearson's r."""
    with torch.inference_mode():
        outputs = torch.cat([model(batch) for batch in inputs]).numpy()
    targets = graphs.targets[np.concatenate(test)]
    if graphs.classes:
        return {"accuracy": float((outputs.argmax(1) == targets).mean())}
    guess = scale[0] + scale[1] * outputs[:, 0]
    root = float(np.sqrt(np.mean((guess - targets) ** 2)))
    return {"rmse": root, "r": float(np.corrcoef(guess, targets)[0, 1])}


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--task", choices=["architectures", "functions"], default="architectures")
    data = "a file of architectures (or $EDBATCH_ARCHITECTURES), or a folder of Python files"
    parser.add_argument("--data", help=data)
    parser.add_argument("--limit", type=int, default=2000, help="the number of graphs")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3, help="of Adam")
    parser.add_argument("--hidden", type=int, default=64)
    return parser


def main():
    args = options(__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    graphs = read(args.task, args.data, args.limit)
    train, test = split(graphs, args.batch)
    targets, loss, scale = scaled(graphs, train)
    model = DAGNN(graphs.vocabulary, len(graphs.classes) or 1, args.hidden)
    lists = model.lists(graphs)
    tests = [[lists[i] for i in batch] for batch in test]
    print("before", errors(graphs, model, tests, test, scale))
    batches = [([lists[i] for i in batch], targets[batch]) for batch in train]
    optimizer = torch.optim.Adam(model.parameters(), args.rate)
    seconds = [epoch(model, optimizer, batches, loss) for _ in range(args.epochs)]
    print("after", errors(graphs, model, tests, test, scale))
    count = sum(map(len, train))
    print(f"{np.median(seconds):.2f} s of the processor for an epoch of {count} graphs")


if __name__ == "__main__":
    main()
