"""The benchmark's workloads in PyTorch, batched by hand: how a good user would write them.

    python3 pytorch.py FOLDER [cuda|cuda-graphs|cuda-compiled]

`protocol.py` describes FOLDER and the messages on the pipes. Levels and tensors of indices are made
once, before the clock runs, in favour of this program. As in `nn.LSTM`, the products of all inputs
of a lattice are computed at once, before the loop over its positions. On a CUDA device, inputs are
on the device before the clock runs, and the clock stops when the results are on the host; products
are exact instead of TF32. With `cuda-graphs`, the launches of each mini-batch are captured once and
replayed. With `cuda-compiled`, `torch.compile` also fuses the operations of a cell. On a device the
levels, indices and graphs of all mini-batches must be made within `DEADLINE` seconds.
"""

import contextlib
import signal
import sys
import time

import torch

import protocol

torch.set_num_threads(1)

# Seconds for the levels, indices and graphs of all mini-batches on a CUDA device.
DEADLINE = 10.0


def read_weights(folder):
    """Returns tensors by name."""
    return {
        name: torch.frombuffer(data, dtype=torch.float32).reshape(shape)
        for name, shape, data in protocol.read_weights(folder)
    }


def index(numbers):
    return torch.tensor(numbers, dtype=torch.int64)


class Calls:
    """The calls of a mini-batch, with levels: one more than the highest level that a call reads."""

    def __init__(self, cells, batch):
        self.cell = [cells[call[0]] for call in batch["calls"]]
        self.rows = [call[1] for call in batch["calls"]]
        self.values = [call[2] for call in batch["calls"]]
        self.wanted = batch["wanted"]
        self.level = []
        for values in self.values:
            below = [self.level[value] for value in values if value >= 0]
            self.level.append(1 + max(below, default=-1))

    def of(self, *cells):
        """Returns the calls of some cells, sorted by level, then by cell."""
        calls = [call for call, cell in enumerate(self.cell) if cell in cells]
        return sorted(calls, key=lambda call: (self.level[call], self.cell[call]))

    def groups(self, calls):
        """Groups neighbours of the same level and cell: `(cell, calls)`."""
        groups = []
        for call in calls:
            key = (self.level[call], self.cell[call])
            if not groups or groups[-1][0] != key:
                groups.append((key, []))
            groups[-1][1].append(call)
        return [(cell, calls) for (_, cell), calls in groups]


def stacked(weights, names):
    """Stacks weights by rows and transposes: one product with it computes those of all weights."""
    return torch.cat([weights[name] for name in names]).t().contiguous()


def biases(weights, names):
    return torch.cat([weights[name] for name in names])


class Trees:
    """The base of models over trees: leaves, then inner nodes level by level, then the output."""

    def __init__(self, weights, cells):
        self.weights = weights
        self.inner = [cell for cell in cells if cell.startswith("node")]
        self.output = weights["out.weight"].t().contiguous(), weights["out.bias"]

    def prepare(self, calls):
        leaves, inner = calls.of("leaf"), calls.of(*self.inner)
        place = {call: row for row, call in enumerate(leaves + inner)}
        groups = []
        for cell, group in calls.groups(inner):
            first = place[group[0]]
            left = index([place[calls.values[call][0]] for call in group])
            right = index([place[calls.values[call][1]] for call in group])
            groups.append((cell, slice(first, first + len(group)), left, right))
        tokens = index([calls.rows[call][0] for call in leaves])
        outputs = index([place[calls.values[call][0]] for call in calls.wanted])
        return len(place), tokens, groups, outputs

    def logits(self, h, outputs):
        return torch.addmm(self.output[1], h[outputs], self.output[0])


