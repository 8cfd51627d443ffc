"""DAGNN level by level in PyTorch, as a good user writes it: the peer of `dagnn.py`.

The levels of a mini-batch and their tensors of indices are made once, before the clock runs. Nodes
are sorted by level, so that a level writes one span of rows. The products of a layer's inputs are
computed for all nodes at once, before the loop over levels. A node's predecessors are padded to the
largest number in its level.

The fastest of what was tried with mini-batches of 32: `nn.GRUCell` for each level, one sigmoid for
two gates, and buffers of states and gradients that functions of our own use in place were slower.
"""

import copy
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Level(NamedTuple):
    start: int
    end: int
    rows: torch.Tensor  # of the predecessors of all its nodes, padded
    mask: torch.Tensor | None  # [nodes, predecessors]: minus infinity for padding


class Way(NamedTuple):
    """A direction of a mini-batch, with nodes sorted by level."""

    tokens: torch.Tensor
    levels: list[Level]
    ends: torch.Tensor  # the nodes that no other reads
    graph: torch.Tensor | None  # of each end, unless there is one in each graph


def prepared(graphs, members):
    """Both directions of a mini-batch of graphs."""
    starts = np.cumsum([0] + [graphs.ptr[i + 1] - graphs.ptr[i] for i in members])
    of_graph = np.repeat(np.arange(len(members)), np.diff(starts))
    nodes = np.concatenate([np.arange(graphs.ptr[i], graphs.ptr[i + 1]) for i in members])
    place = np.full(len(graphs.tokens), -1)
    place[nodes] = np.arange(len(nodes))
    edges = place[graphs.edges]
    edges = edges[:, edges[0] >= 0]
    return [way(graphs.tokens[nodes], each, of_graph) for each in (edges, edges[::-1])]


def way(tokens, edges, of_graph):
    source, target = edges
    level = np.zeros(len(tokens), int)
    while (late := level[target] <= level[source]).any():
        np.maximum.at(level, target[late], level[source[late]] + 1)
    order = np.argsort(level, kind="stable")
    place = np.argsort(order, kind="stable")
    before = [[] for _ in tokens]
    for one, other in zip(place[source], place[target]):
        before[other].append(one)
    bounds = np.searchsorted(level[order], np.arange(level.max() + 2)).tolist()
    levels = []
    for start, end in zip(bounds, bounds[1:]):
        lists = before[start:end]
        width = max(map(len, lists))
        rows = torch.tensor([each + [0] * (width - len(each)) for each in lists]).long()
        mask = torch.tensor([[0.0] * len(e) + [-torch.inf] * (width - len(e)) for e in lists])
        levels.append(Level(start, end, rows.reshape(-1), mask if mask.any() else None))
    ends = np.flatnonzero(np.bincount(source, minlength=len(tokens)) == 0)
    one_each = len(ends) == of_graph[-1] + 1
    graph = None if one_each else torch.tensor(of_graph[ends])
    tokens, ends = torch.tensor(tokens[order]), torch.tensor(place[ends])
    return Way(tokens, levels, ends, graph)


class Levels(nn.Module):
    """The same network, with copies of the modules of a `DAGNN`."""

    def __init__(self, model):
        super().__init__()
        modules = model.layer.along, model.layer.against, model.out
        self.along, self.against, self.out = copy.deepcopy(modules)

    def forward(self, ways):
        along = self.through(self.along, ways[0])
        return self.out(torch.cat([along, self.through(self.against, ways[1])], 1))

    def through(self, node, way):
        x, read = node.embed(way.tokens), []
        for gru, score in ((node.gru1, node.score1), (node.gru2, node.score2)):
            x = states(gru, score, x, way.levels)
            read.append(x[way.ends])
        ends = torch.cat(read, 1)
        if way.graph is None:
            return ends
        index = way.graph[:, None].expand_as(ends)
        return ends.new_zeros(int(way.graph[-1]) + 1, ends.shape[1]).scatter_reduce(
            0, index, ends, "amax", include_self=False
        )


def states(gru, score, x, levels):
    """The states of all nodes in a layer whose inputs are x."""
    all_states = x.new_empty(x.shape)
    products = F.linear(x, gru.weight_ih, gru.bias_ih)
    products = products.tensor_split([level.start for level in levels[1:]])
    for level, product in zip(levels, products):
        if len(level.rows):
            h = all_states.index_select(0, level.rows).view(level.end - level.start, -1, x.shape[1])
            m = h[:, 0]
            if h.shape[1] > 1:
                scores = score(h)[..., 0]
                scores = scores if level.mask is None else scores + level.mask
                m = torch.bmm(scores.softmax(1)[:, None], h)[:, 0]
            u = F.linear(m, gru.weight_hh, gru.bias_hh)
        else:
            m, u = None, gru.bias_hh.expand(product.shape)
        all_states[level.start : level.end] = gates(product, u, m)
    return all_states


def gates(w, u, m):
    """The GRU of products with its input and its state."""
    (w_r, w_z, w_n), (u_r, u_z, u_n) = w.chunk(3, 1), u.chunk(3, 1)
    r, z = torch.sigmoid(w_r + u_r), torch.sigmoid(w_z + u_z)
    n = torch.tanh(w_n + r * u_n)
    return n - z * n if m is None else torch.lerp(n, m, z)
