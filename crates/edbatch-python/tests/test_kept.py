"""What is kept: pickles, weights, folders; and what notebooks show."""

import json
import os
import pickle
from pathlib import Path

import edbatch as ed
import numpy as np
import pytest
from networks import Trees, trees
from test_one_result import bits


def test_notebooks_show_escaped_text_of_bounded_size():
    net = ed.Network()
    state = net.record("state", h=4)
    cell = net.cell(state, name="<script>alert(1)</script>")(
        lambda c: c.lookup("<b>", "&\"w", (9, 4)) + sum(c.many("all", state).sum())
    )
    net.initial(state, h="none")
    engine = ed.Engine(net, ed.Weights.random(net), counts=True)
    lists = []
    for _ in range(60):
        calls = ed.CallList(net)
        value = -1
        for _ in range(100):
            value = calls.call(cell, 3, [value, -1])
        calls.emit(value)
        lists.append(calls)
    engine.run(lists)
    shown = [thing._repr_html_() for thing in (net, cell, engine, engine.report(), lists[0])]
    shown += [engine.graphs(lists)[0]._repr_html_(), engine.statistics._repr_html_()]
    shown += [engine.schedule(lists)._repr_svg_(), engine.schedule(lists[:3])._repr_svg_()]
    for text in shown:
        assert "<script" not in text and "<b>" not in text and len(text.encode()) <= 200_000
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "&lt;script&gt;" in shown[0] and "6000 calls in 100 batches" in shown[-2]


def test_networks_weights_and_call_lists_pickle():
    model, inputs = Trees(), trees(3)
    lists = []
    for tree in inputs:
        calls = ed.CallList(model.net)
        calls.give(model.state, np.full(8, np.nan))
        model.build(calls, tree)
        lists.append(calls)
    parts = (model.net, model.weights, lists, model.node, model.state)
    net, weights, copies, node, state = pickle.loads(pickle.dumps(parts))
    assert net == model.net and hash(net) == hash(model.net)
    assert weights == model.weights and set(weights) == set(model.weights)
    assert (node.name, state.fields) == ("node", {"h": (8,)})
    expected = [bits(out) for out in ed.Engine(model.net, model.weights).run(lists)]
    assert [bits(out) for out in ed.Engine(net, weights).run(copies)] == expected
    # A copy that is equal counts as the same network.
    assert [bits(out) for out in ed.Engine(model.net, weights).run(copies)] == expected
    copies[0].call(model.node, 3, [model.none])


@pytest.mark.smoke
def test_weights_are_a_mapping_of_copies(tmp_path):
    model = Trees()
    weights, file = model.weights, tmp_path / "w.safetensors"
    assert len(weights) == 7 and set(weights) == set(weights.keys()) == set(model.net.parameters)
    assert weights["w"].shape == weights.shapes["w"] == (8, 6) and weights["w"].dtype == np.float32
    assert "w" in weights and "x" not in weights and 3 not in weights
    assert weights.get("x") is None and weights.get("x", 1) == 1
    weights["w"][:] = 0
    assert weights["w"].any()
    weights.save(file)
    assert ed.Weights.load(file) == weights == ed.Weights(dict(weights.items()))
    assert ed.Weights.random(model.net, seed=2) != weights
    halved = ed.Weights({name: array.astype(float) / 2 for name, array in weights.items()})
    np.testing.assert_array_equal(halved["u"], weights["u"] / 2)


@pytest.mark.smoke
def test_folders_of_networks_and_of_models_load(tmp_path):
    model, inputs = Trees(), trees(5)
    ed.save(tmp_path / "network", model.net, model.weights)
    engine = ed.load(tmp_path / "network", counts=True)
    assert engine.network == model.net
    lists = []
    for tree in inputs:
        calls = ed.CallList(model.net)
        model.build(calls, tree)
        lists.append(calls)
    expected = [bits(out) for out in model.engine().run(inputs)]
    assert [bits(out) for out in engine.run(lists)] == expected
    assert [bits(out) for out in engine.run([calls.to_json() for calls in lists])] == expected
    model.net.save(tmp_path / "network.json")
    assert ed.Network.load(tmp_path / "network.json") == model.net


GOLDENS = Path(__file__).parents[2] / "edbatch/tests/goldens-small"


@pytest.mark.parametrize("name", sorted(os.listdir(GOLDENS)))
def test_a_model_of_the_zoo_runs_on_lines_of_text(name):
    folder = GOLDENS / name
    lines = (folder / json.loads((folder / "config.json").read_text())["input"]).read_text("utf-8")
    outputs = ed.load(folder).run(lines.splitlines())
    expected = map(json.loads, (folder / "expected.jsonl").read_text("utf-8").splitlines())
    for output, line in zip(outputs, expected, strict=True):
        assert output.shape[0] == len(line["logits"])
        if len(output):
            np.testing.assert_allclose(output, line["logits"], rtol=1e-4, atol=1e-5)


def test_a_line_that_is_not_an_input_fails_alone():
    engine = ed.load(GOLDENS / "tree_lstm")
    good = (GOLDENS / "tree_lstm/trees.txt").read_text("utf-8").splitlines()[0]
    results = engine.run_each([good, "no tree", 3])
    assert bits(results[0]) == bits(engine.run([good])[0])
    assert isinstance(results[1], ed.FileError) and isinstance(results[2], TypeError)
    assert "expected a line of text" in str(results[2])
