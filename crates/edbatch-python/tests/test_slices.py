"""Slices of tensors are NumPy's, or a CellError."""

import itertools

import edbatch as ed
import numpy as np
import pytest

PARTS = [None, *range(-6, 7)]
STEPS = [None, *range(-6, 0), 0, *range(1, 7)]


def sliced(shape, key):
    """The slice of a table's row with the elements 0, 1, 2, …; or the CellError."""
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    net, shapes = ed.Network(), []
    probe = net.record("probe", x=1)

    def equations(c):
        shapes.append(c.lookup("w", "e", (1, *shape))[key].shape)
        return c.constant(0.0, 1)

    try:
        net.cell(probe, name="probe")(equations)
    except ed.CellError as error:
        return error
    record = net.record("r", x=shapes[0])
    cell = net.cell(record, name="c")(lambda c: c.lookup("w", "e", (1, *shape))[key])
    weights = ed.Weights({"e": array[None]})
    (out,) = ed.Engine(net, weights, lambda b, _: b.emit(b.call(cell, 0))).run([0])
    return out.reshape(shapes[0])


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (4,), (5,), (2, 2), (3, 2), (4, 3)])
def test_any_start_stop_and_step_is_numpys_or_an_error(shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    equal = 0
    for start, stop, step in itertools.product(PARTS, PARTS, STEPS):
        key = slice(start, stop, step)
        got = sliced(shape, key)
        if isinstance(got, ed.CellError):
            # Ranges of rows in order are no error.
            inside = all(part is None or -shape[0] <= part <= shape[0] for part in (start, stop))
            assert step not in (None, 1) or not inside or not len(array[key]), key
            assert repr(key) in str(got)
        else:
            assert got.tolist() == array[key].tolist(), key
            equal += 1
    assert equal >= shape[0]


@pytest.mark.parametrize("shape", [(1,), (2,), (5,)])
def test_a_column_is_of_all_rows_or_an_error(shape):
    for start, stop, step in itertools.product(PARTS, PARTS, STEPS):
        got = sliced_column(shape[0], slice(start, stop, step))
        every = step != 0 and len(range(shape[0])[start:stop:step]) == shape[0]
        forward = range(shape[0])[start:stop:step] == range(shape[0]) if step != 0 else False
        assert isinstance(got, ed.CellError) or (every and forward), (start, stop, step)
    assert sliced_column(shape[0], slice(None)) == (shape[0], 1)
    assert sliced_column(shape[0], slice(0, shape[0], 1)) == (shape[0], 1)


def sliced_column(rows, key):
    net, shapes = ed.Network(), []

    def equations(c):
        shapes.append(c.parameter("v", rows)[key, None].shape)
        return c.constant(0.0, 1)

    try:
        net.cell(net.record("probe", x=1), name="probe")(equations)
    except ed.CellError as error:
        return error
    return shapes[0]


@pytest.mark.parametrize(
    "key",
    [
        slice(-100, 100),
        slice(-(2**63), 2**63),
        slice(0, 2**100),
        slice(-(2**100), None),
        slice(None, None, 2**100),
        slice(None, None, -(2**100)),
        slice(None, None, 2**33 + 1),
        slice(1, 3.0),
        slice("a", None),
    ],
)
def test_huge_numbers_and_other_objects_are_in_the_message(key):
    got = sliced((4,), key)
    assert isinstance(got, ed.CellError)
    assert repr(key) in str(got) and "42949" not in str(got)


def test_integers_of_numpy_are_positions():
    assert sliced((4,), slice(np.int64(1), np.uint8(3), np.int8(1))).tolist() == [1, 2]
