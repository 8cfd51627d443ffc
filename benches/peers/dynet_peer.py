"""The benchmark's workloads in DyNet, as its users write them: a node at a time, autobatched.

    python3 dynet_peer.py FOLDER

`protocol.py` describes FOLDER and the messages on the pipes. Gates are stacked. LSTMs use DyNet's
own three operations, which its `CompactVanillaLSTMBuilder` consists of. DyNet's batching is on and
timed, with the one of its strategies (`--dynet-autobatch 1`, `2`, `3`) that is the fastest on the
first mini-batch of a size. Each is tried in a process of its own and must compute what 1 computes:
on lattices, 3 crashes and 2 has other results. The description of the graph in Python, which every
mini-batch needs, is timed separately, in favour of this program.
"""

import ctypes
import os
import pickle
import re
import sys
import time

# DyNet reads its options from here, when it is imported.
MEMORY = os.environ.get("EDBATCH_DYNET_MEMORY", "1024")
FOLDER = sys.argv[1]
sys.argv = [sys.argv[0], "--dynet-autobatch", "1", "--dynet-mem", MEMORY, "--dynet-seed", "1"]

# DyNet prints its options on import. Errors come later, as Python exceptions.
errors = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
import dynet as dy  # noqa: E402

os.dup2(errors, 2)
import numpy as np  # noqa: E402

import protocol  # noqa: E402


class Weights:
    """Parameters by our names. Several names give one parameter: theirs stacked by rows."""

    def __init__(self, folder):
        self.collection = dy.ParameterCollection()
        self.arrays = {
            name: np.frombuffer(data, dtype=np.float32).reshape(shape)
            for name, shape, data in protocol.read_weights(folder)
        }

    def __getitem__(self, name):
        return self.arrays[name]

    def parameter(self, *names):
        return self.of(np.concatenate([self.arrays[name] for name in names]))

    def of(self, array):
        return self.collection.parameters_from_numpy(np.ascontiguousarray(array))

    def table(self, name):
        return self.collection.lookup_parameters_from_numpy(np.ascontiguousarray(self.arrays[name]))


class Lstm:
    """DyNet's LSTM: gates i, f, o, g. It adds one to the forget gate, which is subtracted here."""

    def __init__(self, weights, name):
        gates = "ifog"
        self.w = weights.parameter(*[f"{name}.w_{gate}" for gate in gates])
        self.u = weights.parameter(*[f"{name}.u_{gate}" for gate in gates])
        forget = [weights[f"{name}.b_{gate}"] - (gate == "f") for gate in gates]
        self.b = weights.of(np.concatenate(forget))

    def __call__(self, x, h, c):
        gates = dy.vanilla_lstm_gates(x, h, self.w, self.u, self.b)
        c = dy.vanilla_lstm_c(c, gates)
        return dy.vanilla_lstm_h(c, gates), c


def split(x, size):
    return [dy.pick_range(x, begin, begin + size) for begin in range(0, x.dim()[0][0], size)]


class TreeLstm:
    def __init__(self, weights, cells):
        self.embed = weights.table("embed.weight")
        self.size = weights["leaf.b_i"].shape[0]
        self.leaf = [weights.parameter(*[f"leaf.{p}_{gate}" for gate in "iou"]) for p in "bw"]
        self.inner = {}
        for cell in cells:
            if cell.startswith("node"):
                gates = [weights.parameter(*[f"{cell}.b_{gate}" for gate in "iou"])]
                forget = [weights.parameter(f"{cell}.b_f")]
                for side in "lr":
                    gates.append(weights.parameter(*[f"{cell}.u_{g}_{side}" for g in "iou"]))
                    forget.append(weights.parameter(f"{cell}.u_f_{side}"))
                self.inner[cell] = gates, forget
        self.output = weights.parameter("out.bias"), weights.parameter("out.weight")

    def call(self, cell, rows, values):
        if cell == "leaf":
            bias, w = self.leaf
            i, o, u = split(dy.affine_transform([bias, w, self.embed[rows[0]]]), self.size)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
        elif cell == "output":
            return dy.affine_transform([*self.output, values[0][0]])
        else:
            (bias, left, right), (forget_bias, *forget) = self.inner[cell]
            (h_l, c_l), (h_r, c_r) = values
            gates = dy.affine_transform([bias, left, h_l, right, h_r])
            i, o, u = split(gates, self.size)
            f_l = dy.logistic(dy.affine_transform([forget_bias, forget[0], h_l]))
            f_r = dy.logistic(dy.affine_transform([forget_bias, forget[1], h_r]))
            kept = dy.cmult(f_l, c_l) + dy.cmult(f_r, c_r)
            c = dy.cmult(dy.logistic(i), dy.tanh(u)) + kept
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c