class TreeLstm(Trees):
    def __init__(self, weights, cells):
        super().__init__(weights, cells)
        leaf = ["i", "o", "u"]
        self.leaf = stacked(weights, [f"leaf.w_{gate}" for gate in leaf])
        self.leaf_bias = biases(weights, [f"leaf.b_{gate}" for gate in leaf])
        self.gates = {}
        for cell in self.inner:
            sides = []
            for side in ["l", "r"]:
                sides.append(stacked(weights, [f"{cell}.u_{gate}_{side}" for gate in "iouf"]))
            self.gates[cell] = (
                torch.cat([side[:, : 3 * side.shape[0]] for side in sides]).contiguous(),
                [side[:, 3 * side.shape[0] :].contiguous() for side in sides],
                biases(weights, [f"{cell}.b_{gate}" for gate in "iou"]),
                weights[f"{cell}.b_f"],
            )

    def run(self, prepared):
        nodes, tokens, groups, outputs = prepared
        size = self.leaf.shape[1] // 3
        h, c = torch.empty(nodes, size), torch.empty(nodes, size)
        leaves = slice(0, len(tokens))
        embedded = self.weights["embed.weight"][tokens]
        i, o, u = torch.addmm(self.leaf_bias, embedded, self.leaf).chunk(3, 1)
        c[leaves] = torch.sigmoid(i) * torch.tanh(u)
        h[leaves] = torch.sigmoid(o) * torch.tanh(c[leaves])
        for cell, rows, left, right in groups:
            h[rows], c[rows] = self.cell(self.gates[cell], h[left], h[right], c[left], c[right])
        return self.logits(h, outputs)

    def cell(self, gates, h_left, h_right, c_left, c_right):
        both, forget, bias, forget_bias = gates
        i, o, u = torch.addmm(bias, torch.cat([h_left, h_right], 1), both).chunk(3, 1)
        f_left = torch.sigmoid(torch.addmm(forget_bias, h_left, forget[0]))
        f_right = torch.sigmoid(torch.addmm(forget_bias, h_right, forget[1]))
        memory = torch.sigmoid(i) * torch.tanh(u) + f_left * c_left + f_right * c_right
        return torch.sigmoid(o) * torch.tanh(memory), memory


class TreeGru(Trees):
    def __init__(self, weights, cells):
        super().__init__(weights, cells)
        self.leaf = stacked(weights, ["leaf.w_r", "leaf.w_z"])
        self.leaf_bias = biases(weights, ["leaf.b_r", "leaf.b_z"])
        self.leaf_c = weights["leaf.w_c"].t().contiguous()
        self.sides = [
            (
                stacked(weights, [f"node.u_r_{side}", f"node.u_z_{side}"]),
                weights[f"node.u_c_{side}"].t().contiguous(),
            )
            for side in ["l", "r"]
        ]
        self.bias = biases(weights, ["node.b_r", "node.b_z"])

    def cell(self, h, gates, candidate, bias, candidate_bias):
        r, z = torch.sigmoid(torch.addmm(bias, h, gates)).chunk(2, 1)
        c = torch.tanh(torch.addmm(candidate_bias, r * h, candidate))
        return c + z * (h - c)

    def run(self, prepared):
        nodes, tokens, groups, outputs = prepared
        h = torch.empty(nodes, self.leaf.shape[0])
        embedded = self.weights["embed.weight"][tokens]
        leaf_bias, bias = self.weights["leaf.b_c"], self.weights["node.b_c"]
        h[: len(tokens)] = self.cell(embedded, self.leaf, self.leaf_c, self.leaf_bias, leaf_bias)
        for _, rows, left, right in groups:
            halves = [
                self.cell(h[side], gates, candidate, self.bias, bias)
                for side, (gates, candidate) in zip((left, right), self.sides)
            ]
            h[rows] = (halves[0] + halves[1]) * 0.5
        return self.logits(h, outputs)


