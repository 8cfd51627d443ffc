"""What every peer does: reads the weights and the graphs of a folder, and answers on its pipes.

FOLDER holds `weights.safetensors` and `graphs.json`: the cells' names, and for each mini-batch its
calls `[cell, rows of tables, values]` in topological order and what is wanted. A value is the index
of a call, or negative where it is an initial one. A peer writes the results of the first mini-batch
to `results.f32`, then says `{"version": …}`, and then runs mini-batches: a line of their numbers
comes in, a line with the seconds of each goes out, `[computing, preparing]`.
"""

import json
import os
import struct
import sys


def read_weights(folder):
    """`name, shape, bytes` of each: a length, a header of JSON, and little-endian floats."""
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


def serve(folder, version, results, run):
    """`results` are those of the first mini-batch; `run` gives a mini-batch's seconds."""
    with open(os.path.join(folder, "results.f32"), "wb") as file:
        file.write(struct.pack(f"<{len(results)}f", *results))
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        print(json.dumps([run(number) for number in map(int, line.split())]), flush=True)
