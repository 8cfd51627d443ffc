"""Weights of PyTorch's modules, and their committed outputs. PyTorch is not needed."""

import json
from pathlib import Path

import numpy as np
import pytest

import edbatch as ed
from edbatch import cells

FIXTURES = Path(__file__).parent / "fixtures"


def read(name):
    """The state, the inputs and the outputs of a fixture."""
    data = (FIXTURES / f"{name}.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for key, entry in json.loads(data[8:start]).items():
        first, end = entry["data_offsets"]
        values = np.frombuffer(data[start + first : start + end], np.float32)
        tensors[key] = values.reshape(entry["shape"])
    state = {key.removeprefix("state."): value for key, value in tensors.items() if "state." in key}
    count = sum(key.startswith("input.") for key in tensors)
    return state, *([tensors[f"{of}.{i}"] for i in range(count)] for of in ("input", "output"))


def zeros(**sizes):
    return {name: np.zeros(size, np.float32) for name, size in sizes.items()}


def bidirectional_lstm():
    """Two layers of an LSTM in both directions, and the wiring of a matrix [rows, 3]."""
    net = ed.Network()
    row = net.record("row", x=3)
    both = net.record("both", x=8)
    state = net.record("state", h=4, c=4)
    zero = net.initial(state, h="h0", c="c0")
    steps = []
    for layer, below in enumerate([row, both]):
        for prefix in ("rnn", "rnn_reverse"):

            @net.cell(state, name=f"{prefix}.{layer}")
            def step(c, below=below, prefix=f"{prefix}.{layer}"):
                x = c.one("x", below).x
                h, cell = c.one("previous", state)
                return cells.lstm(c, prefix, x, h, cell)

            steps.append(step)

    @net.cell(both)
    def join(c):
        return c.concat([c.one("forward", state).h, c.one("backward", state).h])

    def build(b, x):
        values = [b.give(row, vector) for vector in x]
        for forward, backward in (steps[:2], steps[2:]):
            ahead, back, last = [], [], zero
            for value in values:
                ahead.append(last := b.call(forward, value, last))
            last = zero
            for value in reversed(values):
                back.append(last := b.call(backward, value, last))
            values = [b.call(join, a, z) for a, z in zip(ahead, reversed(back), strict=True)]
        for value in values:
            b.emit(value)

    return net, build


def gru():
    net = ed.Network()
    row = net.record("row", x=3)
    state = net.record("state", h=4)
    zero = net.initial(state, h="h0")

    @net.cell(state)
    def step(c):
        return cells.gru(c, "rnn.0", c.one("x", row).x, c.one("previous", state).h)

    def build(b, x):
        last = zero
        for vector in x:
            last = b.call(step, b.give(row, vector), last)
            b.emit(last)

    return net, build


def attention():
    net = ed.Network()
    row = net.record("row", x=6)
    memory = net.record("memory", k=6, v=6)

    def linear(c, name, x):
        return c.parameter(f"{name}.weight", (6, 6)) @ x + c.parameter(f"{name}.bias", 6)

    @net.cell(memory)
    def project(c):
        x = c.one("x", row).x
        return linear(c, "key", x), linear(c, "value", x)

    @net.cell(row)
    def attend(c):
        query = linear(c, "query", c.one("x", row).x)
        rows = c.many("memory", memory)
        return linear(c, "out", rows.attention(query, "k", "v", heads=2))

    def build(b, x):
        values = [b.give(row, vector) for vector in x]
        memories = [b.call(project, value) for value in values]
        for value in values:
            b.emit(b.call(attend, value, memories))

    return net, build


def check(name, model, zero=None, **options):
    net, build = model
    state, inputs, expected = read(name)
    weights = ed.Weights.from_state_dict(net, state | (zero or {}), **options)
    outputs = ed.Engine(net, weights, build).run(inputs)
    for output, array in zip(outputs, expected, strict=True):
        assert output.shape == array.shape
        np.testing.assert_allclose(output, array, rtol=1e-5, atol=1e-5)
    return weights, state


@pytest.mark.smoke
def test_lstm_of_two_layers_in_both_directions_equals_pytorch():
    options = {"recurrent": {"rnn": "rnn"}}
    weights, state = check("lstm", bidirectional_lstm(), zeros(h0=4, c0=4), **options)
    back = weights.to_state_dict(recurrent={"rnn": "rnn"})
    assert set(back) == set(state) | {"h0", "c0"}
    for name, array in state.items():
        assert back[name].shape == array.shape
        if "bias" not in name:
            np.testing.assert_array_equal(back[name], array)
    # Only the sums of biases count.
    again = ed.Weights.from_state_dict(bidirectional_lstm()[0], back, **options)
    assert all(np.array_equal(again[name], weights[name]) for name in weights)


def test_gru_equals_pytorch():
    weights, state = check("gru", gru(), zeros(h0=4), recurrent={"rnn": "rnn"})
    back = weights.to_state_dict(recurrent={"rnn": "rnn"})
    new = slice(8, 12)
    np.testing.assert_array_equal(back["rnn.bias_hh_l0"][new], state["rnn.bias_hh_l0"][new])
    np.testing.assert_array_equal(back["rnn.weight_ih_l0"], state["rnn.weight_ih_l0"])


@pytest.mark.smoke
def test_attention_of_four_linear_modules_equals_pytorch():
    weights, state = check("attention", attention(), rename={"layers.0.": ""})
    back = weights.to_state_dict()
    assert all(np.array_equal(back[name.removeprefix("layers.0.")], state[name]) for name in state)


class Tensor:
    """The methods of a tensor of PyTorch that are called, in their order: one of bfloat16."""

    def __init__(self, array, calls=()):
        self.array, self.calls = array, calls

    def __getattr__(self, name):
        if name not in ("detach", "cpu", "float"):
            raise AttributeError(name)
        return lambda: Tensor(self.array, (*self.calls, name))

    def numpy(self):
        if self.calls == ("detach", "cpu"):
            raise TypeError("Got unsupported ScalarType BFloat16")
        assert self.calls == ("detach", "cpu", "float")
        return self.array.astype(np.float32)


def small():
    net = ed.Network()
    scores = net.record("scores", y=2)

    @net.cell(scores)
    def score(c):
        return c.parameter("fc.weight", (2, 3)) @ c.lookup("word", "embed", (4, 3))

    return net


@pytest.mark.parametrize(
    "convert",
    [
        Tensor,
        lambda array: array.astype(np.float16),
        lambda array: array.astype(np.float64),
        lambda array: np.asfortranarray(array),
        lambda array: array.tolist(),
    ],
    ids=["tensor", "float16", "float64", "strided", "list"],
)
def test_types_become_float32(convert):
    arrays = {"embed": np.arange(12).reshape(4, 3) / 8, "fc.weight": np.ones((2, 3))}
    weights = ed.Weights.from_state_dict(small(), {name: convert(a) for name, a in arrays.items()})
    for name, array in arrays.items():
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name], array)


