"""Ctrl-C where no code of Python runs, and the end of a whole run."""

import itertools
import json
import operator
import os
import signal
import threading
import time
from pathlib import Path

import edbatch as ed
import pytest
from networks import Trees, trees

GOLDENS = Path(__file__).parents[2] / "edbatch/tests/goldens-small"


@pytest.fixture
def ctrl_c():
    """Python's handler of Ctrl-C: a program that a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(run):
    """Runs so many inputs that they take a second, and then interrupts the same run."""
    count, took = 64, 0.0
    while took < 1:
        count, start = 2 * count, time.monotonic()
        run(count)
        took = time.monotonic() - start
    timer = threading.Timer(took / 3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(count)
        timer.join()
        time.sleep(1)
    timer.join()


def test_ctrl_c_ends_a_stream_of_kept_lists(ctrl_c):
    """Its inputs and its callback are functions of C, which handle no signals."""
    model, inputs = Trees(), []
    calls = ed.CallList(model.net)
    model.build(calls, trees(1)[0])
    engine = ed.Engine(model.net, model.weights)

    def run(count):
        inputs.append(itertools.repeat(calls, count))
        engine.stream(4, inputs[-1], operator.is_)

    interrupted(run)
    assert operator.length_hint(inputs[-2]) == 0 < operator.length_hint(inputs[-1])
    assert len(engine.run([calls])) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_run_between_its_rounds(ctrl_c, threads):
    """Rounds of a translator run no code of Python."""
    folder = GOLDENS / "lstm_nmt"
    config = json.loads((folder / "config.json").read_text("utf-8"))
    lines = (folder / config["input"]).read_text("utf-8").splitlines()
    engine, calls = ed.load(folder, threads=threads), []

    def run(count):
        calls.append(engine.statistics.nodes)
        engine.run([lines[number % len(lines)] for number in range(count)])

    interrupted(run)
    assert 0 <= engine.statistics.nodes - calls[-1] < calls[-1] - calls[-2]


RUNS = {
    "run": lambda engine, inputs: engine.run(inputs),
    "run_each": lambda engine, inputs: engine.run_each(inputs),
    "stream": lambda engine, inputs: engine.stream(8, inputs, lambda number, out: None),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("run", RUNS)
def test_an_exception_that_ends_a_run_ends_all_its_inputs(run, error, threads):
    model, resumed, rounds = Trees(), [], 300

    async def build(b, number):
        for _ in range(rounds):
            await b.fetch(model.none)
            if number == 0:
                raise error
            resumed.append(number)
        b.emit(model.none)

    engine = model.engine(build, threads=threads)
    with pytest.raises(error):
        RUNS[run](engine, range(8))
    if threads == 1:
        assert resumed == []
    # Inputs of the other thread may be in their first rounds.
    assert len(resumed) < 7 * rounds / 2
    assert len(model.engine().run(trees(2))) == 2
