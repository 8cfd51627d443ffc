"""What a run copies and allocates, counted instead of timed.

NumPy and Python report their memory to tracemalloc; the memory of the Rust library is not in it.
"""

import sys
import tracemalloc

import edbatch as ed
import numpy as np
from networks import Trees

WIDE = 100_000


def traced(work):
    """Returns the peak of the memory of Python and NumPy during some work, and its result."""
    work()
    tracemalloc.start()
    try:
        result = work()
        _, most = tracemalloc.get_traced_memory()
        return most, result
    finally:
        tracemalloc.stop()


class Wide:
    """A cell that returns what it reads, 400 kB."""

    def __init__(self):
        self.net = ed.Network()
        self.record = self.net.record("wide", h=WIDE)
        self.same = self.net.cell(self.record, name="same")(lambda c: c.one("p", self.record).h)
        self.weights = ed.Weights({})


def test_results_move_into_arrays_without_a_copy():
    wide = Wide()
    calls = ed.CallList(wide.net)
    given = calls.give(wide.record, np.ones(WIDE, np.float32))
    for _ in range(3):
        calls.emit(calls.call(wide.same, given))
    engine = ed.Engine(wide.net, wide.weights)
    most, (rows,) = traced(lambda: engine.run([calls]))
    assert rows.shape == (3, WIDE) and rows.base is not None and not rows.flags.owndata
    assert most < 4 * WIDE / 10, "NumPy allocates no row"


def test_given_arrays_are_copied_once_and_only_converted_if_they_must_be():
    wide = Wide()
    calls = ed.CallList(wide.net)
    ready, doubles = np.ones(WIDE, np.float32), np.ones(WIDE)
    most, _ = traced(lambda: (calls.clear(), calls.give(wide.record, ready)))
    assert most < 4 * WIDE / 10, "no copy by NumPy"
    most, _ = traced(lambda: (calls.clear(), calls.give(wide.record, doubles)))
    assert 4 * WIDE <= most < 8 * WIDE, "one conversion"


def test_awaited_rows_move_into_arrays_without_a_copy():
    wide, seen = Wide(), []

    async def build(b, array):
        seen.append(await b.fetch(b.call(wide.same, b.give(wide.record, array))))

    engine, array = ed.Engine(wide.net, wide.weights, build), np.ones(WIDE, np.float32)
    most, _ = traced(lambda: (seen.clear(), engine.run([array])))
    assert seen[0].shape == (WIDE,) and most < 4 * WIDE / 10


def test_a_call_allocates_nothing_but_its_number():
    model = Trees()
    calls = ed.CallList(model.net)

    def work():
        calls.clear()
        value = model.none
        for _ in range(1000):
            value = calls.call(model.node, 3, [value, value])

    most, _ = traced(work)
    assert most < 2000, "two numbers and a list at a time"


def test_a_run_of_kept_lists_allocates_a_result_for_each_input():
    model, lists = Trees(), []
    for _ in range(64):
        calls, value = ed.CallList(model.net), model.none
        for word in range(30):
            value = calls.call(model.node, word, [value, model.none])
        calls.emit(value)
        lists.append(calls)
    engine = ed.Engine(model.net, model.weights)
    engine.run(lists)
    before = sys.getallocatedblocks()
    outputs = engine.run(lists)
    # An array, its memory, and the list of all results.
    assert sys.getallocatedblocks() - before <= 6 * len(outputs) + 20


def test_lists_are_shared_with_the_run_and_not_copied():
    """A list with 40 MB of given rows runs twice in a run, and its copy would show."""
    wide = Wide()
    calls = ed.CallList(wide.net)
    for _ in range(100):
        calls.give(wide.record, np.ones(WIDE, np.float32))
    engine = ed.Engine(wide.net, wide.weights)
    engine.run([calls, calls])
    with open("/proc/self/status", encoding="ascii") as status:
        before = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    for _ in range(5):
        engine.run([calls, calls])
    with open("/proc/self/status", encoding="ascii") as status:
        after = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert after - before < 20_000