class MvRnn(Trees):
    def __init__(self, weights, cells):
        super().__init__(weights, cells)
        self.w_v = weights["node.w_v"].t().contiguous()

    def run(self, prepared):
        nodes, tokens, groups, outputs = prepared
        w = self.weights
        size = w["embed.vector"].shape[1]
        v, m = torch.empty(nodes, size), torch.empty(nodes, size, size)
        v[: len(tokens)] = w["embed.vector"][tokens]
        m[: len(tokens)] = w["embed.matrix"][tokens]
        for _, rows, left, right in groups:
            m_left, m_right = m[left], m[right]
            crossed = torch.cat(
                [
                    torch.bmm(m_left, v[right].unsqueeze(2)).squeeze(2),
                    torch.bmm(m_right, v[left].unsqueeze(2)).squeeze(2),
                ],
                1,
            )
            v[rows] = torch.tanh(torch.addmm(w["node.b_v"], crossed, self.w_v))
            both = torch.matmul(w["node.w_m"], torch.cat([m_left, m_right], 1))
            m[rows] = both + w["node.b_m"].unsqueeze(1)
        return self.logits(v, outputs)


class Tagger:
    """Two stacks of `nn.LSTM` over sentences, sorted by length and packed without padding."""

    def __init__(self, weights, cells):
        self.weights = weights
        layers = 1 + max(int(cell[4:]) for cell in cells if cell.startswith("fwd."))
        self.stacks = {name: self.stack(name, layers) for name in ["fwd", "bwd"]}
        self.mlp = weights["mlp.weight"].t().contiguous()
        self.out = weights["out.weight"].t().contiguous()

    def stack(self, name, layers):
        weights = self.weights
        size = weights[f"{name}.0.h0"].shape[0]
        lstm = torch.nn.LSTM(weights[f"{name}.0.w_i"].shape[1], size, layers)
        state = lstm.state_dict()
        for k in range(layers):
            # PyTorch's order of gates is i, f, g, o, and it adds two biases.
            gates = [f"{name}.{k}.{{}}_{gate}" for gate in "ifgo"]
            state[f"weight_ih_l{k}"] = torch.cat([weights[g.format("w")] for g in gates])
            state[f"weight_hh_l{k}"] = torch.cat([weights[g.format("u")] for g in gates])
            state[f"bias_ih_l{k}"] = torch.cat([weights[g.format("b")] for g in gates])
            state[f"bias_hh_l{k}"] = torch.zeros(4 * size)
        lstm.load_state_dict(state)
        first = [torch.stack([weights[f"{name}.{k}.{s}0"] for k in range(layers)]) for s in "hc"]
        return lstm, first

    def prepare(self, calls):
        packed = {}
        for stack, side in [("fwd", 0), ("bwd", 1)]:
            bottom = f"{stack}.0"
            sentences, chain = [], {}
            for call in range(len(calls.cell)):
                if calls.cell[call] == bottom:
                    previous = calls.values[call][-1]
                    chain[call] = chain[previous] if previous >= 0 else len(sentences)
                    if previous < 0:
                        sentences.append([])
                    sentences[chain[call]].append(call)
            order = sorted(range(len(sentences)), key=lambda s: -len(sentences[s]))
            sentences = [sentences[s] for s in order]
            steps = range(len(sentences[0]))
            sizes = [sum(1 for sentence in sentences if len(sentence) > t) for t in steps]
            flat = [sentences[s][t] for t in steps for s in range(sizes[t])]
            place = {call: row for row, call in enumerate(flat)}
            # The calls of a word have the same row in all layers.
            for call in range(len(calls.cell)):
                if calls.cell[call].startswith(stack) and calls.cell[call] != bottom:
                    place[call] = place[calls.values[call][0]]
            tokens = index([calls.rows[call][0] for call in flat])
            out = index([place[calls.values[call][side]] for call in calls.wanted])
            # `PackedSequence` needs the sizes on the host.
            packed[stack] = tokens, torch.tensor(sizes, dtype=torch.int64, device="cpu"), out
        return packed

    def run(self, packed):
        sides = []
        for name, (lstm, first) in self.stacks.items():
            tokens, sizes, out = packed[name]
            words = torch.nn.utils.rnn.PackedSequence(self.weights["embed.weight"][tokens], sizes)
            first = tuple(state.unsqueeze(1).repeat(1, int(sizes[0]), 1) for state in first)
            sides.append(lstm(words, first)[0].data[out])
        hidden = torch.tanh(torch.addmm(self.weights["mlp.bias"], torch.cat(sides, 1), self.mlp))
        return torch.addmm(self.weights["out.bias"], hidden, self.out)


