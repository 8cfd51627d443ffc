"""Steps of training in PyTorch, batched by hand: forward, loss, backward, and an update by SGD.

    python3 pytorch_training.py FOLDER

`protocol.py` describes FOLDER and the messages on the pipes. The results of a mini-batch are its
loss. FOLDER also holds `training.json`: the rate, and for each mini-batch, for each instance, the
targets of its rows. Models, levels and tensors of indices are those of `pytorch.py`; indices are
made before the clock runs, in favour of this program.

The fastest of what was tried, in processor time with mini-batches of 64:

- Under autograd, a write into a tensor of all nodes copies its whole gradient at every level, and
  `torch.cat` of all levels so far takes quadratic time. So states and their gradients are in two
  buffers that `Read` and `Write` use in place. On trees, lists of levels, split by the level that
  reads each part, were as fast, and `torch.cat` a sixth slower. One product for a weight's gradient
  over all levels gained 2 % at H = 256 and lost 4 % at H = 64.
- `nn.LSTM` has a fused kernel for padded sentences, but not for packed ones, where the gradient of
  each step is as long as the sequence. Four padded groups by length are 1.9 to 3.1 times as fast as
  packed sentences, 1.6 to 2.0 times as fast as one group, and 1.7 to 2.2 times as fast as a loop.
- Tables have sparse gradients. Fused and `foreach` updates gained nothing.
"""

import json
import os
import sys
import time

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

import protocol
import pytorch

# The groups of sentences in a mini-batch.
GROUPS = 4
# Gradients go by `Rows`; the token only orders reads and writes.
NOTHING = torch.zeros(())


class Rows:
    """The states of all calls, and their gradients."""

    def __init__(self, rows, size):
        self.values = torch.empty(rows, size), torch.empty(rows, size)
        self.gradients = torch.zeros(rows, size), torch.zeros(rows, size)


class Read(torch.autograd.Function):
    """Gathers rows of `h` and `c` that were written before the token."""

    @staticmethod
    def forward(ctx, token, states, rows):
        ctx.states, ctx.rows = states, rows
        return tuple(values.index_select(0, rows) for values in states.values)

    @staticmethod
    def backward(ctx, *gradients):
        for sums, gradient in zip(ctx.states.gradients, gradients):
            sums.index_add_(0, ctx.rows, gradient)
        return NOTHING, None, None


class Write(torch.autograd.Function):
    """Writes rows of `h` and `c`. Returns the token of all later reads and writes."""

    @staticmethod
    def forward(ctx, token, h, c, states, rows):
        ctx.states, ctx.rows = states, rows
        for values, new in zip(states.values, (h, c)):
            values[rows] = new
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        h, c = (gradients[ctx.rows] for gradients in ctx.states.gradients)
        return NOTHING, h, c, None, None


class TreeLstm(pytorch.TreeLstm):
    tables = ["embed.weight"]

    def dense(self):
        gates = [
            tensor
            for both, forget, bias, forget_bias in self.gates.values()
            for tensor in (both, *forget, bias, forget_bias)
        ]
        return [self.leaf, self.leaf_bias, *gates, *self.output]

    def prepare(self, calls):
        nodes, tokens, groups, outputs = super().prepare(calls)
        # Left and right children alternate: two rows are the operand of a product.
        pairs = [
            (cell, rows, torch.stack([left, right], 1).flatten())
            for cell, rows, left, right in groups
        ]
        return nodes, tokens, pairs, outputs

    def run(self, prepared):
        nodes, tokens, groups, outputs = prepared
        size = self.leaf.shape[1] // 3
        states = Rows(nodes, size)
        embedded = F.embedding(tokens, self.weights["embed.weight"], sparse=True)
        i, o, u = torch.addmm(self.leaf_bias, embedded, self.leaf).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        token = Write.apply(NOTHING, h, c, states, slice(0, len(tokens)))
        for cell, rows, children in groups:
            weight, forget, bias, forget_bias = self.gates[cell]
            h, c = (pair.view(-1, 2 * size) for pair in Read.apply(token, states, children))
            gates, u = torch.addmm(bias, h, weight).split([2 * size, size], 1)
            i, o = torch.sigmoid(gates).chunk(2, 1)
            memory = i * torch.tanh(u)
            for h_side, c_side, of_side in zip(h.chunk(2, 1), c.chunk(2, 1), forget):
                f = torch.sigmoid(torch.addmm(forget_bias, h_side, of_side))
                memory = memory + f * c_side
            h = o * torch.tanh(memory)
            token = Write.apply(token, h, memory, states, rows)
        h, _ = Read.apply(token, states, outputs)
        return torch.addmm(self.output[1], h, self.output[0])