E, W = np.zeros((4, 3)), np.zeros((2, 3))


@pytest.mark.parametrize(
    ("state", "options", "message"),
    [
        ({"embed": E}, {}, "tensor fc.weight is missing; the model needs it with shape [2, 3]"),
        (
            {"embed": E, "fc.weight": W, "fc.bias": np.zeros(2)},
            {},
            "unexpected tensor fc.bias of shape [2]: the model does not declare it",
        ),
        (
            {"embed": E, "fc.weight": W.T},
            {},
            "tensor fc.weight: the model expects shape [2, 3], got [3, 2]",
        ),
        (
            {"embed": E, "fc.weight": "weights"},
            {},
            "tensor fc.weight: expected an array or a tensor of numbers, got <class 'str'>",
        ),
        (
            {"embed": E, "fc.weight": W},
            {"rename": {"lm.": ""}},
            'rename={"lm.": …}: no tensor has a name that begins so',
        ),
        (
            {"a.w": E, "b.w": W},
            {"rename": {"a.": "", "b.": ""}},
            "rename: two tensors become w, one of them b.w",
        ),
        (
            {"rnn.weight_hh_l0": E},
            {"recurrent": {"lstm": "lstm"}},
            'recurrent={"lstm": …}: there is no tensor lstm.weight_hh_l0; those of recurrent '
            'modules: ["rnn.weight_hh_l0"]',
        ),
        (
            {"rnn.weight_hh_l0": E},
            {"recurrent": {"rnn": "rnn"}},
            "tensor rnn.weight_hh_l0 of shape [4, 3]: expected (4 H, H), an LSTM, or (3 H, H), a GRU",
        ),
    ],
)
def test_errors_name_the_tensor(state, options, message):
    with pytest.raises(ed.WeightsError) as raised:
        ed.Weights.from_state_dict(small(), state, **options)
    assert str(raised.value).startswith(message)


def lstm_net(name="rnn", count=1):
    """A network with this number of LSTMs of three inputs and two elements."""
    net = ed.Network()
    row, state = net.record("row", x=3), net.record("state", h=2, c=2)
    for layer in range(count):

        @net.cell(state, name=f"step {layer}")
        def step(c, layer=layer):
            return cells.lstm(c, f"{name}.{layer}", c.one("x", row).x, *c.one("p", state))

    return net


def lstm_state(module="enc", layer=0, suffix=""):
    shapes = {"weight_ih": (8, 3), "weight_hh": (8, 2), "bias_ih": 8, "bias_hh": 8}
    return {f"{module}.{part}_l{layer}{suffix}": np.ones(of) for part, of in shapes.items()}


NO_BIAS = {name: array for name, array in lstm_state().items() if "bias" not in name}


