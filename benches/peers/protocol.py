"""Reads the weights and the graphs of a folder, and answers on the pipes of a peer.

FOLDER holds `weights.safetensors` and `graphs.json`: the names of the cells, and for each
mini-batch of the smallest size its calls `[cell, rows of tables, values]` in topological order and
the wanted values. A value is the index of a call, or negative for an initial value. A peer prints
`{"version": …}`, or `{"skipped": reason}` if it cannot run the model.

Then it reads lines of JSON, `[merged, [number, …], kept]`, and answers each with a line. `merged`
consecutive mini-batches of the file make one; `number` counts these. The answer to `kept` false is
the list of the seconds of each, `[computing, preparing]`. With `kept` true it writes the results to
`results.f32`, one mini-batch after the other, and answers with the way that it runs mini-batches of
this size: a text, empty if there is only one way. A request that cannot be answered is answered
`{"skipped": reason}`, and the peer goes on.
"""

import json
import os
import struct
import sys
import time


def read_weights(folder):
    """Yields `name, shape, bytes`. The file has a length, a JSON header, and little-endian floats."""
    with open(os.path.join(folder, "weights.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry["shape"], data[begin:end]


def read_graphs(folder):
    with open(os.path.join(folder, "graphs.json")) as file:
        return json.load(file)


class Skipped(Exception):
    """The reason why a request cannot be answered."""


def skip(reason):
    """Reports that this peer cannot run the model, or answer a request."""
    print(json.dumps({"skipped": reason}), flush=True)


def merged(batches, count, number):
    """Merges `count` consecutive mini-batches into one."""
    calls, wanted = [], []
    for batch in batches[number * count : (number + 1) * count]:
        first = len(calls)
        moved = lambda value: value + first if value >= 0 else value
        wanted.extend(map(moved, batch["wanted"]))
        for cell, rows, values in batch["calls"]:
            calls.append((cell, rows, list(map(moved, values))))
    return {"calls": calls, "wanted": wanted}


def serve(folder, version, run, way=lambda count: "", wait=lambda: None):
    """Serves mini-batches. `run(count, number)` returns the seconds of one and its results as an
    array; `way(count)` names the way that mini-batches of this size are run. If runs only enqueue
    their work, `wait()` waits for the end of all work; the last one of a request has its time."""
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        count, numbers, kept = json.loads(line)
        try:
            if kept:
                with open(os.path.join(folder, "results.f32"), "wb") as file:
                    for number in numbers:
                        results = run(count, number)[1].ravel().tolist()
                        file.write(struct.pack(f"<{len(results)}f", *results))
                answer = way(count)
            else:
                answer = [run(count, number)[0] for number in numbers]
                began = time.perf_counter()
                wait()
                computing, preparing = answer[-1]
                answer[-1] = computing + time.perf_counter() - began, preparing
            print(json.dumps(answer), flush=True)
        except Skipped as reason:
            skip(str(reason))
