"""Networks for the tests: a tree network, and random ones."""

import random

import edbatch as ed
import numpy as np


class Trees:
    """Trees of words: a word, and the trees below it."""

    def __init__(self, width=8):
        self.net = net = ed.Network()
        self.state, self.logits = net.record("state", h=width), net.record("logits", y=5)
        self.none = net.initial(self.state, h="none.h")
        state, logits = self.state, self.logits

        @net.cell(state)
        def node(c):
            x = c.lookup("word", "embed", (30, 6))
            (h,) = c.many("children", state).sum()
            w, u = c.parameter("w", (width, 6)), c.parameter("u", (width, width))
            return (w @ x + u @ h + c.parameter("b", width)).tanh()

        @net.cell(logits)
        def score(c):
            (h,) = c.one("root", state)
            return (c.parameter("out", (5, width)) @ h).log_softmax()

        @net.cell(state)
        def layer(c):
            (h,) = c.one("root", state)
            return (c.parameter("deep", (width, width)) @ h).tanh()

        self.node, self.score, self.layer = node, score, layer
        self.weights = ed.Weights.random(net, seed=1)

    def wire(self, b, tree):
        word, below = tree
        return b.call(self.node, word, [self.wire(b, t) for t in below] or [self.none])

    def build(self, b, tree):
        b.emit(b.call(self.score, self.wire(b, tree)))

    async def early_exit(self, b, tree):
        h = self.wire(b, tree)
        for _ in range(6):
            scores, h = await b.fetch(b.call(self.score, h), h)
            if scores.max() > -1.4:
                break
            h = b.call(self.layer, h)
        b.emit(h)

    def engine(self, build=None, **options):
        return ed.Engine(self.net, self.weights, build or self.build, **options)


def trees(count, seed=0, depth=3):
    rng = random.Random(seed)

    def tree(depth):
        below = rng.randrange(3) if depth else 0
        return rng.randrange(30), [tree(depth - 1) for _ in range(below)]

    return [tree(depth) for _ in range(count)]


class RandomNetwork:
    """A random network, its weights, and random inputs: lists of steps that wire calls.

    A step is ("give", record, arrays), ("call", cell, rows, values) or ("emit", value). Values
    count from 0 in the order of the steps; initial values are negative.
    """

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.net = ed.Network()
        self.records = [self.record(index) for index in range(self.rng.randint(1, 3))]
        self.initial = [self.initial_value(record) for record in self.records]
        count = self.rng.randint(1, 4)
        self.cells = [self.cell(index) for index in range(count)]
        self.weights = ed.Weights.random(self.net, seed=seed)

    def shape(self):
        rows, columns = self.rng.randint(1, 5), self.rng.randint(2, 4)
        return (rows, columns) if self.rng.random() < 0.25 else rows

    def record(self, index):
        fields = {f"f{field}": self.shape() for field in range(self.rng.randint(1, 3))}
        return self.net.record(f"r{index}", **fields)

    def initial_value(self, record):
        return self.net.initial(record, **{f: f"{record.name}.{f}" for f in record.fields})

    def cell(self, index):
        rng, out = self.rng, self.rng.choice(self.records)
        tables, ones = rng.randint(0, 2), rng.randint(0, 2)
        many = rng.random() < 0.5 or tables + ones == 0
        into = [rng.choice(self.records) for _ in range(ones + many)]

        @self.net.cell(out, name=f"c{index}")
        def equations(c):
            tensors = []
            for table in range(tables):
                width = rng.randint(1, 5)
                tensors.append(c.lookup(f"t{table}", f"c{index}.t{table}", (7, width)))
            for port, record in enumerate(into):
                if many and port == ones:
                    values = c.many("all", record)
                    reduced = [values.sum, values.mean, values.max, values.log_sum_exp]
                    tensors.extend(rng.choice(reduced)())
                else:
                    tensors.extend(c.one(f"p{port}", record))
            for _ in range(rng.randint(0, 6)):
                tensors.append(self.operation(c, f"c{index}.o{len(tensors)}", tensors))
            return [
                self.fitted(c, f"c{index}.{field}", rng.choice(tensors), shape)
                for field, shape in out.fields.items()
            ]

        self.net.cells  # Declared.
        return equations, tables, into, many

    def operation(self, c, name, tensors):
        rng, x = self.rng, self.rng.choice(self.tensors_of(tensors))
        unary = "tanh sigmoid relu softmax log_softmax silu gelu layer_norm rms_norm abs erf"
        kind = rng.randrange(9)
        if kind == 0:
            return x * rng.uniform(-2, 2) + 0.5
        if kind == 1:
            return 1 - x / 3
        if kind == 2 and len(x.shape) == 1:
            return c.parameter(name, (rng.randint(1, 5), x.shape[0])) @ x
        if kind == 3:
            same = [y for y in tensors if y.shape == x.shape]
            y = rng.choice(same)
            return rng.choice([x + y, x - y, x * y, x.maximum(y), x.minimum(y)])
        if kind == 4 and x.shape[0] > 1:
            return x[1:]
        if kind == 5 and len(x.shape) == 1:
            return c.concat([x, -x])
        if kind == 6 and len(x.shape) == 2:
            v = c.parameter(name, x.shape[0])
            return rng.choice([x.T, x * v[:, None], x.reshape(x.shape[0] * x.shape[1])])
        if kind == 7:
            return x.exp().minimum(4.0).sqrt()
        return getattr(x, rng.choice(unary.split()))()

    def tensors_of(self, tensors):
        return tensors[-3:] if self.rng.random() < 0.5 else tensors

    def fitted(self, c, name, tensor, shape):
        """Returns a tensor of this shape that depends on `tensor`."""
        if len(tensor.shape) == 2:
            tensor = tensor.reshape(tensor.shape[0] * tensor.shape[1])
        elements = int(np.prod(shape))
        if tensor.shape != (elements,):
            tensor = (c.parameter(name, (elements, tensor.shape[0])) @ tensor).tanh()
        return tensor.reshape(*shape)

    def input(self, awaits=False):
        """Returns the steps of a random input. Awaits are ("await", value, carried)."""
        rng, steps, made = self.rng, [], []
        number = 0

        def values(record):
            own = [value for value, of in made if of is record]
            return own or [self.initial[self.records.index(record)]]

        for _ in range(rng.randint(0, 8)):
            if rng.random() < 0.2:
                record = rng.choice(self.records)
                shapes = record.fields.values()
                arrays = [self.numbers.normal(size=s).astype(np.float32) for s in shapes]
                steps.append(("give", record, arrays))
                made.append((number, record))
            else:
                cell, tables, into, many = rng.choice(self.cells)
                operands = [rng.randrange(7) for _ in range(tables)]
                for port, record in enumerate(into):
                    choice = values(record)
                    if many and port == len(into) - 1:
                        operands.append([rng.choice(choice) for _ in range(rng.randint(1, 4))])
                    else:
                        operands.append(rng.choice(choice))
                steps.append(("call", cell, operands))
                out = next(r for r in self.records if r.name == self.out(cell))
                made.append((number, out))
            number += 1
        same = [value for value, record in made if record is self.records[0]]
        for _ in range(rng.randint(0, 3)):
            every = [value for value, _ in made] + self.initial
            steps.append(("emit", rng.choice(same if same and rng.random() < 0.5 else every)))
        return steps

    def out(self, cell):
        import json

        if not hasattr(self, "outs"):
            cells = json.loads(self.net.to_json())["cells"]
            self.outs = {cell["name"]: cell["record"] for cell in cells}
        return self.outs[cell.name]


