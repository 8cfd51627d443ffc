"""Runs: failures, streams, forks, threads, learning, folders, and what notebooks show."""

import gc
import os
import signal
import threading
import time
import traceback
import weakref

import edbatch as ed
import numpy as np
import pytest
from networks import Trees, trees
from test_one_result import bits


class Broken(Exception):
    """An exception of the user's own."""


def failing(model, at, build):
    """Returns a function of wiring that fails for the inputs in `at`."""
    return lambda b, pair: fail(pair[0]) if pair[0] in at else build(b, pair[1])


def fail(number):
    raise Broken(number)


@pytest.mark.smoke
def test_a_failing_input_leaves_the_others_their_bits():
    model, inputs = Trees(), list(enumerate(trees(64)))
    expected = [bits(out) for out in model.engine(lambda b, x: model.build(b, x[1])).run(inputs)]
    engine = model.engine(failing(model, {5}, model.build))
    results = engine.run_each(inputs)
    assert isinstance(results[5], Broken) and results[5].args == (5,)
    frames = traceback.extract_tb(results[5].__traceback__)
    assert [frame.name for frame in frames][-2:] == ["<lambda>", "fail"]
    others = [bits(out) for number, out in enumerate(results) if number != 5]
    assert others == expected[:5] + expected[6:]


def test_run_raises_the_first_exception_as_it_was_with_a_note():
    model, inputs = Trees(), list(enumerate(trees(64)))
    with pytest.raises(Broken) as caught:
        model.engine(failing(model, {3, 7}, model.build)).run(inputs)
    assert caught.value.args == (3,) and caught.value.__notes__ == ["input 3 of 64"]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"


@pytest.mark.smoke
def test_a_coroutine_fails_alone_in_any_round():
    model = Trees()

    async def build(b, pair):
        number, tree = pair
        h = model.wire(b, tree)
        for step in range(4):
            if (number, step) in {(5, 0), (6, 2), (9, 3)}:
                fail(number)
            _, h = await b.fetch(b.call(model.score, h), h)
            h = b.call(model.layer, h)
        b.emit(h)

    inputs = list(enumerate(trees(16)))
    for threads in (1, 3):
        engine = model.engine(build, threads=threads)
        kept = [pair for pair in inputs if pair[0] not in {5, 6, 9}]
        expected = {pair[0]: bits(out) for pair, out in zip(kept, engine.run(kept))}
        results = engine.run_each(inputs)
        for number, result in enumerate(results):
            if number in expected:
                assert bits(result) == expected[number]
            else:
                assert isinstance(result, Broken) and result.args == (number,)
        with pytest.raises(Broken) as caught:
            engine.run(inputs)
        assert caught.value.args == (5,) and caught.value.__notes__ == ["input 5 of 16"]


@pytest.mark.smoke
def test_outputs_are_arrays_of_rows_or_lists_of_vectors():
    model = Trees()

    def build(b, count):
        h = model.wire(b, (1, []))
        for index in range(abs(count)):
            b.emit(h)
        if count < 0:
            b.emit(b.call(model.score, h))

    empty, two, mixed = model.engine(build).run([0, 2, -2])
    assert len(empty) == 0 and isinstance(empty, np.ndarray)
    assert two.shape == (2, 8) and two.dtype == np.float32 and two.flags.owndata is False
    assert [row.shape for row in mixed] == [(8,), (8,), (5,)]
    two[0] = 0  # Results belong to the caller.


def test_a_stream_gives_the_results_of_a_run():
    model, inputs = Trees(), trees(20)
    for build in (model.build, model.early_exit):
        engine = model.engine(build)
        expected = [bits(out) for out in engine.run(inputs)]
        results = {}
        engine.stream(3, iter(inputs), lambda number, out: results.update({number: bits(out)}))
        assert [results[number] for number in range(20)] == expected


def test_a_stream_ends_when_a_callback_or_the_inputs_raise():
    model, seen = Trees(), []

    def inputs(stop):
        for number, tree in enumerate(trees(50)):
            if number == stop:
                fail(number)
            yield tree

    def done(number, out):
        seen.append(number)
        if number == 4:
            fail(number)

    with pytest.raises(Broken) as caught:
        model.engine(model.early_exit).stream(2, inputs(None), done)
    assert caught.value.args == (4,) and seen[-1] == 4 and len(seen) < 7
    with pytest.raises(Broken):
        model.engine().stream(2, inputs(7), lambda number, out: None)
    results = []
    broken = failing(model, {1}, model.build)
    model.engine(broken).stream(2, enumerate(trees(3)), lambda n, out: results.append(out))
    assert sorted(type(out).__name__ for out in results) == ["Broken", "ndarray", "ndarray"]


def test_the_engine_is_busy_in_its_own_build_and_in_another_thread():
    model, told = Trees(), []

    def build(b, tree):
        try:
            engine.run([tree])
        except RuntimeError as error:
            told.append(str(error))
        model.build(b, tree)
        begun.set()
        time.sleep(0.2)

    begun, engine = threading.Event(), None
    engine = model.engine(build)
    thread = threading.Thread(target=engine.run, args=(trees(1),))
    thread.start()
    begun.wait()
    with pytest.raises(RuntimeError, match="the engine is running.*use `fork\\(\\)`"):
        engine.run(trees(1))
    thread.join()
    assert "use `fork()`" in told[0]


