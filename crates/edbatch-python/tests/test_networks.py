"""Networks by fingerprint: pickles of frozen networks become the network of the process."""

import gc
import hashlib
import multiprocessing
import pickle
import subprocess
import sys
import weakref

import edbatch as ed
import numpy as np
import pytest
from networks import Trees, trees


def declare(width=3):
    net = ed.Network()
    state = net.record("state", h=width)

    @net.cell(state)
    def step(c):
        return (c.parameter("w", (width, width)) @ c.one("previous", state).h).tanh()

    return net


def calls_of(net, steps=3):
    calls = ed.CallList(net)
    value = calls.give(net.records["state"], np.ones(3))
    for _ in range(steps):
        value = calls.call(net.cells["step"], value)
    calls.emit(value)
    return calls


@pytest.mark.smoke
def test_fingerprints_are_equal_for_equal_networks():
    net = declare()
    digest = hashlib.sha256(net.to_json().encode()).hexdigest()
    assert net.fingerprint == digest == ed.Network.from_json(net.to_json()).fingerprint
    assert declare().fingerprint == digest != declare(4).fingerprint
    ed.CallList(net)
    assert net.fingerprint == digest


@pytest.mark.parametrize("freeze", [ed.CallList, lambda n: ed.Engine(n, ed.Weights.random(n))])
def test_a_frozen_network_pickles_to_itself(freeze):
    net = declare(5)
    assert pickle.loads(pickle.dumps(net)) is not net
    freeze(net)
    assert pickle.loads(pickle.dumps(net)) is net
    cell, record = pickle.loads(pickle.dumps((net.cells["step"], net.records["state"])))
    assert cell.name == "step" and record.name == "state"


def test_a_network_that_is_open_is_copied():
    net = declare(6)
    copied = pickle.loads(pickle.dumps(net))
    net.record("more", x=1)
    assert list(copied.records) == ["state"] and copied != net
    copied.record("other", x=1)


def test_the_first_that_froze_is_the_one():
    first, second = declare(), declare()
    of_first = calls_of(first)
    of_second = calls_of(second)
    assert pickle.loads(pickle.dumps(second)) is first is pickle.loads(pickle.dumps(of_second)).network
    assert of_second.network is second == first
    engine = ed.Engine(first, ed.Weights.random(first))
    np.testing.assert_array_equal(*engine.run([of_first, of_second]))
    engine.run([pickle.loads(pickle.dumps(of_second))])
    mixed = ed.CallList(first)
    mixed.call(second.cells["step"], mixed.give(second.records["state"], np.ones(3)))
    dumped, seen = pickle.dumps(second), weakref.ref(first)
    del first, of_first, engine, mixed
    gc.collect()
    assert seen() is None and pickle.loads(dumped) is second


def test_a_network_that_is_read_first_is_frozen():
    program = """
import pickle, sys
net = pickle.loads(sys.stdin.buffer.read())
assert pickle.loads(pickle.dumps(net)) is net
try:
    net.record("more", x=1)
except RuntimeError as error:
    print(error)
"""
    net = declare(7)
    ed.CallList(net)
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(net), capture_output=True, check=True
    )
    assert b"the network is frozen" in done.stdout


def test_a_batch_of_lists_hashes_the_network_once(monkeypatch):
    model = Trees()
    lists = []
    for tree in trees(20):
        calls = ed.CallList(model.net)
        model.build(calls, tree)
        lists.append(calls)
    dumped = pickle.dumps(lists)
    assert dumped.count(b"edbatch_network") == 1
    hashed, sha256 = [], hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda text: hashed.append(text) or sha256(text))
    read = pickle.loads(dumped)
    assert len(hashed) == 1 and all(calls.network is model.net for calls in read)
    assert read == lists


def test_a_pickle_whose_fingerprint_is_wrong_is_an_error():
    net = declare(8)
    ed.CallList(net)
    forged = pickle.dumps(net).replace(net.fingerprint.encode(), b"0" * 64)
    with pytest.raises(ed.FileError, match="expected a text with the fingerprint 0000"):
        pickle.loads(forged)


def test_pickles_of_older_versions_load():
    class Old:
        def __init__(self, net):
            self.net = net

        def __reduce__(self):
            return ed.Network.from_json, (self.net.to_json(),)

    net = declare()
    assert pickle.loads(pickle.dumps(Old(net))) == net


def test_a_network_that_cannot_be_written_runs():
    net = ed.Network()
    state = net.record("state", h=2)

    @net.cell(state)
    def step(c):
        return c.constant(float("nan"), 2).maximum(c.parameter("w", 2))

    calls = ed.CallList(net)
    calls.emit(calls.call(step))
    ed.Engine(net, ed.Weights.random(net)).graphs([calls])
    for use in (net.to_json, lambda: net.fingerprint, lambda: pickle.dumps(net)):
        with pytest.raises(ed.FileError):
            use()


def test_a_loaded_folder_knows_lists_of_its_network(tmp_path):
    net = declare(3)
    ed.save(tmp_path / "model", net, ed.Weights.random(net))
    engine = ed.load(tmp_path / "model")
    assert pickle.loads(pickle.dumps(engine.network)) == engine.network
    rows = engine.run([calls_of(engine.network), calls_of(net)])
    np.testing.assert_array_equal(*rows)


def made(index):
    return calls_of(declare(3), index)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lists_of_workers_belong_to_this_network(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method}")
    net = declare(3)
    local = [calls_of(net, index) for index in range(4)]
    with multiprocessing.get_context(method).Pool(1) as pool:
        lists = pool.map(made, range(4))
    first = lists[0].network
    assert first == net and all(calls.network is first for calls in lists) and lists == local
    engine = ed.Engine(net, ed.Weights.random(net))
    for one, other in zip(engine.run(lists), engine.run(local), strict=True):
        np.testing.assert_array_equal(one, other)