class Lattice:
    """Goes by positions: a batch has the arcs of a cell that leave the position in any sentence."""

    def __init__(self, weights, cells, gru):
        self.weights, self.gru = weights, gru
        self.cells = {}
        for cell in ["char", "word"]:
            gates = "rzc" if gru else "ifog"
            recurrent = [f"{cell}.u_{gate}" for gate in gates[: 2 if gru else 4]]
            self.cells[cell] = (
                weights[f"{cell}_embed.weight"],
                stacked(weights, [f"{cell}.w_{gate}" for gate in gates]),
                biases(weights, [f"{cell}.b_{gate}" for gate in gates]),
                stacked(weights, recurrent),
                stacked(weights, [f"{cell}.u_c"]) if gru else None,
            )
        self.output = weights["out.weight"].t().contiguous(), weights["out.bias"]

    def prepare(self, calls):
        # A state is the mean of its arcs, so calls that read the same arcs share a state.
        states, level = {}, {}
        for call in range(len(calls.cell)):
            arcs = tuple(calls.values[call])
            if arcs not in level:
                sources = [tuple(calls.values[arc]) for arc in arcs if arc >= 0]
                level[arcs] = 1 + max((level[source] for source in sources), default=-1)
        order = sorted(level, key=lambda arcs: level[arcs])
        states = {arcs: row for row, arcs in enumerate(order)}
        arcs = calls.of("char", "word")
        arcs.sort(key=lambda call: (level[tuple(calls.values[call])], calls.cell[call]))
        place = {call: row for row, call in enumerate(arcs)}
        entering = [[] for _ in range(1 + max(level.values()))]
        for arcs_in in order:
            entering[level[arcs_in]].append(arcs_in)
        leaving = [{"char": [], "word": []} for _ in entering]
        for call in arcs:
            leaving[level[tuple(calls.values[call])]][calls.cell[call]].append(call)
        steps, row = [], 0
        tokens = {"char": [], "word": []}
        for here, groups in zip(entering, leaving):
            flat = [place[arc] for arcs_in in here for arc in arcs_in if arc >= 0]
            segment = [k for k, arcs_in in enumerate(here) for arc in arcs_in if arc >= 0]
            share = torch.tensor([1.0 / len(arcs_in) for arcs_in in here]).unsqueeze(1)
            first = row
            row += len(here)
            batches = []
            for cell, group in groups.items():
                if group:
                    rows = slice(place[group[0]], place[group[0]] + len(group))
                    inputs = slice(len(tokens[cell]), len(tokens[cell]) + len(group))
                    tokens[cell].extend(calls.rows[call][0] for call in group)
                    source = [states[tuple(calls.values[call])] - first for call in group]
                    batches.append((cell, rows, inputs, index(source)))
            steps.append((slice(first, row), index(flat), index(segment), share, batches))
        outputs = index([states[tuple(calls.values[call])] for call in calls.wanted])
        tokens = {cell: index(rows) for cell, rows in tokens.items()}
        return len(arcs), row, tokens, steps, outputs

    def run(self, prepared):
        arcs, count, tokens, steps, outputs = prepared
        fields = ["h0"] if self.gru else ["h0", "c0"]
        starts = [self.weights[field] for field in fields]
        size = len(starts[0])
        made = [torch.empty(arcs, size) for _ in fields]
        states = [torch.empty(count, size) for _ in fields]
        products = {}
        for cell, rows in tokens.items():
            embed, w, bias, _, _ = self.cells[cell]
            products[cell] = torch.addmm(bias, embed[rows], w)
        for rows, flat, segment, share, batches in steps:
            for start, made_field, state in zip(starts, made, states):
                if len(flat) == 0:
                    state[rows] = start
                else:
                    sums = torch.zeros(len(share), size)
                    state[rows] = sums.index_add_(0, segment, made_field[flat]) * share
            here = [state[rows] for state in states]
            for cell, out, inputs, source in batches:
                results = self.cell(cell, products[cell][inputs], [state[source] for state in here])
                for made_field, result in zip(made, results):
                    made_field[out] = result
        return torch.addmm(self.output[1], states[0][outputs], self.output[0])

    def cell(self, name, x, state):
        """Computes a step for arcs, given the products of their inputs."""
        _, _, _, u, u_c = self.cells[name]
        h = state[0]
        if not self.gru:
            i, f, o, g = torch.addmm(x, h, u).chunk(4, 1)
            c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c), c
        gates, candidate = x[:, : u.shape[1]], x[:, u.shape[1] :]
        r, z = torch.sigmoid(torch.addmm(gates, h, u)).chunk(2, 1)
        c = torch.tanh(torch.addmm(candidate, r * h, u_c))
        return (c + z * (h - c),)