class TreeGru:
    def __init__(self, weights, cells):
        self.embed = weights.table("embed.weight")
        self.size = weights["leaf.b_c"].shape[0]
        self.leaf = self.half(weights, "leaf.b", "leaf.w_{}")
        self.sides = [self.half(weights, "node.b", f"node.u_{{}}_{side}") for side in "lr"]
        self.output = weights.parameter("out.bias"), weights.parameter("out.weight")

    def half(self, weights, bias, name):
        gates = weights.parameter(f"{bias}_r", f"{bias}_z")
        candidate = weights.parameter(f"{bias}_c"), weights.parameter(name.format("c"))
        return (gates, weights.parameter(name.format("r"), name.format("z"))), candidate

    def from_one(self, h, half):
        (bias, w), (candidate_bias, w_c) = half
        r, z = split(dy.logistic(dy.affine_transform([bias, w, h])), self.size)
        c = dy.tanh(dy.affine_transform([candidate_bias, w_c, dy.cmult(r, h)]))
        return c + dy.cmult(z, h - c)

    def call(self, cell, rows, values):
        if cell == "leaf":
            return (self.from_one(self.embed[rows[0]], self.leaf),)
        if cell == "output":
            return dy.affine_transform([*self.output, values[0][0]])
        halves = [self.from_one(value[0], side) for value, side in zip(values, self.sides)]
        return ((halves[0] + halves[1]) * 0.5,)


class Tagger:
    def __init__(self, weights, cells):
        self.embed = weights.table("embed.weight")
        self.layers = {cell: Lstm(weights, cell) for cell in cells if cell[:4] in ("fwd.", "bwd.")}
        self.starts = {
            cell: [weights.parameter(f"{cell}.{state}0") for state in "hc"] for cell in self.layers
        }
        self.mlp = weights.parameter("mlp.bias"), weights.parameter("mlp.weight")
        self.output = weights.parameter("out.bias"), weights.parameter("out.weight")

    def call(self, cell, rows, values):
        if cell not in self.layers:
            both = dy.concatenate([value[0] for value in values])
            hidden = dy.tanh(dy.affine_transform([*self.mlp, both]))
            return dy.affine_transform([*self.output, hidden])
        *below, state = values
        x = below[0][0] if below else self.embed[rows[0]]
        return self.layers[cell](x, *(state or self.starts[cell]))


class Lattice:
    def __init__(self, weights, cells):
        self.tables = {cell: weights.table(f"{cell}_embed.weight") for cell in ("char", "word")}
        self.start = [weights.parameter(name) for name in ("h0", "c0") if name in weights.arrays]
        self.output = weights.parameter("out.bias"), weights.parameter("out.weight")
        self.cells = {cell: self.cell(weights, cell) for cell in ("char", "word")}

    def call(self, cell, rows, values):
        # A state is the mean of the arcs that lead to it.
        arcs = [value or self.start for value in values]
        state = arcs[0] if len(arcs) == 1 else [dy.average(list(field)) for field in zip(*arcs)]
        if cell == "output":
            return dy.affine_transform([*self.output, state[0]])
        return self.cells[cell](self.tables[cell][rows[0]], *state)


class LatticeLstm(Lattice):
    def cell(self, weights, cell):
        return Lstm(weights, cell)


