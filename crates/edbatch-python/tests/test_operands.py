"""Operands may be any iterables and integers, also those whose code uses the same list."""

import collections

import edbatch as ed
import numpy as np
import pytest
from networks import Trees, trees
from test_one_result import bits

MODEL = Trees()


class Own:
    """An iterator of one's own."""

    def __init__(self, values):
        self.values = iter(values)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.values)


class Sequence:
    """A sequence by `__getitem__` alone."""

    def __init__(self, values):
        self.values = list(values)

    def __getitem__(self, index):
        return self.values[index]


class Late:
    """An int that is computed when it is read."""

    def __init__(self, compute):
        self.compute = compute

    def __index__(self):
        return self.compute()


class LateArray:
    """An array that is computed when it is read."""

    def __init__(self, compute):
        self.compute = compute

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.compute(), dtype)


ITERABLES = {
    "list": list,
    "tuple": tuple,
    "generator": lambda values: (value for value in values),
    "map": lambda values: map(int, values),
    "iterator": Own,
    "sequence": Sequence,
    "deque": collections.deque,
    "dict": lambda values: dict.fromkeys(values),
    "array": lambda values: np.array(list(values)),
    "integers of numpy": lambda values: [np.int32(value) for value in values],
    "late ints": lambda values: [Late(lambda value=value: value) for value in values],
}


def wire(b, tree, iterable):
    word, below = tree
    if not below:
        return b.call(MODEL.node, word, [MODEL.none])
    return b.call(MODEL.node, word, iterable(wire(b, child, iterable) for child in below))


def kept(tree, iterable):
    calls = ed.CallList(MODEL.net)
    calls.emit(calls.call(MODEL.score, wire(calls, tree, iterable)))
    return calls


@pytest.mark.parametrize("name", ITERABLES)
def test_values_at_a_port_are_any_iterable(name):
    """Items of lazy ones are made by calls of the same list, while it reads its operands."""
    inputs, iterable = trees(8, seed=3), ITERABLES[name]
    expected = [bits(out) for out in MODEL.engine().run(inputs)]
    engine = MODEL.engine(lambda b, tree: b.emit(b.call(MODEL.score, wire(b, tree, iterable))))
    assert [bits(out) for out in engine.run(inputs)] == expected
    lists = [kept(tree, iterable) for tree in inputs]
    assert [bits(out) for out in engine.run(lists)] == expected


def test_any_operand_may_use_the_same_list():
    for b in (ed.CallList(MODEL.net), None):
        def check(b, _):
            leaf = lambda word=1: b.call(MODEL.node, word, [MODEL.none])
            assert b.call(MODEL.node, Late(lambda: leaf() + 3), [MODEL.none]) == 1
            assert b.call(MODEL.score, Late(leaf)) == 3
            assert b.call(MODEL.node, 1, [leaf(), Late(leaf), leaf()]) == 7
            assert b.give(MODEL.state, LateArray(lambda: np.full(8, leaf()))) == 9
            b.emit(Late(leaf), Late(leaf), 0)

        if b is not None:
            check(b, None)
            (out,) = ed.Engine(MODEL.net, MODEL.weights).run([b])
        else:
            (out,) = MODEL.engine(check).run([None])
        assert out.shape == (3, 8)


def test_awaited_values_are_any_iterable():
    async def build(b, tree):
        leaf = lambda: b.call(MODEL.node, 3, [MODEL.none])
        both, h = await b.fetch_each((leaf() for _ in range(2)), Late(leaf))
        first, h = await b.fetch(Late(lambda: h), Late(lambda: h))
        assert all(np.array_equal(first, row) for row in both)
        b.emit(h)

    (out,) = MODEL.engine(build).run(trees(1))
    assert out.shape == (1, 8)
    with pytest.raises(TypeError, match="fetch_each: expected a list of values, got int"):
        MODEL.engine(lambda b, tree: b.fetch_each(3)).run(trees(1))


def test_what_an_iterator_raises_is_raised_and_the_list_goes_on():
    b = ed.CallList(MODEL.net)

    def broken():
        yield b.call(MODEL.node, 1, [MODEL.none])
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        b.call(MODEL.node, 1, broken())
    assert b.call(MODEL.node, 1, iter([0])) == 1
    with pytest.raises(ed.CallError, match="word: row 30 does not exist"):
        b.call(MODEL.score, Late(lambda: b.call(MODEL.node, 30, [0])))

    def clears():
        yield 0
        b.clear()

    with pytest.raises(ed.CallError, match="value 0 was made before an await or `clear`"):
        b.call(MODEL.node, 1, clears())
    for empty in ((), iter(()), np.array([], int)):
        with pytest.raises(ed.CallError, match="children: expected at least one value, got none"):
            b.call(MODEL.node, 1, empty)
    for wrong, got in [("12", "'1'"), (np.array([1.0]), r".*1\.0.*"), ([True], "True")]:
        with pytest.raises(TypeError, match=f"children: expected a value, an int, got {got}"):
            b.call(MODEL.node, 1, wrong)
    assert len(b) == 0


def test_emit_takes_any_number_of_values():
    words = [[0, 1, 2], [], [5], [0] * 7]
    engine = MODEL.engine(lambda b, of: b.emit(*[b.call(MODEL.node, w, [-1]) for w in of]))
    assert [len(out) for out in engine.run(words)] == [3, 0, 1, 7]
    calls = ed.CallList(MODEL.net)
    assert calls.emit() is None
    assert ed.Engine(MODEL.net, MODEL.weights).run([calls])[0].shape == (0, 0)
    (out,) = MODEL.engine(lambda b, _: (b.emit(-1), b.emit(), b.emit(-1, -1)) and None).run([0])
    assert len(out) == 3


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, np.uint64(2**64 - 1), -(2**64), 2**100])
def test_numbers_of_rows_and_values_beyond_the_range_do_not_exist(number):
    b = ed.CallList(MODEL.net)
    digits = str(int(number))
    for call in (
        lambda: b.call(MODEL.node, number, [MODEL.none]),
        lambda: b.call(MODEL.node, 1, [number]),
        lambda: b.call(MODEL.node, 1, (number,)),
        lambda: b.call(MODEL.score, number),
        lambda: b.emit(number),
    ):
        with pytest.raises(ed.CallError, match=f"{digits}.* does not exist"):
            call()
    assert len(b) == 0