MODELS = {
    "tree_lstm": TreeLstm,
    "tree_lstm_2type": TreeLstm,
    "tree_gru": TreeGru,
    "mv_rnn": MvRnn,
    "bilstm_tagger": Tagger,
    "lattice_lstm": lambda weights, cells: Lattice(weights, cells, gru=False),
    "lattice_gru": lambda weights, cells: Lattice(weights, cells, gru=True),
}


class Deadline:
    """Limits the seconds of all preparations together: `with deadline: …`."""

    def __init__(self, seconds):
        self.seconds = self.left = seconds
        signal.signal(signal.SIGALRM, self.over)

    def over(self, *_):
        raise protocol.Skipped(f"levels, indices and graphs took more than {self.seconds:g} s")

    def __enter__(self):
        if self.left <= 0:
            self.over()
        self.began = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, self.left)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.left -= time.perf_counter() - self.began


def eager(model, prepared):
    return lambda: model.run(prepared).cpu()


def capture(work):
    """Captures the launches of `work`. Returns the graph and the results, which replays overwrite."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    return graph, results


class Replayed:
    """The captured launches of one mini-batch. They read the tensors of `prepared` by address, so
    these must live as long as the graph."""

    def __init__(self, model, prepared, capture=capture):
        self.prepared = prepared
        self.graph, self.results = capture(lambda: model.run(prepared))

    def __call__(self):
        self.graph.replay()
        return self.results.cpu()


def on_cuda(weights):
    """Makes CUDA the default device, with exact products. Returns the weights on it."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_default_device("cuda")
    return {name: tensor.to("cuda") for name, tensor in weights.items()}


def main(folder, mode="cpu"):
    graphs = protocol.read_graphs(folder)
    weights = read_weights(folder)
    if mode != "cpu":
        weights = on_cuda(weights)
    model = MODELS[graphs["model"]](weights, graphs["cells"])

    if mode == "cuda-compiled":
        model.cell = torch.compile(model.cell, dynamic=True)

    def timed(work, *arguments):
        began = time.perf_counter()
        result = work(*arguments)
        return result, time.perf_counter() - began

    def prepare(count, number):
        batch = protocol.merged(graphs["mini_batches"], count, number)
        return model.prepare(Calls(graphs["cells"], batch))

    runs = {}
    deadline = contextlib.nullcontext() if mode == "cpu" else Deadline(DEADLINE)

    def run(count, number):
        if (count, number) not in runs:
            with deadline:
                made, preparing = timed(prepare, count, number)
                runs[count, number] = way(model, made), preparing
        work, preparing = runs[count, number]
        results, computing = timed(work)
        return (computing, preparing), results

    with torch.inference_mode():
        way = eager if mode in ("cpu", "cuda") else Replayed
        try:
            # Compiles and captures a first time, without a deadline.
            way(model, prepare(1, 0))()
        except RuntimeError as error:
            if way is eager:
                raise
            return protocol.skip(str(error).splitlines()[0])
        protocol.serve(folder, torch.__version__, run)


if __name__ == "__main__":
    main(*sys.argv[1:])