def test_a_module_without_biases_has_zeros():
    weights = ed.Weights.from_state_dict(lstm_net(), NO_BIAS, recurrent={"enc": "rnn"})
    assert all((weights[f"rnn.0.b_{gate}"] == 0).all() for gate in "ifgo")
    assert (weights["rnn.0.w_g"] == 1).all()
    # One layer without them; a cell of its own that declares none.
    both = {**lstm_state(layer=1), **NO_BIAS}
    weights = ed.Weights.from_state_dict(lstm_net(count=2), both, recurrent={"enc": "rnn"})
    assert (weights["rnn.0.b_i"] == 0).all() and (weights["rnn.1.b_i"] == 2).all()
    net = ed.Network()
    state = net.record("state", h=2)

    @net.cell(state)
    def step(c):
        h = c.one("p", state).h
        return sum((c.parameter(f"rnn.0.u_{gate}", (2, 2)) @ h for gate in "fgo"),
                   c.parameter("rnn.0.u_i", (2, 2)) @ h)

    hidden = {"enc.weight_hh_l0": NO_BIAS["enc.weight_hh_l0"]}
    weights = ed.Weights.from_state_dict(net, hidden, recurrent={"enc": "rnn"})
    assert sorted(weights) == [f"rnn.0.u_{gate}" for gate in "fgio"]


@pytest.mark.parametrize(
    ("state", "options", "message"),
    [
        (
            {"rnn.0.w_i": np.ones((2, 3))},
            {},
            "tensor rnn.0.w_i would exist twice: from enc.weight_ih_l0 and from rnn.0.w_i",
        ),
        (
            lstm_state("dec"),
            {"dec": "rnn"},
            "recurrent module rnn would exist twice: from dec and from enc",
        ),
        (
            lstm_state("dec") | lstm_state("enc", suffix="_reverse"),
            {"dec": "rnn_reverse"},
            "recurrent module rnn_reverse would exist twice: from dec and from enc (…_reverse)",
        ),
        ({"enc.weight_ih_l00": np.ones((8, 3))}, {}, "unexpected tensor enc.weight_ih_l00"),
        ({"enc.weight_ih_l+0": np.ones((8, 3))}, {}, "unexpected tensor enc.weight_ih_l+0"),
        (
            {"enc.bias_hh_l0": np.arange(12)},
            {},
            "tensor enc.bias_hh_l0: the model expects shape [8], got [12]",
        ),
        (
            {"enc.weight_hr_l0": np.ones((2, 2))},
            {},
            "tensor enc.weight_hr_l0 is a projection (proj_size)",
        ),
        (
            {"enc.weight_hh_l0": np.ones((8, 1))},
            {},
            "tensor enc.weight_hh_l0 of shape [8, 1]: expected (4 H, H), an LSTM, or (3 H, H), a "
            "GRU, without projections (proj_size)",
        ),
        ({"enc.weight_hh_l1": np.zeros((2**40, 0))}, {}, "tensor enc.weight_hh_l1: the model"),
        ({"__metadata__": np.ones(2)}, {}, "tensor __metadata__: expected a name other than"),
    ],
)
def test_gates_that_meet_other_names_or_shapes_are_errors(state, options, message):
    with pytest.raises(ed.WeightsError) as raised:
        state = lstm_state() | state
        ed.Weights.from_state_dict(lstm_net(), state, recurrent={"enc": "rnn"} | options)
    assert str(raised.value).startswith(message)


def test_the_way_back_refuses_names_that_would_exist_twice():
    weights = ed.Weights.random(lstm_net())
    with pytest.raises(ed.WeightsError, match="recurrent module rnn would exist twice"):
        weights.to_state_dict(recurrent={"enc": "rnn", "dec": "rnn"})
    both = ed.Weights({**dict(weights.items()), "enc.weight_hh_l0": np.ones(3)})
    with pytest.raises(ed.WeightsError, match=r"tensor enc\.weight_hh_l0 would exist twice"):
        both.to_state_dict(recurrent={"enc": "rnn"})
    with pytest.raises(ed.WeightsError, match=r"shape \[16\]: expected \(4 H, H\)"):
        ed.Weights({"rnn.0.u_i": np.ones(4)}).to_state_dict(recurrent={"enc": "rnn"})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS: run `git lfs pull`"),
        (b"PK\x03\x04" + bytes(40), "torch.save writes"),
        (b"\x80\x02}q\x00.........", "torch.save writes"),
    ],
)
def test_files_of_other_formats_are_named(tmp_path, data, message):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    with pytest.raises(ed.WeightsError) as raised:
        ed.Weights.load(path)
    assert str(path) in str(raised.value) and message in str(raised.value)
    ed.Weights({"w": np.ones(2)}).save(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ed.WeightsError, match="cut off: expected 72 bytes.*got 69"):
        ed.Weights.load(path)


def test_a_recurrent_module_without_gates_is_an_error():
    weights = ed.Weights.random(small())
    with pytest.raises(ed.WeightsError, match=r"there is no tensor rnn\.0\.u_i"):
        weights.to_state_dict(recurrent={"lstm": "rnn"})
