"""Reads the weights and the graphs of a folder, and answers on the pipes of a peer.

FOLDER holds `weights.safetensors` and `graphs.json`: the names of the cells, and for each mini-batch
its calls `[cell, rows of tables, values]` in topological order and the wanted values. A value is the
index of a call, or negative for an initial value. A peer writes the results of the first mini-batch
to `results.f32` and prints `{"version": …}`, or `{"skipped": reason}` if it cannot run the model.
Then it reads lines with numbers of mini-batches, and answers each with a line of the seconds of
each, `[computing, preparing]`.
"""

import json
import os
import struct
import sys


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


def skip(reason):
    """Reports that this peer cannot run the model."""
    print(json.dumps({"skipped": reason}), flush=True)


def serve(folder, version, results, run):
    """Serves mini-batches. `results` belong to the first one; `run` returns the seconds of one."""
    with open(os.path.join(folder, "results.f32"), "wb") as file:
        file.write(struct.pack(f"<{len(results)}f", *results))
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        print(json.dumps([run(number) for number in map(int, line.split())]), flush=True)