def test_forks_run_in_threads_of_their_own():
    model, inputs = Trees(), trees(30)
    engine = model.engine(model.early_exit, counts=True)
    expected = [bits(out) for out in engine.run(inputs)]
    results = [None] * 4

    def work(index, fork):
        results[index] = [bits(out) for out in fork.run(inputs)]

    threads = [threading.Thread(target=work, args=(i, engine.fork())) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    assert engine.statistics.instances == 30 and engine.fork().statistics.instances == 0


def test_the_interpreter_is_free_while_batches_run():
    """Another Python thread counts while the engine runs: it holds no lock."""
    model = Trees(width=512)
    lists = []
    for tree in trees(64, depth=6):
        calls = ed.CallList(model.net)
        model.build(calls, tree)
        lists.append(calls)
    engine, counted, stop = ed.Engine(model.net, model.weights), [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    while engine.statistics.execute < 0.3:
        engine.run(lists)
    stop.set()
    thread.join()
    assert counted[0] > 100


def test_after_a_fork_of_the_process_threads_are_an_error_not_a_hang():
    model = Trees()
    engine, single = model.engine(threads=2), model.engine()
    expected = bits(single.run(trees(1))[0])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.run(trees(1))
        except RuntimeError as error:
            same = bits(single.run(trees(1))[0]) == expected
            os.write(write, f"{same} {error}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text.startswith("True the process was forked after the engine was built")
    assert "spawn" in text


@pytest.fixture
def ctrl_c():
    """Python's handler of Ctrl-C: a program that a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_loop_of_awaits(ctrl_c, threads):
    model, rounds = Trees(), [0]

    async def forever(b, tree):
        h = model.wire(b, tree)
        while True:
            rounds[0] += 1
            _, h = await b.fetch(b.call(model.score, h), h)
            h = b.call(model.layer, h)

    engine = model.engine(forever, threads=threads)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(trees(16))
    timer.join()
    assert rounds[0] > 16
    assert len(model.engine().run(trees(3))) == 3
    with pytest.raises(SystemExit):
        model.engine(lambda b, tree: exit()).run_each(trees(2))


def test_a_deep_recursion_is_pythons_own_error():
    model = Trees()
    tree = (1, [])
    for _ in range(100_000):
        tree = (1, [tree])
    with pytest.raises(RecursionError):
        model.engine().run([tree])
    # Freed from above, not by recursion.
    while tree[1]:
        tree = tree[1].pop()


def test_inputs_are_divided_by_their_work():
    model, asked = Trees(), []

    def work(tree):
        asked.append(tree)
        return 10.0

    inputs = trees(12)
    engine = model.engine(work=work, threads=2)
    assert len(engine.run(inputs)) == 12 and asked == inputs
    with pytest.raises(TypeError):
        model.engine(work=lambda tree: "much").run(inputs)


def test_a_learned_policy_is_used_and_written(tmp_path):
    model, mini_batches = Trees(), [trees(4, seed) for seed in range(8)]
    engine, file = model.engine(), tmp_path / "policy.json"
    outcome = engine.learn(mini_batches, encoding="base", episodes=60, path=file)
    assert outcome.bound <= min(outcome.before, outcome.after) and outcome.episodes >= 1
    again = model.engine(policy=file)
    for a, b in zip(engine.run(trees(9)), again.run(trees(9)), strict=True):
        assert bits(a) == bits(b)
    with pytest.raises(Broken) as caught:
        model.engine(failing(model, {1}, model.build)).learn([list(enumerate(trees(3)))])
    assert caught.value.__notes__ == ["input 1 of 3"]


def test_counts_are_those_of_the_calls():
    model, inputs = Trees(), trees(7)
    engine = model.engine(counts=True)
    (graph,) = engine.graphs(inputs)
    assert engine.statistics.nodes == 0
    engine.run(inputs)
    statistics, report = engine.statistics, engine.report()
    assert statistics.nodes == len(graph) == sum(kind["nodes"] for kind in report.kinds)
    assert statistics.batches == len(engine.schedule(inputs))
    assert statistics.bound <= statistics.batches and statistics.execute > 0
    assert model.engine().report() is None and model.engine().statistics.bound is None
    assert str(report).startswith("kind") and str(graph).startswith("n0 = node(#")
    rounds = model.engine(model.early_exit).graphs(inputs)
    assert len(rounds) > 1
    assert len(model.engine(model.early_exit).schedule(inputs, round=1)) >= 1


def test_a_list_that_is_run_can_change_afterwards():
    model = Trees()
    calls = ed.CallList(model.net)
    calls.emit(calls.call(model.node, 3, [model.none]))
    engine = ed.Engine(model.net, model.weights)
    assert engine.run([calls, calls])[1].shape == (1, 8)
    calls.emit(0)
    assert engine.run([calls])[0].shape == (2, 8)
    calls.clear()
    assert engine.run([calls])[0].shape == (0, 0)


def test_engines_with_a_method_as_build_are_collected():
    class Model(Trees):
        def __init__(self):
            super().__init__()
            self.run = self.engine(self.build)

    model = Model()
    model.run.run(trees(2))
    gone = weakref.ref(model.run)
    del model
    gc.collect()
    assert gone() is None


def test_emulated_devices_give_the_same_bits():
    model = Trees()
    expected = [bits(out) for out in model.engine().run(trees(3))]
    try:
        engine = model.engine(device="cuda-emulated")
    except ed.DeviceError as error:
        pytest.skip(f"no emulated device: {error}")
    assert [bits(out) for out in engine.run(trees(3))] == expected
    for precision in ("tf32", "bf16"):
        rounded = model.engine(device="cuda-emulated", precision=precision).run(trees(3))
        assert [bits(out) for out in rounded] != expected
        for a, b in zip(model.engine().run(trees(3)), rounded, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-2)