def replay(b, steps):
    """Wires the steps of a random input."""
    for step in steps:
        if step[0] == "give":
            b.give(step[1], *step[2])
        elif step[0] == "call":
            b.call(step[1], *step[2])
    emitted = [step[1] for step in steps if step[0] == "emit"]
    if emitted:
        b.emit(*emitted)


async def replay_with_awaits(b, steps):
    """Wires the steps; after each, awaits the newest value and carries all others across."""
    made = []

    def value(number):
        return made[number] if number >= 0 else number

    for index, step in enumerate(steps):
        if step[0] == "give":
            made.append(b.give(step[1], *step[2]))
        elif step[0] == "call":
            operands = [
                [value(v) for v in operand] if isinstance(operand, list) else operand
                for operand in step[2]
            ]
            tables = len(step[1].tables)
            ones = [value(v) if not isinstance(v, list) else v for v in operands[tables:]]
            made.append(b.call(step[1], *operands[:tables], *ones))
        else:
            b.emit(value(step[1]))
            continue
        if index % 3 == 0:
            answer, *made = await b.fetch(made[-1], *made)
        elif index % 3 == 1:
            answer, *made = await b.arg_max(made[-1], *made)
            assert isinstance(answer, int)
        else:
            each, *made = await b.fetch_each(made[-2:], *made)
            assert len(each) == len(made[-2:])


def as_arrays(net, steps):
    """Returns the steps of a random input as arrays for `CallList.from_arrays`."""
    gives = [step for step in steps if step[0] == "give"]
    numbers, given, call = {}, 0, len(gives)
    made = 0
    for step in steps:
        if step[0] == "give":
            numbers[made], given, made = given, given + 1, made + 1
        elif step[0] == "call":
            numbers[made], call, made = call, call + 1, made + 1
    number = lambda value: numbers[value] if value >= 0 else value
    kinds, operands, offsets, emit = [], [], [0], []
    for step in steps:
        if step[0] == "call":
            cell, arguments = step[1:]
            kinds.append(cell.kind)
            tables = len(cell.tables)
            operands += arguments[:tables]
            for argument in arguments[tables:]:
                values = argument if isinstance(argument, list) else [argument]
                operands += [number(value) for value in values]
            offsets.append(len(operands))
        elif step[0] == "emit":
            emit.append(number(step[1]))
    give = [(record, np.concatenate([a.ravel() for a in arrays])) for _, record, arrays in gives]
    give = [
        (record, array if len(record.fields) > 1 else arrays[0])
        for (record, array), (_, _, arrays) in zip(give, gives)
    ]
    return (
        np.array(kinds, np.uint16),
        np.array(operands, np.int32),
        np.array(offsets, np.uint32),
        np.array(emit, np.int32),
        give,
    )