class Tagger(pytorch.Tagger):
    """Two stacks of `nn.LSTM` over padded groups of sentences of about the same length."""

    tables = ["embed.weight"]

    def dense(self):
        tensors = [self.mlp, self.out, self.weights["mlp.bias"], self.weights["out.bias"]]
        for lstm, first in self.stacks.values():
            # One bias, as in the model; the other stays zero.
            named = lstm.named_parameters()
            tensors += [tensor for name, tensor in named if not name.startswith("bias_hh")]
            tensors += first
        return tensors

    def prepare(self, calls):
        stacks = {}
        for name, (tokens, sizes, out) in super().prepare(calls).items():
            # Rows count from 1, so that 0 is padding.
            rows = PackedSequence(torch.arange(1, 1 + len(tokens)), sizes)
            rows, _ = torch.nn.utils.rnn.pad_packed_sequence(rows)
            groups = rows.split(-(-rows.shape[1] // GROUPS), 1)
            groups = [group[: int((group > 0).any(1).sum())] for group in groups]
            flat = torch.cat([group.flatten() for group in groups])
            place = torch.empty(1 + len(tokens), dtype=torch.int64)
            place[flat] = torch.arange(len(flat))
            stacks[name] = [F.pad(tokens, (1, 0))[group] for group in groups], place[1 + out]
        return stacks

    def run(self, prepared):
        sides = []
        for name, (lstm, first) in self.stacks.items():
            groups, out = prepared[name]
            tops = []
            for tokens in groups:
                words = F.embedding(tokens, self.weights["embed.weight"], sparse=True)
                start = (state.unsqueeze(1).repeat(1, tokens.shape[1], 1) for state in first)
                tops.append(lstm(words, tuple(start))[0].flatten(0, 1))
            sides.append(torch.cat(tops).index_select(0, out))
        hidden = torch.tanh(torch.addmm(self.weights["mlp.bias"], torch.cat(sides, 1), self.mlp))
        return torch.addmm(self.weights["out.bias"], hidden, self.out)


class LatticeLstm(pytorch.Lattice):
    tables = ["char_embed.weight", "word_embed.weight"]

    def __init__(self, weights, cells):
        super().__init__(weights, cells, gru=False)

    def dense(self):
        cells = [tensor for cell in self.cells.values() for tensor in cell[1:4]]
        return [*cells, *self.output, self.weights["h0"], self.weights["c0"]]

    def run(self, prepared):
        arcs, _, tokens, steps, outputs = prepared
        starts = self.weights["h0"], self.weights["c0"]
        size = len(starts[0])
        made, token, products, hidden = Rows(arcs, size), NOTHING, {}, []
        for cell, rows in tokens.items():
            table, w, bias, _, _ = self.cells[cell]
            all_rows = torch.addmm(bias, F.embedding(rows, table, sparse=True), w)
            calls = [call for *_, calls in steps for call in calls if call[0] == cell]
            sizes = [inputs.stop - inputs.start for _, _, inputs, _ in calls]
            products[cell] = iter(all_rows.split(sizes))
        for _, flat, segment, share, calls in steps:
            if len(flat) == 0:
                here = [start.expand(len(share), -1) for start in starts]
            else:
                sums = torch.zeros(len(share), size)
                entering = Read.apply(token, made, flat)
                here = [sums.index_add(0, segment, field) * share for field in entering]
            hidden.append(here[0])
            for cell, out, _, source in calls:
                state = [field.index_select(0, source) for field in here]
                h, c = self.cell(cell, next(products[cell]), state)
                token = Write.apply(token, h, c, made, out)
        h = torch.cat(hidden).index_select(0, outputs)
        return torch.addmm(self.output[1], h, self.output[0])


MODELS = {
    "tree_lstm": TreeLstm,
    "bilstm_tagger": Tagger,
    "lattice_lstm": LatticeLstm,
}


def main(folder):
    graphs, weights = protocol.read_graphs(folder), pytorch.read_weights(folder)
    with open(os.path.join(folder, "training.json")) as file:
        training = json.load(file)
    model = MODELS[graphs["model"]](weights, graphs["cells"])
    optimizers = [
        # An optimizer treats all tensors alike, and only tables have sparse gradients.
        torch.optim.SGD([tensor.requires_grad_() for tensor in tensors], lr=training["rate"])
        for tensors in (model.dense(), [weights[name] for name in model.tables])
    ]
    prepared = {}

    def run(count, number):
        if number not in prepared:
            began = time.perf_counter()
            batch = protocol.merged(graphs["mini_batches"], count, number)
            made = model.prepare(pytorch.Calls(graphs["cells"], batch))
            instances = training["targets"][number]
            targets = pytorch.index([target for targets in instances for target in targets])
            prepared[number] = made, targets, len(instances), time.perf_counter() - began
        made, targets, instances, preparing = prepared[number]
        began = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model.run(made), targets, reduction="sum") / instances
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        loss = loss.detach()
        return (time.perf_counter() - began, preparing), loss

    protocol.serve(folder, torch.__version__, run)


if __name__ == "__main__":
    main(*sys.argv[1:])