class LatticeGru(Lattice):
    def cell(self, weights, cell):
        size = weights[f"{cell}.b_c"].shape[0]
        gates, candidate = (
            [
                weights.parameter(*[f"{cell}.{kind}_{gate}" for gate in of])
                for kind in ("b", "w", "u")
            ]
            for of in ("rz", "c")
        )

        def step(x, h):
            bias, w, u = gates
            r, z = split(dy.logistic(dy.affine_transform([bias, w, x, u, h])), size)
            bias, w, u = candidate
            c = dy.tanh(dy.affine_transform([bias, w, x, u, dy.cmult(r, h)]))
            return (c + dy.cmult(z, h - c),)

        return step


MODELS = {
    "tree_lstm": TreeLstm,
    "tree_lstm_2type": TreeLstm,
    "tree_gru": TreeGru,
    "bilstm_tagger": Tagger,
    "lattice_lstm": LatticeLstm,
    "lattice_gru": LatticeGru,
}


class Inference:
    """Computes the wanted values of a mini-batch."""

    def __init__(self, collection):
        """`collection` has the parameters."""

    def expression(self, wanted, number):
        """Returns an expression of the wanted values, a list of expressions."""
        return dy.concatenate(wanted)

    def compute(self, expression):
        expression.forward()
        return expression.npvalue()


def described(model, cells, batch):
    """Describes the calls of a mini-batch. Returns the expressions of the wanted values."""
    made = []
    for cell, rows, values in batch["calls"]:
        read = [made[value] if value >= 0 else None for value in values]
        made.append(model.call(cells[cell], rows, read))
    return [made[value] for value in batch["wanted"]]


def library():
    """Returns the path of DyNet's library, which this process has loaded."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libdynet" in line)


def version():
    """Returns DyNet's version, with the compiler switches of its library if they are known."""
    with open(library(), "rb") as file:
        switches = re.search(rb"GNU C\+\+[^\0]*", file.read())
    if not switches:
        return f"{dy.__version__} (compiled with unknown switches)"
    compiler, *rest = switches.group().decode().split(" -")
    kept = [f"-{switch}" for switch in rest if re.match(r"(march=|O|m(no-)?avx512f$)", switch)]
    return f"{dy.__version__} ({compiler} {' '.join(dict.fromkeys(kept))})"


def main(job=Inference, models=MODELS):
    graphs = protocol.read_graphs(FOLDER)
    cells = graphs["cells"]
    # The collection owns the parameters, so it must outlive the model.
    weights = Weights(FOLDER)
    model, job = models[graphs["model"]](weights, cells), job(weights.collection)
    # The library reads the option's variable in every run; Python has no name for it.
    strategy = ctypes.c_int.in_dll(ctypes.CDLL(library()), "_ZN5dynet14autobatch_flagE")
    batches, strategies = {}, {}

    def run_by(chosen, count, number):
        if (count, number) not in batches:
            batches[count, number] = protocol.merged(graphs["mini_batches"], count, number)
        strategy.value = chosen
        began = time.perf_counter()
        dy.renew_cg()
        expression = job.expression(described(model, cells, batches[count, number]), number)
        ready = time.perf_counter()
        values = job.compute(expression)
        return (time.perf_counter() - ready, ready - began), values

    def tried(chosen, count):
        """Runs the first mini-batch four times in a process of its own, which may crash. Returns
        the least time of the last three, and all results; or none."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                runs = [run_by(chosen, count, 0) for _ in range(4)]
                seconds, results = min(run[0][0] for run in runs[1:]), [run[1] for run in runs]
                with os.fdopen(writer, "wb") as answer:
                    pickle.dump((seconds, results), answer)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            answer = answer.read()
        os.waitpid(child, 0)
        return pickle.loads(answer) if answer else None

    def fastest(count):
        if count not in strategies:
            (first, expected), *others = (tried(chosen, count) for chosen in (1, 2, 3))
            seconds = [first]
            for other in others:
                right = other and np.allclose(other[1], expected, atol=1e-5)
                seconds.append(other[0] if right else float("inf"))
            strategies[count] = 1 + seconds.index(min(seconds))
        return strategies[count]

    protocol.serve(
        FOLDER,
        version(),
        lambda count, number: run_by(fastest(count), count, number),
        lambda count: f"--dynet-autobatch {fastest(count)}",
    )


if __name__ == "__main__":
    main()
