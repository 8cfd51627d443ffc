"""Circuits of AND gates and inverters: files in the AIGER format, a generator, and labels.

The format is described in https://fmv.jku.at/aiger/FORMAT.aiger, with symbols and comments, which
are skipped.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

INPUT, AND, NOT = range(3)

#: The largest number of inputs and gates that `parse` accepts.
MAX_VARIABLES = 1 << 26


class Aig(NamedTuple):
    """An and-inverter graph. Literal 2v is variable v, and 2v + 1 its inverse."""

    inputs: np.ndarray  # [inputs] even literals
    ands: np.ndarray  # [ands, 3]: an even literal, and the two literals that it is the AND of
    outputs: np.ndarray  # [outputs] literals


class Circuit(NamedTuple):
    """Graphs of inputs, ANDs, and an inverter for each inverse that is read."""

    kinds: np.ndarray  # [nodes]: INPUT, AND or NOT
    edges: np.ndarray  # [2, edges]: sources and targets
    ptr: np.ndarray  # Graph g has the nodes ptr[g]:ptr[g + 1]


def read(path) -> Circuit:
    """Reads a file, `aig` or `aag`. Raises ValueError with the path if it is malformed."""
    try:
        return graph(parse(Path(path).read_bytes()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse(data: bytes) -> Aig:
    """Parses a file. Raises ValueError."""
    header, _, rest = data.partition(b"\n")
    name, *words = header[:200].split() or [b""]
    if name not in (b"aig", b"aag") or len(words) < 5 or not all(map(bytes.isdigit, words)):
        raise ValueError(f"header: expected aig or aag and M I L O A, got {header[:40]!r}")
    variables, inputs, latches, outputs, ands, *properties = map(int, words)
    if latches:
        raise ValueError(f"header: expected no latches, got {latches}: combinational circuits only")
    if any(properties):
        raise ValueError(f"header: expected outputs alone, got properties {properties}")
    if variables < inputs + ands or (name == b"aig" and variables > inputs + ands):
        raise ValueError(f"header: M is {variables}, but I + L + A is {inputs + ands}")
    if variables > MAX_VARIABLES:
        raise ValueError(f"header: expected at most {MAX_VARIABLES} variables, got {variables}")
    if name == b"aag":
        *lines, after = rest.split(b"\n", inputs + outputs + ands)
        widths = [1] * (inputs + outputs) + [3] * ands
        rows = _rows(lines, widths)
        both = np.array(rows[: inputs + outputs], np.int64).ravel()
        gates = np.array(rows[inputs + outputs :], np.int64).reshape(-1, 3)
        aig = Aig(both[:inputs], gates, both[inputs:])
    else:
        *lines, body = rest.split(b"\n", outputs)
        of_outputs = np.array(_rows(lines, [1] * outputs), np.int64).ravel()
        numbers, after = _numbers(body, 2 * ands)
        left = 2 * np.arange(inputs + 1, inputs + 1 + ands)
        first = left - numbers[0::2]
        second = first - numbers[1::2]
        if (numbers[0::2] == 0).any() or (second < 0).any():
            raise ValueError("ands: expected literals in descending order in each gate")
        aig = Aig(2 * np.arange(1, inputs + 1), np.stack([left, first, second], 1), of_outputs)
    if after and after[:1] not in b"iolc":
        raise ValueError(f"expected symbols or a comment after {ands} ANDs, got {after[:20]!r}")
    return aig


def _rows(lines, widths):
    """The numbers of lines, one after the other."""
    if len(lines) < len(widths):
        expected = f"expected {len(widths)} lines after the header"
        raise ValueError(f"{expected}, got {len(lines)}: truncated")
    for at, (line, width) in enumerate(zip(lines, widths, strict=True)):
        words = line.split()
        if len(words) != width or not all(word.isdigit() and len(word) < 10 for word in words):
            raise ValueError(f"line {at + 2}: expected {width} numbers, got {line[:40]!r}")
    return [[int(word) for word in line.split()] for line in lines]


def _numbers(body: bytes, count: int):
    """Decodes numbers of 7 bits a byte, the lowest first. Returns them and the bytes after."""
    if not count:
        return np.zeros(0, np.int64), body
    data = np.frombuffer(body, np.uint8).astype(np.int64)
    ends = np.flatnonzero(data < 128)[:count] + 1
    if len(ends) < count:
        raise ValueError(f"ands: expected {count} numbers, got {len(ends)}: truncated")
    starts = np.concatenate([[0], ends[:-1]])
    if (ends - starts).max() > 5:
        raise ValueError("ands: expected numbers of at most 5 bytes")
    places = np.arange(ends[-1]) - np.repeat(starts, ends - starts)
    return np.add.reduceat((data[: ends[-1]] & 127) << 7 * places, starts), body[ends[-1] :]


def graph(aig: Aig) -> Circuit:
    """The graph of a circuit: inputs, then ANDs, then inverters. Raises ValueError.

    An output that is a constant is left out. Constants that gates read are an error.
    """
    operands = aig.ands[:, 1:].ravel()
    if (operands < 2).any():
        raise ValueError("an AND reads a constant: propagate constants first (in ABC, `strash`)")
    used = np.concatenate([operands, aig.outputs[aig.outputs > 1]])
    inverses = np.unique(used[used % 2 == 1])
    literals = np.concatenate([aig.inputs, aig.ands[:, 0], inverses])
    if (literals[: len(literals) - len(inverses)] % 2).any() or (literals < 2).any():
        raise ValueError("expected even literals from 2 on for inputs and ANDs")
    order = np.argsort(literals, kind="stable")
    places = literals[order]
    if (places[1:] == places[:-1]).any():
        twice = places[1:][places[1:] == places[:-1]][0]
        raise ValueError(f"literal {twice} is defined twice")

    def node(read):
        at = np.minimum(np.searchsorted(places, read), len(places) - 1)
        if (missing := read[places[at] != read] if len(places) else read).size:
            raise ValueError(f"literal {missing[0]} is read, but it is no input and no AND")
        return order[at]

    node(aig.outputs[aig.outputs > 1])
    sources = [aig.ands[:, 1], aig.ands[:, 2], inverses - 1]
    targets = [aig.ands[:, 0], aig.ands[:, 0], inverses]
    edges = np.stack([node(np.concatenate(ends)) for ends in (sources, targets)])
    kinds = np.repeat([INPUT, AND, NOT], [len(aig.inputs), len(aig.ands), len(inverses)])
    return Circuit(kinds, edges, np.array([0, len(kinds)]))


def join(circuits) -> Circuit:
    """Several graphs as one mini-batch."""
    ptr = np.cumsum([0, *(len(circuit.kinds) for circuit in circuits)])
    edges = np.hstack([circuit.edges + start for circuit, start in zip(circuits, ptr)])
    return Circuit(np.concatenate([circuit.kinds for circuit in circuits]), edges, ptr)


def levels(nodes: int, edges) -> np.ndarray:
    """The level of each node: 0 without sources, else one more than the highest of its sources."""
    sources, targets = edges
    readers = targets[np.argsort(sources, kind="stable")]
    ends = np.cumsum(np.bincount(sources, minlength=nodes))
    counts = np.diff(ends, prepend=0)
    missing, level, depth = np.bincount(targets, minlength=nodes), np.full(nodes, -1), 0
    ready = np.flatnonzero(missing == 0)
    while len(ready):
        level[ready], count = depth, counts[ready]
        first = ends[ready] - np.cumsum(count)
        reached = readers[np.repeat(first, count) + np.arange(count.sum())]
        np.subtract.at(missing, reached, 1)
        ready, depth = np.unique(reached[missing[reached] == 0]), depth + 1
    if (level < 0).any():
        raise ValueError("the circuit has a cycle")
    return level


def labels(circuit: Circuit, seed=0, patterns=16_384) -> np.ndarray:
    """The share of ones of each node over random inputs: 64 of them in each uint64."""
    kinds, (sources, targets) = circuit.kinds, circuit.edges
    rng, ones = np.random.default_rng(seed), np.zeros(len(kinds), np.int64)
    first, last = np.zeros((2, len(kinds)), np.int64)
    last[targets], first[targets[::-1]] = sources, sources[::-1]  # An inverter has one source.
    flips = np.where(kinds == NOT, np.uint64(2**64 - 1), np.uint64(0))[:, None]
    of_nodes = levels(len(kinds), circuit.edges)
    by_level = np.split(np.argsort(of_nodes, kind="stable"), np.cumsum(np.bincount(of_nodes)))[1:-1]
    for start in range(0, patterns // 64, 16):
        words = np.zeros((len(kinds), min(16, patterns // 64 - start)), np.uint64)
        inputs = np.flatnonzero(kinds == INPUT)
        words[inputs] = rng.integers(0, 2**64, (len(inputs), words.shape[1]), np.uint64)
        for nodes in by_level:
            words[nodes] = (words[first[nodes]] & words[last[nodes]]) ^ flips[nodes]
        ones += np.unpackbits(words.view(np.uint8), axis=1).sum(1, dtype=np.int64)
    return ones / (patterns // 64 * 64)


def generate(seed=0, inputs=64, ands=2_000, window=64) -> Aig:
    """A random circuit. Each gate reads two of the `window` variables before it, so a smaller
    window makes a deeper circuit. Outputs are the gates that no gate reads."""
    rng = np.random.default_rng(seed)
    own = np.arange(inputs, inputs + ands)
    back = np.minimum(own, window)
    near = rng.integers(0, back)
    far = (near + rng.integers(1, back)) % back
    read = 2 * (own[:, None] - np.stack([near, far], 1)) + rng.integers(0, 2, (ands, 2))
    left = 2 * (own + 1)
    unread = np.setdiff1d(left, read & ~1)
    return Aig(2 * np.arange(1, inputs + 1), np.column_stack([left, read]), unread)


def cone(aig: Aig, root: int, limit=500) -> Circuit:
    """Gate `root` and the gates that it reads, the nearest first, in at most `limit` nodes.

    Variables that are read and not taken become inputs. Gate i must have variable `inputs + i + 1`.
    """
    inputs = len(aig.inputs)
    taken, variables, inverses = [], {root}, set()
    queue = [root]
    for gate in queue:  # It grows in the loop.
        if len(variables) + len(inverses) + 4 > limit:
            break
        taken.append(gate)
        for literal in aig.ands[gate, 1:].tolist():
            if literal % 2:
                inverses.add(literal)
            source = literal // 2 - inputs - 1
            if source not in variables and source >= 0:
                queue.append(source)
            variables.add(source)
    left = np.array(sorted(variables - set(taken)), np.int64)
    return graph(Aig(2 * (left + inputs + 1), aig.ands[sorted(taken)], aig.ands[[root], 0]))
