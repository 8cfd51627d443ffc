"""Scores candidate plans in PyTorch, beside the example `plans` of the crate edbatch.

    cargo build --release -p edbatch --example plans
    python benches/showcases/plans_in_torch.py [FILE]

Three contestants: the example; the same network in PyTorch, level by level, with equal subplans
once; and another network, a convolution over trees that are padded to the largest of a query. All
indices are made before the clock starts. Scores of the same network are compared first. Then laps
alternate, on one thread each. Each plan is also computed alone, to see which bits change; the
example ends with an error if one of its own does.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from derivations_in_torch import EXAMPLES, ROOT, Session, seconds, tensors

BUNDLED = ROOT / "crates/edbatch/examples/plans/plans.jsonl"


def read(path):
    """Queries: lists of plans, which are lists of (operator, estimates, children, share)."""
    names, queries = {}, []
    for line in Path(path).read_text().splitlines():
        plans = []
        for plan in json.loads(line)["plans"]:
            nodes = []
            for node in plan:
                operator = names.setdefault(node["op"], len(names))
                estimates = [math.log1p(node[key]) / 10 for key in ("rows", "width", "cost")]
                nodes.append((operator, estimates, node["children"], node["share"]))
            plans.append(nodes)
        queries.append(plans)
    return queries


class Weights:
    def __init__(self, folder):
        found = tensors(folder)
        self.operators = found["operators"]
        self.v, self.out = found["v"].T.contiguous(), found["out"].T.contiguous()
        # Both products of a cell as one: [left, right] or [sum, max] by such a matrix.
        self.join = torch.cat([found["l"], found["r"]], 1).T.contiguous()
        self.other = torch.cat([found["w"], found["u"]], 1).T.contiguous()


class Levels:
    """The network of the example, on the plans of a query. Groups of nodes are slices."""

    def __init__(self, plans, weights):
        self.weights, known = weights, {}
        for plan in plans:
            for operator, estimates, children, share in plan:
                children = [plan[child][3] for child in children]
                level = 1 + max((known[child][0] for child in children), default=-1)
                known.setdefault(share, (level, len(children), operator, estimates, children))
        order = sorted(known, key=lambda share: known[share][:2])
        row = {share: at for at, share in enumerate(order)}
        self.operators = torch.tensor([known[share][2] for share in order])
        self.estimates = torch.tensor([known[share][3] for share in order])
        self.roots = torch.tensor([row[plan[-1][3]] for plan in plans])
        self.states = torch.empty(len(order), weights.operators.shape[1])
        groups = {}
        for share in order:
            groups.setdefault(known[share][:2], []).append(share)
        self.groups, begin = [], 0
        for (_, children), of in groups.items():
            if children > 2:
                sys.exit("expected nodes of at most two children")
            # The sum and the maximum of one child are the child.
            reads = [row[child] for share in of for child in (known[share][4] * 2)[:2]]
            matrix = [None, weights.other, weights.join][children]
            self.groups.append((begin, begin + len(of), matrix, torch.tensor(reads)))
            begin += len(of)

    def run(self):
        weights, states = self.weights, self.states
        own = weights.operators.index_select(0, self.operators)
        own = torch.addmm(own, self.estimates, weights.v)
        for begin, end, matrix, reads in self.groups:
            level = own[begin:end]
            if matrix is not None:
                reads = states.index_select(0, reads).view(end - begin, -1)
                level = torch.addmm(level, reads, matrix)
            torch.tanh(level, out=states[begin:end])
        return (states.index_select(0, self.roots) @ weights.out)[:, 0]


class Convolution(torch.nn.Module):
    """Three layers over a node and its two children, the maximum of all nodes, and a score."""

    def __init__(self, width):
        super().__init__()
        self.operators = torch.nn.Embedding(32, width)
        self.estimates = torch.nn.Linear(3, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3 * width, width) for _ in range(3))
        self.score = torch.nn.Linear(width, 1)

    def forward(self, operators, estimates, family, padding):
        """`family` has the rows of each node and its children in all plans; row 0 is padding."""
        h = self.operators(operators) + self.estimates(estimates)
        h = h.masked_fill(padding, 0)
        for layer in self.layers:
            reads = h.flatten(0, 1).index_select(0, family).view(*h.shape[:2], -1)
            h = torch.relu(layer(reads)).masked_fill(padding, 0)
        return self.score(h.amax(1))[:, 0]


class Padded:
    """Plans of a query as tensors of [plans, 1 + nodes of the largest plan]."""

    def __init__(self, plans, network):
        self.network, most = network, 1 + max(map(len, plans))
        operators = torch.zeros(len(plans), most, dtype=torch.long)
        estimates = torch.zeros(len(plans), most, 3)
        family = torch.zeros(len(plans), most, 3, dtype=torch.long)
        padding = torch.ones(len(plans), most, 1, dtype=torch.bool)
        for at, plan in enumerate(plans):
            family[at] = at * most
            for node, (operator, numbers, children, _) in enumerate(plan, 1):
                operators[at, node], padding[at, node] = operator, False
                estimates[at, node] = torch.tensor(numbers)
                rows = [node, *(1 + child for child in children)]
                family[at, node, : len(rows)] += torch.tensor(rows)
        self.inputs = operators, estimates, family.flatten(), padding

    def run(self):
        return self.network(*self.inputs)


def alone(make, plans):
    """The number of plans whose score has other bits alone, and the largest change."""
    together = make(plans).run()
    each = torch.cat([make([plan]).run() for plan in plans])
    return (each != together).sum().item(), (each - together).abs().max().item()


def difference(folder, queries):
    """The largest difference of a score to those that the Rust program wrote to the folder."""
    ours = torch.from_numpy(np.fromfile(Path(folder) / "scores.f32", "<f4"))
    weights = Weights(folder)
    return (
        (ours - torch.cat([Levels(plans, weights).run() for plans in queries])).abs().max().item()
    )


def measure(options, queries, width):
    torch.manual_seed(1)
    network = Convolution(width).eval()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(options.program, folder, width, options.file)
        weights, differs = Weights(folder), difference(folder, queries)
        makes = [lambda plans: Padded(plans, network), lambda plans: Levels(plans, weights)]
        made = [[make(plans) for make in makes] for plans in queries]
        laps = [
            (*(seconds(side.run) for side in query), session.lap())
            for _ in range(options.laps + 1)
            for query in made
        ]
        session.end()
    changes = [[alone(make, plans) for plans in queries] for make in makes]
    names = ["padded convolution", "levels in PyTorch", "session"]
    for number, name in enumerate(names):
        times = [lap[number] * 1e6 for lap in laps[len(queries) :]]
        # On a busy machine: the median query in the fastest of its laps.
        fastest = statistics.median(min(times[at :: len(queries)]) for at in range(len(queries)))
        times.sort()
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        changed, by = zip(*changes[number]) if number < 2 else ([0], [0])
        print(
            f"| {width} | {name} | {p50:.0f} | {p99:.0f} | {fastest:.0f} "
            f"| {sum(changed)} | {max(by):.0e} |",
            flush=True,
        )
    return differs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    file = os.environ.get("EDBATCH_PLANS", str(BUNDLED))
    parser.add_argument("file", nargs="?", default=file, help="as plans.py writes it")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--laps", type=int, default=50, help="laps over all queries")
    parser.add_argument("--program", default=str(EXAMPLES / "plans"))
    parser.add_argument("--difference", help="only compare with the scores of this folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    queries = read(options.file)
    with torch.inference_mode():
        if options.difference:
            print(difference(options.difference, queries))
            return
        count = sum(map(len, queries))
        print(f"{len(queries)} queries of {count} plans, {options.laps} laps, us a query\n")
        print("| H | contestant | p50 us | p99 us | fastest us | other bits alone | by |")
        print("|---|---|---|---|---|---|---|")
        differs = [measure(options, queries, width) for width in options.widths]
        print(f"\nScores of levels and session differ by at most {max(differs):.0e}.")


if __name__ == "__main__":
    main()
