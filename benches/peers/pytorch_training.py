"""Steps of training in PyTorch, batched by hand: forward, loss, backward, and an update by SGD.

    python3 pytorch_training.py FOLDER [eager|captured]

`protocol.py` describes FOLDER and the messages on the pipes. The results of a mini-batch are its
loss. FOLDER also holds `training.json`: the rate, and for each mini-batch, for each instance, the
targets of its rows. Models, levels and tensors of indices are those of `pytorch.py`; indices are
made before the clock runs, in favour of this program.

With `eager`, steps run on the CUDA device if there is one, with exact products. With `captured`,
the launches of each mini-batch's step, from the rows of tables to the update, are captured once and
replayed. Steps of a request are enqueued one after the other, and the clock stops when all have
ended. Levels, indices and graphs of all mini-batches must be made within `DEADLINE` seconds.

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

With `eager` and `captured`, the looked-up rows have the gradients instead of the tables, and the
update adds them to the tables by `index_add_`. This is the same update by SGD, without sparse
tensors, and all of it can be captured. Dense parameters have a fused update on a device.
"""

import contextlib
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
# Seconds for the levels, indices and graphs of all mini-batches, with `eager` or `captured`.
DEADLINE = 30.0


def new_token():
    """Gradients go by `Rows`; the token only orders reads and writes."""
    return torch.empty(())


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
        return None, None, None


class Write(torch.autograd.Function):
    """Writes rows of `h` and `c`. Returns the token of all later reads and writes."""

    @staticmethod
    def forward(ctx, token, h, c, states, rows):
        ctx.states, ctx.rows = states, rows
        ctx.set_materialize_grads(False)
        for values, new in zip(states.values, (h, c)):
            values[rows] = new
        return new_token()

    @staticmethod
    def backward(ctx, _):
        h, c = (gradients[ctx.rows] for gradients in ctx.states.gradients)
        # A node without any gradient would run on another thread than the rest of a device's.
        return h.new_empty(()), h, c, None, None


class Tables:
    """Looks up rows of tables, which have sparse gradients or are kept for `update`."""

    # Rows that were looked up: (table, rows, values). None for sparse gradients.
    looked_up = None

    def look_up(self, table, rows):
        if self.looked_up is None:
            return F.embedding(rows, self.weights[table], sparse=True)
        values = F.embedding(rows, self.weights[table]).requires_grad_()
        self.looked_up.append((table, rows, values))
        return values

    def update(self, rate):
        """Updates the tables by SGD."""
        for table, rows, values in self.looked_up:
            gradient = values.grad.flatten(0, -2)
            self.weights[table].index_add_(0, rows.flatten(), gradient, alpha=-rate)
        self.looked_up.clear()


class TreeLstm(Tables, pytorch.TreeLstm):
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
        embedded = self.look_up("embed.weight", tokens)
        i, o, u = torch.addmm(self.leaf_bias, embedded, self.leaf).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u)
        h = torch.sigmoid(o) * torch.tanh(c)
        token = Write.apply(new_token(), h, c, states, slice(0, len(tokens)))
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


class Tagger(Tables, pytorch.Tagger):
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
                words = self.look_up("embed.weight", tokens)
                start = (state.unsqueeze(1).repeat(1, tokens.shape[1], 1) for state in first)
                tops.append(lstm(words, tuple(start))[0].flatten(0, 1))
            sides.append(torch.cat(tops).index_select(0, out))
        hidden = torch.tanh(torch.addmm(self.weights["mlp.bias"], torch.cat(sides, 1), self.mlp))
        return torch.addmm(self.weights["out.bias"], hidden, self.out)


class LatticeLstm(Tables, pytorch.Lattice):
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
        made, token, products, hidden = Rows(arcs, size), new_token(), {}, []
        for cell, rows in tokens.items():
            _, w, bias, _, _ = self.cells[cell]
            all_rows = torch.addmm(bias, self.look_up(f"{cell}_embed.weight", rows), w)
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


class Captured:
    """The captured launches of a mini-batch's step. They read the tensors of `step` by address, so
    these must live as long as the graph."""

    def __init__(self, step, weights, capture=pytorch.capture):
        before = [weight.detach().clone() for weight in weights]
        self.step = step
        self.graph, self.loss = capture(step)
        # Capturing runs the step once, with its update.
        with torch.no_grad():
            for weight, old in zip(weights, before):
                weight.copy_(old)

    def __call__(self):
        self.graph.replay()
        return self.loss


def stepper(model, training, with_sparse_gradients):
    """Returns a function that makes the step of a mini-batch, and all weights that it updates."""
    rate, tables = training["rate"], [model.weights[name] for name in model.tables]
    dense = [tensor.requires_grad_() for tensor in model.dense()]
    # An optimizer treats all tensors alike, and only tables have sparse gradients.
    fused = True if dense[0].is_cuda else None
    optimizers = [torch.optim.SGD(dense, lr=rate, fused=fused)]
    if with_sparse_gradients:
        optimizers.append(torch.optim.SGD([table.requires_grad_() for table in tables], lr=rate))
    else:
        model.looked_up = []

    def step(made, targets, instances):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model.run(made), targets, reduction="sum") / instances
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if not with_sparse_gradients:
            model.update(rate)
        return loss.detach()

    return step, dense + tables


def main(folder, mode="cpu"):
    has_cuda = torch.cuda.is_available()
    if mode == "captured" and not has_cuda:
        return protocol.skip("CUDA graphs need a CUDA device, and PyTorch finds none")
    on_device = mode != "cpu" and has_cuda
    graphs, weights = protocol.read_graphs(folder), pytorch.read_weights(folder)
    if on_device:
        weights = pytorch.on_cuda(weights)
    with open(os.path.join(folder, "training.json")) as file:
        training = json.load(file)
    model = MODELS[graphs["model"]](weights, graphs["cells"])
    step, updated = stepper(model, training, mode == "cpu")
    deadline = contextlib.nullcontext() if mode == "cpu" else pytorch.Deadline(DEADLINE)
    prepared = {}

    def prepare(count, number):
        batch = protocol.merged(graphs["mini_batches"], count, number)
        made = model.prepare(pytorch.Calls(graphs["cells"], batch))
        instances = training["targets"][number]
        targets = pytorch.index([target for targets in instances for target in targets])
        own = lambda: step(made, targets, len(instances))
        try:
            return Captured(own, updated) if mode == "captured" else own
        except RuntimeError as error:
            raise protocol.Skipped(str(error).splitlines()[0])

    def run(count, number):
        if number not in prepared:
            began = time.perf_counter()
            with deadline:
                made = prepare(count, number)
            prepared[number] = made, time.perf_counter() - began
        own, preparing = prepared[number]
        began = time.perf_counter()
        loss = own()
        return (time.perf_counter() - began, preparing), loss

    wait = torch.cuda.synchronize if on_device else lambda: None
    protocol.serve(folder, torch.__version__, run, wait=wait)


if __name__ == "__main__":
    main(*sys.argv[1:])
