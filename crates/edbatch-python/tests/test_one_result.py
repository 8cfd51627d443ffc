"""However an input is wired, it gives the same bits."""

import json
import os
import pickle
import shutil
import subprocess
import sys

import edbatch as ed
import numpy as np
import pytest
from networks import RandomNetwork, Trees, as_arrays, replay, replay_with_awaits, trees

# The command that the wheel brings.
COMMAND = shutil.which("edbatch", path=os.path.dirname(sys.executable)) or shutil.which("edbatch")


def bits(output):
    rows = output if isinstance(output, list) else list(output)
    return [row.tobytes() for row in rows]


def kept(net, steps):
    calls = ed.CallList(net)
    replay(calls, steps)
    return calls


def check(seed, folder, command):
    random = RandomNetwork(seed)
    net, weights = random.net, random.weights
    inputs = [random.input() for _ in range(5)]
    expected = [bits(out) for out in ed.Engine(net, weights, replay).run(inputs)]
    lists = [kept(net, steps) for steps in inputs]
    arrays = [ed.CallList.from_arrays(net, *as_arrays(net, steps)) for steps in inputs]
    coroutine = ed.Engine(net, weights, replay_with_awaits)
    engine = ed.Engine(net, weights)
    assert [bits(out) for out in coroutine.run(inputs)] == expected
    assert [bits(out) for out in engine.run(lists)] == expected
    assert [bits(out) for out in engine.run(lists)] == expected, "a second run"
    assert [bits(out) for out in engine.run(arrays)] == expected
    assert [bits(out) for out in coroutine.run(lists + inputs)] == expected + expected
    assert [bits(out) for out in engine.run(pickle.loads(pickle.dumps(lists)))] == expected
    read = [ed.CallList.from_json(net, calls.to_json()) for calls in lists]
    assert [bits(out) for out in engine.run(read)] == expected
    assert all(ed.CallList.from_arrays(net, *calls.to_arrays()) == calls for calls in read)
    assert ed.Network.from_json(net.to_json()) == net
    if command:
        saved = save(folder, net, weights, lists)
        interpreted = infer(saved, "interpret")
        ours = [json.loads(line)["outputs"] for line in infer(saved, "cpu").splitlines()]
        rows = [[np.array(row, np.float32).tobytes() for row in out] for out in ours]
        assert rows == expected, "the command"
        for line, out in zip(interpreted.splitlines(), ours, strict=True):
            for a, b in zip(json.loads(line)["outputs"], out, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def save(folder, net, weights, lists):
    ed.save(folder, net, weights)
    with open(folder / "calls.jsonl", "w", encoding="utf-8") as file:
        file.writelines(calls.to_json() + "\n" for calls in lists)
    return folder


def infer(folder, backend, precision="f32"):
    command = [COMMAND, "infer", str(folder), "--backend", backend, "--precision", precision]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("block", range(10))
def test_plain_coroutine_kept_and_arrays_give_the_same_bits(block, tmp_path):
    for seed in range(50 * block, 50 * block + 50):
        check(seed, tmp_path / str(seed), command=False)


@pytest.mark.skipif(COMMAND is None, reason="the command edbatch is not installed")
@pytest.mark.parametrize("block", range(10))
def test_the_command_gives_the_same_bytes_and_the_interpreter_nearly(block, tmp_path):
    for seed in range(50 * block, 50 * block + 50):
        check(seed, tmp_path / str(seed), command=True)


@pytest.mark.parametrize("options", [{"threads": 3}, {"policy": "depth"}, {"fold_tables": 1 << 20}])
def test_options_do_not_change_bits(options):
    for seed in range(20):
        random = RandomNetwork(seed)
        inputs = [random.input() for _ in range(30)]
        expected = ed.Engine(random.net, random.weights, replay).run(inputs)
        for build in (replay, replay_with_awaits):
            engine = ed.Engine(random.net, random.weights, build, **options)
            for a, b in zip(engine.run(inputs), expected, strict=True):
                assert bits(a) == bits(b)


@pytest.mark.smoke
def test_bf16_is_near_f32_and_has_the_bits_of_the_command(tmp_path):
    model, inputs = Trees(width=64), trees(30)
    plain, engine = model.engine(precision="f32"), model.engine(precision="bf16")
    exact, rounded = model.engine().run(inputs), engine.run(inputs)
    expected = [bits(out) for out in rounded]
    for a, b in zip(exact, rounded, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-2)
        assert bits(a) != bits(b)
    assert [bits(out) for out in plain.run(inputs)] == [bits(out) for out in exact]
    assert [bits(out) for out in engine.fork().run(inputs)] == expected
    assert engine.statistics.weight_bytes < plain.statistics.weight_bytes
    lists = []
    for tree in inputs:
        lists.append(ed.CallList(model.net))
        model.build(lists[-1], tree)
    folder = save(tmp_path / "trees", model.net, model.weights, lists)
    loaded = ed.load(folder, precision="bf16")
    assert [bits(out) for out in loaded.run(lists)] == expected
    if COMMAND:
        lines = [json.loads(line)["outputs"] for line in infer(folder, "cpu", "bf16").splitlines()]
        assert [[np.array(r, np.float32).tobytes() for r in out] for out in lines] == expected
