"""`edbatch.torch.Layer` between modules of PyTorch; skipped without it."""

import copy
import pickle

import numpy as np
import pytest

import edbatch as ed
from edbatch import cells

torch = pytest.importorskip("torch", reason="torch is not installed")
Layer = pytest.importorskip("edbatch.torch").Layer

E, H, CLASSES = 4, 5, 3


NET = ed.Network()
WORD, STATE = NET.record("word", x=E), NET.record("state", h=H, c=H)
HIDDEN = NET.record("hidden", h=H)
NONE = NET.initial(STATE, h="none.h", c="none.c")


@NET.cell(STATE)
def node(c):
    x = c.one("word", WORD).x
    h, cell = c.many("children", STATE).sum()
    return cells.lstm(c, "tree.0", x, h, cell)


@NET.cell(HIDDEN)
def read(c):
    return c.one("state", STATE).h


def build(b, tree, words):
    """A tree is a word and its children. Emits the state of each node, the root last."""

    def wire(tree):
        word, children = tree
        value = b.call(node, words[word], [wire(child) for child in children] or [NONE])
        b.emit(b.call(read, value))
        return value

    wire(tree)


# Trees whose words are numbered, and the words of each.
TREES = [
    (0, [(1, []), (2, [(3, []), (4, [])])]),
    (0, []),
    (2, [(1, []), (0, [])]),
]
WORDS = [[3, 1, 4, 1, 5], [9], [2, 6, 5]]
TARGETS = [0, 2, 1]


class Tree(torch.nn.Module):
    """The same encoder, node by node in PyTorch."""

    def __init__(self, layer):
        super().__init__()
        for name, tensor in layer.named_parameters():
            copied = torch.nn.Parameter(tensor.detach().clone())
            self.register_parameter(name.replace(".", "_"), copied)

    def gate(self, letter, x, h):
        w, u, b = (getattr(self, f"tree_0_{kind}_{letter}") for kind in "wub")
        return w @ x + u @ h + b

    def state(self, tree, words, rows):
        word, children = tree
        below = [self.state(child, words, rows) for child in children]
        below = below or [(self.none_h, self.none_c)]
        h, c = (torch.stack(values).sum(0) for values in zip(*below))
        x = words[word]
        i, f, g, o = (self.gate(letter, x, h) for letter in "ifgo")
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        rows.append(h)
        return h, c

    def forward(self, trees, words):
        outputs = []
        for tree, of_tree in zip(trees, words, strict=True):
            outputs.append([])
            self.state(tree, of_tree, outputs[-1])
        return [torch.stack(rows) for rows in outputs]


class Model(torch.nn.Module):
    """Embedding, encoder, classifier."""

    def __init__(self, encoder):
        super().__init__()
        self.embed = torch.nn.Embedding(10, E)
        self.encoder = encoder
        self.classify = torch.nn.Linear(H, CLASSES)

    def forward(self, trees, words):
        rows = [self.embed(torch.tensor(of_tree)) for of_tree in words]
        return torch.stack([self.classify(rows[-1]) for rows in self.encoder(trees, rows)])


def models():
    torch.manual_seed(1)
    ours = Model(Layer(NET, build, given=("word",)))
    theirs = Model(Tree(ours.encoder))
    theirs.embed.load_state_dict(ours.embed.state_dict())
    theirs.classify.load_state_dict(ours.classify.state_dict())
    return ours, theirs


def named(model):
    return {name.replace("tree.0.", "tree_0_").replace("none.", "none_"): tensor
            for name, tensor in model.named_parameters()}


def loss_of(model):
    scores = model(TREES, WORDS)
    return torch.nn.functional.cross_entropy(scores, torch.tensor(TARGETS))


def test_outputs_and_all_gradients_equal_the_same_model_in_torch():
    ours, theirs = models()
    for _ in range(2):
        losses = [loss_of(model) for model in (ours, theirs)]
        torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
        for loss in losses:
            loss.backward()
        expected = named(theirs)
        for name, tensor in named(ours).items():
            torch.testing.assert_close(tensor.grad, expected[name].grad, rtol=1e-5, atol=1e-5)
    assert len(expected) == 17


