"""Compares `dagnn.py` with `dagnn_in_torch.py`: errors of several seeds, and processor times.

    python3 dagnn_compare.py > table.md                    # architectures; --task functions
    python3 dagnn_compare.py --draw figure.svg table.md…   # draws the times in these tables

Both sides begin with the same weights, and see the same mini-batches in the same order.
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from dagnn import DAGNN, epoch, errors, options, scaled
from dagnn_data import read, split
from dagnn_in_torch import Levels, prepared

SIDES = "ED-Batch", "PyTorch"


def compare(args, log=sys.stderr):
    """Returns the errors and the seconds of both sides, by their names."""
    graphs = read(args.task, args.data, args.limit)
    train, test = split(graphs, args.batch)
    targets, loss, scale = scaled(graphs, train)
    found, seconds = ({} for _ in range(2))
    indices = [[prepared(graphs, batch) for batch in part] for part in (train, test)]
    for seed in range(1, args.seeds + 1):
        torch.manual_seed(seed)
        ours = DAGNN(graphs.vocabulary, len(graphs.classes) or 1, args.hidden)
        lists = ours.lists(graphs)
        of_lists = [[[lists[i] for i in batch] for batch in part] for part in (train, test)]
        sides = [(ours, *of_lists), (Levels(ours), *indices)]
        check(*[(model, inputs[0]) for model, inputs, _ in sides], log)
        optimizers = [torch.optim.Adam(model.parameters(), args.rate) for model, *_ in sides]
        for lap in range(args.epochs):
            for name, (model, inputs, _), optimizer in zip(SIDES, sides, optimizers):
                torch.manual_seed(1000 * seed + lap)
                batches = [(each, targets[batch]) for each, batch in zip(inputs, train)]
                taken = epoch(model, optimizer, batches, loss)
                seconds.setdefault("training", {}).setdefault(name, []).append(taken)
        for name, (model, inputs, tests) in zip(SIDES, sides):
            for error, value in errors(graphs, model, tests, test, scale).items():
                found.setdefault(error, {}).setdefault(name, []).append(value)
        for name, (model, inputs, _) in 2 * list(zip(SIDES, sides)):
            seconds.setdefault("inference", {}).setdefault(name, []).append(infer(model, inputs))
        print(f"seed {seed}:", {e: [v[-1] for v in f.values()] for e, f in found.items()}, file=log)
    count = sum(map(len, train))
    usual = np.bincount(graphs.targets[np.concatenate(train)]).argmax() if graphs.classes else None
    if usual is not None:
        share = np.mean(graphs.targets[np.concatenate(test)] == usual)
        print(f"commonest class: {graphs.classes[usual]}, {share:.3f} of the test", file=log)
    print(f"{len(graphs.tokens)} nodes, {graphs.edges.shape[1]} edges", file=log)
    return count, found, seconds


def check(ours, theirs, log):
    """Compares the outputs and the gradients of one mini-batch."""
    outputs = [model(inputs) for model, inputs in (ours, theirs)]
    for (model, _), output in zip((ours, theirs), outputs):
        output.square().mean().backward()
    pairs = list(zip(ours[0].parameters(), theirs[0].parameters(), strict=True))
    of_outputs = float((outputs[0] - outputs[1]).detach().abs().max())
    of_gradients = max(float((mine.grad - other.grad).abs().max()) for mine, other in pairs)
    print(f"largest difference: {of_outputs:.1e}, of gradients {of_gradients:.1e}", file=log)
    assert of_outputs < 1e-5 and of_gradients < 1e-5


def infer(model, inputs):
    start = time.process_time()
    with torch.inference_mode():
        for each in inputs:
            model(each)
    return time.process_time() - start


def table(task, count, found, seconds):
    rows = ["| | ED-Batch | PyTorch | |", "|---|--:|--:|---|"]
    for error, of in found.items():
        (a, b), (da, db) = (
            [f(of[name]) for name in SIDES]
            for f in (statistics.mean, lambda v: statistics.stdev(v) if len(v) > 1 else 0.0)
        )
        same = "same" if abs(a - b) <= max(da, db) else "differs"
        rows.append(f"| {task}, {error} | {a:.5f} ± {da:.5f} | {b:.5f} ± {db:.5f} | {same} |")
    for what, of in seconds.items():
        a, b = (count / statistics.median(of[name]) for name in SIDES)
        rows.append(f"| {task}, {what}, graphs/s | {a:,.0f} | {b:,.0f} | {a / b:.1f} times |")
    return rows


def draw(file, tables):
    """Bars of graphs a second, relative to PyTorch."""
    lines = [line for path in tables for line in Path(path).read_text().splitlines()]
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if "graphs/s" in line]
    bars = [(c[0].rsplit(",", 1)[0], *(float(v.replace(",", "")) for v in c[1:3])) for c in cells]
    # Narrow enough for a phone, with room for the value after the longest bar.
    scale = 310 / max(ours / theirs for _, ours, theirs in bars)
    high = 60 * len(bars) + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 {high}" width="528" '
        'font-size="12" font-family="sans-serif">',
        f'<rect width="440" height="{high}" fill="white"/>',
        '<text x="8" y="18" fill="#555">graphs a second (relative length)</text>',
    ]
    for at, (name, ours, theirs) in enumerate(bars):
        y = 47 + 60 * at
        out.append(f'<text x="8" y="{y - 6}">{name}</text>')
        for row, (label, value, fill) in enumerate(
            [(SIDES[0], ours, "#2f855a"), (SIDES[1], theirs, "#9aa5b1")]
        ):
            width, top = scale * value / theirs, y + 17 * row
            out += [
                f'<rect x="8" y="{top}" width="{width:.1f}" height="15" fill="{fill}"/>',
                f'<text x="{14 + width:.1f}" y="{top + 12}">{value:,.0f} {label}</text>',
            ]
    Path(file).write_text("\n".join([*out, "</svg>", ""]))


def main():
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draw", nargs="+", metavar="FILE", help="an SVG, and tables")
    args = parser.parse_args()
    if args.draw:
        return draw(args.draw[0], args.draw[1:])
    torch.set_num_threads(1)
    print("\n".join(table(args.task, *compare(args))))


if __name__ == "__main__":
    main()
