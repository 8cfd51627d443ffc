"""Call lists with slots: given values whose elements come with each run."""

import pickle

import edbatch as ed
import numpy as np
import pytest
from messages import raises


class Sums:
    """Sums of words, in a network with two records that are given."""

    def __init__(self):
        self.net = net = ed.Network()
        self.word, self.pair = net.record("word", x=3), net.record("pair", a=3, M=(1, 3))
        word = self.word

        @net.cell(word)
        def total(c):
            (x,) = c.many("words", word).sum()
            return x

        self.total = total

    def slots(self, *counts):
        calls = ed.CallList(self.net)
        values = [value for count in counts for value in calls.slots(self.word, count)]
        calls.emit(calls.call(self.total, values))
        return calls


@pytest.mark.smoke
def test_slots_are_numbered_like_given_values():
    model = Sums()
    calls = ed.CallList(model.net)
    assert calls.network is model.net
    assert calls.slots(model.word, 2) == range(0, 2)
    assert calls.give(model.word, np.ones(3)) == 2
    assert calls.slots(model.pair, count=np.int64(1)) == range(3, 4)
    assert calls.slots(model.word, 0) == range(4, 4)
    assert calls.call(model.total, [0, 1, 2]) == 4
    calls.clear()
    assert calls.slots(model.word, 1) == range(5, 6)
    assert str(model.slots(2)) == "n0 = total(g0, g1)\n"


def test_slots_count_for_equality_and_copies():
    model = Sums()
    calls = model.slots(2, 0, 3)
    assert calls == model.slots(5) != model.slots(6)
    given = ed.CallList(model.net)
    given.emit(given.call(model.total, [given.give(model.word, np.zeros(3)) for _ in range(5)]))
    assert given != calls
    assert pickle.loads(pickle.dumps(calls)) == calls
    again = pickle.loads(pickle.dumps(calls))
    again.clear()
    assert again == ed.CallList(model.net) != calls

    mixed = ed.CallList(model.net)
    values = [*mixed.slots(model.word, 2), mixed.give(model.word, np.ones(3))]
    mixed.slots(model.pair, 4)
    mixed.emit(mixed.call(model.total, [*values, *mixed.slots(model.word, 1)]))
    *arrays, give = mixed.to_arrays()
    shown = [(r.name, n if isinstance(n, int) else n.tolist()) for r, n in give]
    assert shown == [("word", 2), ("word", [1, 1, 1]), ("pair", 4), ("word", 1)]
    assert ed.CallList.from_arrays(model.net, *arrays, give=give) == mixed
    give[2] = (model.pair, np.int32(4))
    assert ed.CallList.from_arrays(model.net, *arrays, give=give) == mixed
    give[2] = (model.pair, True)
    with pytest.raises(ed.CallError, match="give of record pair"):
        ed.CallList.from_arrays(model.net, *arrays, give=give)


def test_lists_with_slots_need_rows():
    model = Sums()
    calls, weights = model.slots(3), ed.Weights.random(model.net)
    text = "slots: 3 rows of record word are missing: run the list by `packed`"
    engine, trainer = ed.Engine(model.net, weights), ed.Trainer(model.net, weights)
    for run in (engine.run, engine.graphs, engine.schedule, trainer.forward):
        with raises(ed.CallError, text):
            run([calls])  # HERE
    with raises(ed.CallError, text):
        trainer.train([calls], [[-1]])  # HERE
    with raises(ed.CallError, "slots: 1 row of record word is missing"):
        engine.run([model.slots(1)])  # HERE
    empty = ed.CallList(model.net)
    empty.slots(model.word, 0)
    assert len(engine.run([empty])[0]) == 0
    with raises(ed.FileError, "expected a list without slots to write, got 3"):
        calls.to_json()  # HERE


def test_invalid_slots():
    model, other = Sums(), Sums()
    other.net.record("more", x=1)
    calls = ed.CallList(model.net)
    with raises(ed.CallError, "slots of record word: expected a count from 0, got -1"):
        calls.slots(model.word, -1)  # HERE
    for wrong in ("two", 2.0, True):
        with raises(TypeError, "slots of record word: expected a count, an int, got"):
            calls.slots(model.word, wrong)  # HERE
    with raises(ed.CallError, "slots of record word: a count"):
        calls.slots(model.word, 2**70)  # HERE
    with raises(ed.CellError, "expected a record of this network"):
        calls.slots(other.word, 1)  # HERE
    with pytest.raises((ed.CallError, MemoryError)):
        calls.slots(model.word, 2**62)
    assert calls == ed.CallList(model.net)

    def build(b, x):
        b.slots(model.word, 1)  # HERE

    with raises(ed.CallError, "slots: expected a CallList, got a Build, whose rows `packed` gives"):
        ed.Engine(model.net, ed.Weights.random(model.net), build).run([0])