def test_gradients_are_the_slopes_along_random_directions():
    ours, _ = models()
    generator = torch.Generator().manual_seed(2)
    parameters = list(ours.parameters())
    loss_of(ours).backward()
    for _ in range(5):
        directions = [torch.randn(p.shape, generator=generator) for p in parameters]
        slope = sum((p.grad * d).sum() for p, d in zip(parameters, directions, strict=True))
        losses = []
        for step in (1e-2, -1e-2):
            with torch.no_grad():
                for p, d in zip(parameters, directions, strict=True):
                    p.add_(d, alpha=step)
                losses.append(loss_of(ours).double())
                for p, d in zip(parameters, directions, strict=True):
                    p.sub_(d, alpha=step)
        assert float(slope) == pytest.approx(float(losses[0] - losses[1]) / 2e-2, rel=1e-3, abs=1e-3)


def test_losses_of_100_steps_of_adam_equal_those_in_torch():
    losses = []
    for model in models():
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        of_model = []
        for _ in range(100):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            of_model.append(loss.item())
        losses.append(of_model)
    np.testing.assert_allclose(*losses, rtol=1e-3, atol=1e-3)
    assert losses[0][-1] < 0.1 * losses[0][0]


def test_states_have_the_names_of_the_network():
    layer = Layer(NET, build, given=("word",))
    state = layer.state_dict()
    assert list(NET.parameters) == [name for name in NET.parameters if name in state]
    assert len(state) == len(NET.parameters)
    weights = ed.Weights.from_state_dict(NET, state)
    other = Layer(NET, build, given=("word",), weights=weights)
    words = [torch.randn(len(of_tree), E) for of_tree in WORDS]
    check_equal(layer, other, words)
    third = Layer(NET, build, given=("word",))
    assert not torch.equal(third(TREES, words)[0], layer(TREES, words)[0])
    third.load_state_dict(state)
    check_equal(layer, third, words)
    with pytest.raises(RuntimeError, match="Missing key"):
        third.load_state_dict({name: state[name] for name in list(state)[1:]})


def check_equal(one, other, words):
    for outputs in zip(one(TREES, words), other(TREES, words), strict=True):
        assert torch.equal(*outputs)


def test_copies_train_apart():
    layer = Layer(NET, build, given=("word",))
    words = [torch.randn(len(of_tree), E) for of_tree in WORDS]
    before = [rows.detach().clone() for rows in layer(TREES, words)]
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(Layer(NET, None)))):
        assert copied.state_dict().keys() == layer.state_dict().keys()
    copied = copy.deepcopy(layer)
    check_equal(layer, copied, words)
    optimizer = torch.optim.SGD(copied.parameters(), lr=0.5)
    torch.cat(copied(TREES, words)).sum().backward()
    optimizer.step()
    for rows, old, new in zip(layer(TREES, words), before, copied(TREES, words), strict=True):
        assert torch.equal(rows, old) and not torch.equal(rows, new)


def test_no_grad_runs_the_engine_with_the_same_bits():
    layer = Layer(NET, build, given=("word",))
    words = [torch.randn(len(of_tree), E) for of_tree in WORDS]
    for _ in range(2):
        with torch.no_grad():
            plain = layer(TREES, words)
        kept = layer(TREES, words)
        for one, other in zip(plain, kept, strict=True):
            assert torch.equal(one, other) and not one.requires_grad and other.requires_grad
        with torch.no_grad():
            next(layer.parameters()).add_(0.1)
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    assert not layer(TREES, words)[0].requires_grad


