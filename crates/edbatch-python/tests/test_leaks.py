"""Nothing leaks: memory after many calls, failures, dropped coroutines and kept lists."""

import gc

import edbatch as ed
import pytest
from networks import Trees, trees


def resident():
    """Returns the resident memory of this process in kilobytes."""
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def grown(work, warm_up, repetitions):
    for _ in range(warm_up):
        work()
    before = resident()
    for _ in range(repetitions):
        work()
    return resident() - before


def failing_runs(model):
    inputs = list(enumerate(trees(6)))

    async def coroutine(b, pair):
        number, tree = pair
        h = model.wire(b, tree)
        if number == 1:
            raise ValueError("fails in the first round")
        _, h = await b.fetch(b.call(model.score, h), h)
        if number == 2:
            raise ValueError("fails in the second round")
        if number == 3:
            b.emit(0)  # Was not carried.
        b.emit(h)

    def plain(b, pair):
        if pair[0] == 4:
            raise ValueError("fails")
        model.build(b, pair[1])

    engines = [model.engine(coroutine), model.engine(plain)]

    def work():
        for engine in engines:
            results = engine.run_each(inputs)
            assert any(isinstance(result, ValueError) for result in results)
            with pytest.raises(ValueError):
                engine.run(inputs)
        # The coroutines are dropped while they wait.
        with pytest.raises(ValueError):
            engines[0].graphs(inputs)
        engines[0].schedule(inputs[:1])

    return work


def kept_lists(model):
    tree, engine = trees(1)[0], ed.Engine(model.net, model.weights)

    def work():
        calls = ed.CallList(model.net)
        model.build(calls, tree)
        copy = ed.CallList.from_arrays(model.net, *calls.to_arrays())
        engine.run([calls, copy, calls])

    return work


@pytest.mark.parametrize("make", [failing_runs, kept_lists])
def test_a_hundred_runs_leak_nothing(make):
    assert grown(make(Trees()), warm_up=100, repetitions=100) < 1024


@pytest.mark.long
def test_a_million_calls_leak_nothing():
    model = Trees()
    calls = ed.CallList(model.net)

    def work():
        for _ in range(1000):
            calls.call(model.node, 3, [model.none, model.none])
            try:
                calls.call(model.node, 99, [model.none])
            except ed.CallError:
                pass
        calls.clear()

    assert grown(work, warm_up=50, repetitions=1000) < 1024


@pytest.mark.long
@pytest.mark.parametrize("make", [failing_runs, kept_lists])
def test_ten_thousand_runs_leak_nothing(make):
    repetitions = 10_000 if make is kept_lists else 2_000  # Each has five runs.
    assert grown(make(Trees()), warm_up=200, repetitions=repetitions) < 1024
