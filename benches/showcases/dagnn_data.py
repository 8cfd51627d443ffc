"""Reads graphs for `dagnn.py`: architectures of six typed nodes, and syntax trees of functions."""

import ast
import gzip
import itertools
import json
import os
import random
import re
import sysconfig
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Graphs(NamedTuple):
    tokens: np.ndarray  # of all nodes of all graphs
    edges: np.ndarray  # [2, edges]: sources and targets
    ptr: np.ndarray  # graph i has the nodes ptr[i]:ptr[i + 1]
    targets: np.ndarray  # numbers, or classes
    vocabulary: int
    classes: list[str] = []


def read(task, path, limit):
    if limit < 20:
        raise SystemExit(f"--limit: expected at least 20 graphs, got {limit}")
    try:
        return (functions if task == "functions" else architectures)(path, limit)
    except OSError as error:
        raise SystemExit(str(error)) from error


def split(graphs, size):
    """Mini-batches of numbers of graphs, for training and for the test: every tenth graph."""
    numbers = np.arange(len(graphs.targets))
    rest = np.random.default_rng(0).permutation(numbers[numbers % 10 != 9])
    return [np.split(part, range(size, len(part), size)) for part in (rest, numbers[9::10])]


def joined(graphs, targets, vocabulary, classes=()):
    """Joins pairs of tokens and edges."""
    ptr = np.cumsum([0] + [len(tokens) for tokens, _ in graphs])
    edges = [np.array(pairs).T + start for (_, pairs), start in zip(graphs, ptr)]
    tokens = np.concatenate([tokens for tokens, _ in graphs])
    return Graphs(tokens, np.hstack(edges), ptr, np.array(targets), vocabulary, list(classes))


def architectures(path, limit):
    """Lines `[[type, flags…] × 6], accuracy`, or random ones without a path."""
    path = path or os.environ.get("EDBATCH_ARCHITECTURES")
    if path is None:
        return joined(*zip(*map(random_architecture, range(limit))), 8)
    graphs, targets = [], []
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as lines:
        for number, line in enumerate(itertools.islice(lines, limit), 1):
            try:
                nodes, accuracy = json.loads(f"[{line}]")
                if [*map(len, nodes)] != [1, 2, 3, 4, 5, 6]:
                    raise ValueError("expected six nodes, with a flag for each one before")
                graphs.append(architecture(nodes))
                targets.append(float(accuracy))
            except (TypeError, ValueError) as error:
                raise SystemExit(f"{path}, line {number}: {error}") from error
    return joined(graphs, targets, 8)


def architecture(nodes):
    """Node i reads the vertex before it, and earlier vertices by its flags."""
    edges = [(vertex, vertex + 1) for vertex in range(7)]
    for i, (_, *flags) in enumerate(nodes):
        edges += [(vertex, i + 1) for vertex, flag in enumerate(flags) if flag]
    return [0, *(2 + node[0] for node in nodes), 1], edges


def random_architecture(seed):
    """An architecture whose target is computed along its edges."""
    draw = random.Random(seed)
    nodes = [[draw.randrange(6), *(draw.randrange(2) for _ in range(i))] for i in range(6)]
    tokens, edges = architecture(nodes)
    values = []
    for vertex, token in enumerate(tokens):
        read = [values[source] for source, target in edges if target == vertex]
        values.append(np.sin(2.0 * token) + sum(read) / max(len(read), 1))
    return (tokens, edges), 0.73 + 0.005 * values[-1]


def functions(folder, limit, nodes=300, names=200, words=2000):
    """Functions of Python files; the class is the first part of the name."""
    found = []
    for path in sorted(Path(folder or sysconfig.get_path("stdlib")).rglob("*.py")):
        if {"site-packages", "test", "tests", "idle_test"}.isdisjoint(path.parts):
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue
            for function in ast.walk(tree):
                if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    part = re.search("[A-Z]?[a-z]+|[A-Z]+(?![a-z])|$", function.name)[0].lower()
                    found.append((part, function))
    classes = [part for part, _ in Counter(p for p, _ in found if p).most_common(names)]
    found = [(part, function) for part, function in found if part in classes]
    found = found[:: max(1, len(found) // (2 * limit))]
    graphs = [(part, syntax(function)) for part, function in found]
    graphs = [(part, graph) for part, graph in graphs if len(graph[0]) <= nodes][:limit]
    if len(graphs) < 20:
        raise SystemExit(f"{folder}: expected at least 20 functions, found {len(graphs)}")
    common = Counter(token for _, (tokens, _) in graphs for token in tokens).most_common(words)
    number = {token: at for at, (token, _) in enumerate(common, 1)}
    numbered = [([number.get(t, 0) for t in tokens], edges) for _, (tokens, edges) in graphs]
    return joined(numbered, [classes.index(part) for part, _ in graphs], words + 1, classes)


def syntax(function):
    """Edges go from parents to children, and from each leaf to the next."""
    tokens, edges, leaf, stack = [], [], None, [(function, None)]
    while stack:
        node, parent = stack.pop()
        at, below = len(tokens), list(ast.iter_child_nodes(node))
        below = [child for child in below if not isinstance(child, ast.expr_context)]
        name = next((getattr(node, key) for key in ("id", "attr", "arg") if hasattr(node, key)), "")
        tokens.append(f"{type(node).__name__} {'' if name == function.name else name}")
        edges += [] if parent is None else [(parent, at)]
        if not below:
            edges += [] if leaf is None else [(leaf, at)]
            leaf = at
        stack += [(child, at) for child in reversed(below)]
    return tokens, edges
