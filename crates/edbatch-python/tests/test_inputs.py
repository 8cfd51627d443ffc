"""Lists of inputs, lines of text, and mappings of weights: what they may be, and what is said."""

import json
import os
import shutil
from pathlib import Path

import edbatch as ed
import numpy as np
import pytest
from networks import Trees
from test_one_result import bits

GOLDENS = Path(__file__).parents[2] / "edbatch/tests/goldens-small"


def lines_of(name):
    folder = GOLDENS / name
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return (folder / config["input"]).read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", ["(0 a)", b"(0 a)", ""])
def test_a_text_is_no_list_of_inputs(text):
    model, engine = Trees(), ed.load(GOLDENS / "tree_lstm")
    trainer = ed.Trainer(model.net, model.weights, model.build)
    for call in (
        lambda: engine.run(text),
        lambda: engine.run_each(text),
        lambda: engine.stream(1, text, print),
        lambda: engine.graphs(text),
        lambda: engine.schedule(text),
        lambda: engine.learn([text]),
        lambda: trainer.train(text, [[0]]),
        lambda: trainer.accumulate(text, [[0]]),
        lambda: trainer.forward(text),
    ):
        got = f"got {type(text).__name__}: pass"
        with pytest.raises(TypeError, match=f"inputs: expected a list of inputs, {got}"):
            call()
    with pytest.raises(TypeError, match="inputs: expected a list of inputs, got int"):
        engine.stream(1, 3, print)
    # Other iterables are lists of inputs.
    line = lines_of("tree_lstm")[0]
    assert len(engine.run(iter([line]))) == len(engine.run((line,))) == 1


TAKES_EMPTY_LINES = {
    name: not name.startswith(("tree", "mv")) for name in sorted(os.listdir(GOLDENS))
}


@pytest.mark.parametrize("name", TAKES_EMPTY_LINES)
def test_an_empty_line_is_what_it_is_in_a_file(name, tmp_path):
    engine, line = ed.load(GOLDENS / name), lines_of(name)[0]
    _, empty, end, full = engine.run_each([line, "", "\n", line])
    assert np.array_equal(full, engine.run([line] * 4)[3]) and len(full)
    assert type(empty) is type(end) and str(empty) == str(end)
    if TAKES_EMPTY_LINES[name]:
        assert len(empty) == 0
    else:
        assert isinstance(empty, ed.FileError)


@pytest.mark.parametrize("line", ["(0 \ud800)", "\udcff"])
def test_a_line_that_is_no_unicode_says_so(line):
    for name in ("tree_lstm", next(name for name in TAKES_EMPTY_LINES if "bilstm" in name)):
        engine = ed.load(GOLDENS / name)
        with pytest.raises(ed.FileError, match="expected a line of valid Unicode: .*surrogates"):
            engine.run([line])
        assert isinstance(engine.run_each([line, lines_of(name)[0]])[1], np.ndarray)
    with pytest.raises(UnicodeError, match="surrogates"):
        ed.CallList.from_json(Trees().net, line)


class Module:
    """A module of PyTorch, as far as its mapping goes."""

    def state_dict(self):
        return {}


def test_mappings_of_weights_say_what_was_expected():
    net = Trees().net
    for read in (ed.Weights, lambda state: ed.Weights.from_state_dict(net, state)):
        with pytest.raises(ed.WeightsError, match="got Module: pass `module.state_dict\\(\\)`"):
            read(Module())
        for wrong, got in [([1], "list"), (None, "NoneType"), ("w", "str")]:
            expected = f"expected a mapping from names to arrays, got {got}"
            with pytest.raises(ed.WeightsError, match=expected):
                read(wrong)
        for name, got in [(3, "3, int"), (None, "None, NoneType"), (b"w", "b'w', bytes")]:
            expected = f"expected names of tensors that are strings, got {got}"
            with pytest.raises(ed.WeightsError, match=expected):
                read({"fine": np.ones(1), name: np.ones(1)})
    for wrong in ("abc", {1: 2}, [[1, 2], [3]], object(), None, [None], Trees):
        with pytest.raises(ed.WeightsError, match="tensor wrong: expected "):
            ed.Weights({"fine": np.ones(2), "wrong": wrong})


class Broken(Exception):
    """An exception of the user's own."""


def test_what_an_array_of_ones_own_raises_is_raised():
    class Own:
        def __array__(self, dtype=None, copy=None):
            raise Broken

    with pytest.raises(Broken):
        ed.Weights({"w": Own()})
    with pytest.raises(Broken):
        ed.CallList(Trees().net).give(Trees().net.records["state"], Own())


def test_a_device_counts_the_steps_after_the_end_of_a_sentence(tmp_path):
    folder = shutil.copytree(GOLDENS / "lstm_nmt", tmp_path / "ends_at_once")
    tensors = dict(ed.Weights.load(folder / "weights.safetensors").items())
    tensors["out.bias"][2] = 1e6  # </s>
    ed.Weights(tensors).save(folder / "weights.safetensors")
    lines = lines_of("lstm_nmt")
    cpu = ed.load(folder)
    expected = [bits(out) for out in cpu.run(lines)]
    try:
        device = ed.load(folder, device="cuda-emulated")
    except ed.DeviceError as error:
        pytest.skip(f"no emulated device: {error}")
    assert [bits(out) for out in device.run(lines)] == expected
    assert cpu.statistics.dropped_steps == 0
    assert device.statistics.dropped_steps == 7 * len(lines)  # of chains of 8
