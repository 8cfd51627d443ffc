"""The benchmark's workloads in PyTorch on a GPU: eagerly, and as a graph replayed per mini-batch.

    python3 baseline.py [--device cuda|cpu] [--seconds S] FOLDER...

A FOLDER holds what `pytorch.py` beside this file reads, and `expected.f32`, the results of the
first mini-batch, which are compared before anything is timed. For each folder it prints a line of
JSON: by way of running, the largest difference and the seconds of each run, or why it was skipped.

Levels and tensors of indices are made, and inputs are on the device, before the clock runs: that
favours this program. The clock stops when results are on the host. Products are exact, not TF32.
"""

import argparse
import json
import os
import struct
import time

import torch

import protocol
import pytorch

# By how much results may differ: products are summed up in other orders.
TOLERANCE = 1e-3


def timed(runs, seconds):
    """Seconds of runs in turns, each at least three times."""
    for run in runs:
        run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 * len(runs) or time.perf_counter() < end:
        for run in runs:
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
    return times


def eager(model, prepared):
    return lambda: model.run(prepared).cpu()


def replayed(model, prepared):
    """Captures the launches of one mini-batch; only for its topology."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model.run(prepared)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = model.run(prepared)

    def run():
        graph.replay()
        return results.cpu()

    return run


def measure(make, model, prepared, expected, seconds):
    try:
        runs = [make(model, batch) for batch in prepared]
        results = runs[0]().flatten()
    except RuntimeError as error:
        return {"skipped": str(error).splitlines()[0]}
    if results.shape != expected.shape:
        return {"wrong": f"{len(results)} results, expected {len(expected)}"}
    difference = (results - expected).abs().max().item()
    if not difference <= TOLERANCE:
        return {"wrong": f"results differ by {difference}"}
    return {"difference": difference, "seconds": timed(runs, seconds)}


def floats(path):
    with open(path, "rb") as file:
        data = file.read()
    return torch.tensor(struct.unpack(f"<{len(data) // 4}f", data), device="cpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each way of running")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(3, "PyTorch finds no CUDA device\n")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_default_device(options.device)
    for folder in options.folders:
        graphs = protocol.read_graphs(folder)
        weights = pytorch.read_weights(folder)
        weights = {name: tensor.to(options.device) for name, tensor in weights.items()}
        expected = floats(os.path.join(folder, "expected.f32"))
        with torch.inference_mode():
            model = pytorch.MODELS[graphs["model"]](weights, graphs["cells"])
            batches = graphs["mini_batches"]
            prepared = [model.prepare(pytorch.Calls(graphs["cells"], b)) for b in batches]
            line = {"model": graphs["model"], "version": torch.__version__}
            ways = {"eager": eager, "graph replayed": replayed}
            for name, make in ways.items():
                if make is replayed and options.device == "cpu":
                    line[name] = {"skipped": "there are no graphs of launches on a CPU"}
                else:
                    line[name] = measure(make, model, prepared, expected, options.seconds)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