def test_two_calls_before_the_way_back_add_their_gradients():
    layer = Layer(NET, build, given=("word",))
    words = [torch.randn(len(of_tree), E, requires_grad=True) for of_tree in WORDS]
    tensors, halves = [*layer.parameters(), *words], (slice(0, 1), slice(1, 3))
    for half in halves:
        torch.cat(layer(TREES[half], words[half])).square().sum().backward()
    separate = [tensor.grad.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    calls = [layer(TREES[half], words[half]) for half in halves]
    sum(torch.cat(rows).square().sum() for rows in calls).backward()
    for expected, tensor in zip(separate, tensors, strict=True):
        torch.testing.assert_close(tensor.grad, expected, rtol=1e-6, atol=1e-6)


def test_given_rows_without_gradients_and_outputs_without_a_loss():
    layer = Layer(NET, build, given=("word",))
    words = [torch.randn(len(of_tree), E) for of_tree in WORDS]
    layer(TREES, words)[1].sum().backward()
    alone = copy.deepcopy(layer)
    alone.zero_grad()
    alone(TREES[1:2], words[1:2])[0].sum().backward()
    for one, other in zip(layer.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-6, atol=1e-6)


def lists():
    """A network whose inputs are call lists with values of two widths, and dropout."""
    net = ed.Network()
    small, large = net.record("small", x=2), net.record("large", x=50)

    @net.cell(small)
    def row(c):
        return c.lookup("row", "table", (4, 2))

    @net.cell(large)
    def wide(c):
        return (c.parameter("w", (50, 2)) @ c.one("x", small).x).dropout(0.5)

    calls = ed.CallList(net)
    value = calls.call(row, 3)
    calls.emit(value)
    calls.emit(calls.call(wide, value))
    return Layer(net), calls


def test_values_of_different_widths_are_tuples_of_vectors():
    layer, calls = lists()
    layer.eval()
    outputs = layer([calls, calls])
    assert type(outputs) is type(outputs[0]) is tuple
    ((small, large), _) = outputs
    assert (small.shape, large.shape) == ((2,), (50,))
    torch.testing.assert_close(large, layer.w @ layer.table[3])
    large.sum().backward()
    torch.testing.assert_close(layer.table.grad[3], layer.w.sum(0))
    assert layer([]) == ()


def test_dropout_follows_train_and_eval():
    layer, calls = lists()
    whole = layer.w @ layer.table[3]
    layer.train()
    dropped = [layer([calls])[0][1] for _ in range(2)]
    assert not torch.equal(*dropped)
    with torch.no_grad():
        dropped.append(layer([calls])[0][1])
    for vector in dropped:
        kept = vector != 0
        assert 5 < kept.sum() < 45
        torch.testing.assert_close(vector[kept], 2 * whole[kept])
    # The gradient passes the mask of its own call.
    layer.zero_grad()
    dropped[0].sum().backward()
    expected = 2 * (dropped[0] != 0).float()[:, None] * layer.table[3]
    torch.testing.assert_close(layer.w.grad, expected)
    layer.eval()
    torch.testing.assert_close(layer([calls])[0][1], whole)


def test_bfloat16_states_become_float32():
    layer = Layer(NET, build, given=("word",))
    state = {name: tensor.bfloat16() for name, tensor in layer.state_dict().items()}
    weights = ed.Weights.from_state_dict(NET, state)
    for name, tensor in state.items():
        np.testing.assert_array_equal(weights[name], tensor.float().numpy())


def test_recurrent_modules_give_their_state_and_take_it_back():
    module = torch.nn.LSTM(E, H)
    net = ed.Network()
    word, state = net.record("word", x=E), net.record("state", h=H, c=H)

    @net.cell(state)
    def step(c):
        h, cell = c.one("previous", state)
        return cells.lstm(c, "rnn.0", c.one("word", word).x, h, cell)

    weights = ed.Weights.from_state_dict(net, module.state_dict(), recurrent={"": "rnn"})
    back = weights.to_state_dict(recurrent={"": "rnn"})
    other = torch.nn.LSTM(E, H)
    other.load_state_dict({name: torch.from_numpy(array) for name, array in back.items()})
    x = torch.randn(3, E)
    torch.testing.assert_close(module(x)[0], other(x)[0])


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ([torch.zeros(1, E)], ValueError, "given word: expected a tensor for each of 3 inputs, got 1"),
        (None, TypeError, r"forward: expected rows for the records \['word'\], got 0 lists"),
        (
            [torch.zeros(5, E, dtype=torch.float64)] * 3,
            TypeError,
            "given: expected a tensor of float32 on the CPU, got torch.float64 on cpu",
        ),
        ([np.zeros((5, E))] * 3, TypeError, "given: expected a tensor, got ndarray"),
        ([torch.zeros(5, E + 1)] * 3, ed.CallError, "word"),
    ],
)
def test_rows_that_do_not_fit_are_errors(words, error, message):
    layer = Layer(NET, build, given="word")
    with pytest.raises(error, match=message):
        layer(TREES, *([] if words is None else [words]))


def test_layers_that_cannot_be_built_are_errors():
    with pytest.raises(ValueError, match="given: expected names of"):
        Layer(NET, build, given=("words",))
    with pytest.raises(ValueError, match="emits: expected a name of .*, got 'words'"):
        Layer(NET, build, ("word",), emits="words")
    with pytest.raises(ValueError, match=r"sparse: expected parameters .* of \[\], got 'none.h'"):
        Layer(NET, build, ("word",), sparse="none.h")
    net = ed.Network()
    record = net.record("r", x=2)

    @net.cell(record)
    def cell(c):
        return c.parameter("training", 2)

    with pytest.raises(ValueError, match="parameter training: expected a name that torch.nn.Module"):
        Layer(net)
    half = Layer(NET, build, given=("word",)).half()
    with pytest.raises(TypeError, match="parameter none.h: expected a tensor of float32"):
        half(TREES, [torch.zeros(5, E)] * 3)
