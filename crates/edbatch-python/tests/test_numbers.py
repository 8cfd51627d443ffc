"""Numbers that an array cannot hold are errors with the array, the index and the number."""

import datetime
import decimal
import fractions
import re
import warnings

import edbatch as ed
import numpy as np
import pytest
from networks import Trees

NET = ed.Network()
VECTOR, BOTH = NET.record("vector", x=3), NET.record("both", x=3, y=1)


@NET.cell(VECTOR)
def row(c):
    return c.lookup("word", "w", (2, 3))


ZEROS = {"w": np.zeros((2, 3))}


def weights(values):
    ed.Weights({"fine": np.ones(2), "w": values})


def from_state_dict(values):
    return ed.Weights.from_state_dict(NET, ZEROS | {"w": values})


def give(values):
    ed.CallList(NET).give(VECTOR, values)


def give_field(values):
    ed.CallList(NET).give(BOTH, values, np.ones(1))


def from_arrays(values):
    ed.CallList.from_arrays(NET, [], [], [0], [0], give=[(VECTOR, values)])


def backward(values):
    trainer = ed.Trainer(NET, ed.Weights(ZEROS), lambda b, word: b.emit(b.call(row, word)))
    trainer.forward([0, 1])
    trainer.backward([np.zeros((1, 3)), [values]])


ENTRIES = {
    weights: (ed.WeightsError, "tensor w: "),
    from_state_dict: (ed.WeightsError, "tensor w: "),
    give: (ed.CallError, "give of record vector: "),
    give_field: (ed.CallError, "give of record both: x: "),
    from_arrays: (ed.CallError, "give of record vector: "),
    backward: (ValueError, "gradients of input 1, row 0: "),
}


def masked(values, mask, dtype=np.float32):
    return np.ma.masked_array(np.array(values, dtype), mask)


@pytest.fixture(autouse=True)
def no_warning():
    """NumPy's warnings are no answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array([1, 1e300, 3]), r"range of 32-bit floats, got 1e\+300 at index 1"),
        (np.array([1, 2, -3.5e38]), r"range of 32-bit floats, got -3.5e\+38 at index 2"),
        (np.array([1, 1e39, 3], ">f8"), r"range of 32-bit floats, got 1e\+39 at index 1"),
        (np.array([1, 2, 1e39])[::-1], r"range of 32-bit floats, got 1e\+39 at index 0"),
        (np.array(["1", "1e4000", "2"], np.longdouble), r"got 1e\+4000 at index 1"),
        ((1, 1e300, 3), r"range of 32-bit floats, got 1e\+300 at index 1"),
        ((1, 10**39, 3), r"range of 32-bit floats, got 1e\+39 at index 1"),
        ((1, 10**400, 3), "range of 32-bit floats, got 1000.*at index 1"),
        (np.array([1, decimal.Decimal("1e99"), 3]), r"32-bit floats, got 1e\+99 at index 1"),
        (np.array([1 + 2j, 3, 4]), "got .*complex128"),
        (np.array([1, 3, 4], np.complex64), "got .*complex64"),
        ((1 + 2j, 3, 4), "got .*complex128"),
        (np.array([1, 1j, 3], object), "expected numbers, got 1j at index 1"),
        (np.array([1, np.complex64(1j), 3], object), "expected numbers, got .*1j.* at index 1"),
        (np.array([1, None, 3], object), "expected numbers, got None at index 1"),
        ((1, 2, None), "expected numbers, got None at index 2"),
        (None, "got None"),
        (masked([1, 2, 3], [0, 1, 0]), "expected numbers, got a masked element at index 1"),
        (masked([1, 2, 3], [0, 1, 0], float), "got a masked element at index 1"),
        (masked([1, 2, 3], True, int), "got a masked element at index 0"),
        ((1, np.ma.masked, 3), "got a masked element at index 1"),
        (np.array([1, np.ma.masked, 3], object), "expected numbers, got masked at index 1"),
        (np.array(["2020-01-01"] * 3, "datetime64[D]"), r"got .*datetime64\[D\]"),
        (np.array([1, 2, 3], "timedelta64[ns]"), r"got .*timedelta64\[ns\]"),
        ((np.datetime64(1, "ns"), 1, 2), "expected numbers, got .*datetime64.* at index 0"),
        ((datetime.date(2020, 1, 1), 1, 2), "expected numbers, got .*date.* at index 0"),
        (np.array(["1", "2", "3"]), "got .*<U1"),
        (("1", "2", "3"), "got .*<U1"),
        ((b"1", b"2", b"3"), "got .*S1"),
        (np.array([1, "2", 3], object), "expected numbers, got '2' at index 1"),
        ("abc", "got <class 'str'>"),
        (b"abc", "got <class 'bytes'>"),
        ({1: 2}, "got {1: 2}"),
        (((1, 2), (3,), 4), "inhomogeneous"),
        (np.zeros(3, [("a", "f4")]), "got .*'a'"),
    ],
)
def test_elements_that_are_no_floats_are_errors(entry, values, text):
    error, name = ENTRIES[entry]
    with pytest.raises(error) as raised:
        entry(values)
    assert type(raised.value) is error
    assert str(raised.value).startswith(name)
    assert re.search(text, str(raised.value)), str(raised.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([np.nan, np.inf, -np.inf]), [np.nan, np.inf, -np.inf]),
        ([float("nan"), float("inf"), 1], [np.nan, np.inf, 1]),
        (np.array([np.nan, np.inf, 1], np.float16), [np.nan, np.inf, 1]),
        (np.array([np.inf, 1, 2], object), [np.inf, 1, 2]),
        ([3.4028235e38, 1e-300, -0.0], [3.4028235e38, 0, -0.0]),
        # Rounded to the largest float, not to infinity.
        ([3.40282351e38, 0, 0], [np.finfo(np.float32).max, 0, 0]),
        ([True, False, 2], [1, 0, 2]),
        ([2**64 - 1, -1, 2**70], [2**64, -1, 2**70]),
        ([decimal.Decimal("0.5"), fractions.Fraction(1, 4), np.float32(3)], [0.5, 0.25, 3]),
        (masked([1, 2, 3], [0, 0, 0]), [1, 2, 3]),
        ((np.ma.masked_array(1.0), 2, 3), [1, 2, 3]),
    ],
)
def test_all_other_numbers_are_rounded_to_floats(values, expected):
    expected = np.array(expected).astype(np.float32)
    got = ed.Weights({"w": values})["w"]
    assert got.tobytes() == expected.tobytes() or np.isnan(expected).any()
    np.testing.assert_array_equal(got, expected)
    calls = ed.CallList(NET)
    calls.give(VECTOR, values)
    np.testing.assert_array_equal(calls.to_arrays()[4][0][1], expected)


def test_the_index_of_an_element_has_all_dimensions():
    array = np.zeros((2, 3))
    array[1, 2] = 1e39
    with pytest.raises(ed.WeightsError, match=r"tensor w: .* got 1e\+39 at index \(1, 2\)"):
        ed.Weights({"w": np.asfortranarray(array)})
    rows = [masked([1, 2], [0, 0]), masked([1, 2], [0, 1])]
    with pytest.raises(ed.WeightsError, match=r"got a masked element at index \(1, 1\)"):
        ed.Weights({"w": rows})
    with pytest.raises(ed.WeightsError, match=r"expected numbers, got None at index \(0, 1\)"):
        ed.Weights({"w": [[1, None]]})
    with pytest.raises(ed.WeightsError, match=r"got 1e\+300: expected|got 1e\+300$"):
        ed.Weights({"w": 1e300})


HUGE = 2**64 - 1
INTEGERS = [
    (np.array([HUGE], np.uint64), f"got {HUGE} at index 0"),
    ([HUGE], f"got {HUGE} at index 0"),
    ([-1, 2**63], f"got ({2**63} at index 1|-1 at index 0)"),
    ([0, 2**64], f"got {2**64} at index 1"),
    ([0, -(2**70)], f"got {-(2**70)} at index 1"),
    ([np.uint64(HUGE), -1], f"got ({HUGE} at index 0|-1 at index 1)"),
]
NO_INTEGERS = [
    ([0, None], "got None at index 1"),
    ([0, 1.5], "got 1.5 at index 1"),
    ([1j], "got 1j at index 0"),
    ([False, True], "got False at index 0"),
    (["0"], "got '0' at index 0"),
    (np.array([True]), "got bool of 1 dimensions"),
    (np.array([0.0]), "got float64 of 1 dimensions"),
    (np.array([1], "datetime64[s]"), "got datetime64"),
    (np.array([[0]]), "got int64 of 2 dimensions"),
    (0, "got int64 of 0 dimensions"),
]


def lists(**changed):
    model = Trees()
    arrays = {"kinds": [model.node.kind], "operands": [1, -1], "offsets": [0, 2], "emit": [0]}
    return lambda: ed.CallList.from_arrays(model.net, **(arrays | changed))


def train(targets):
    model = Trees()
    calls = ed.CallList(model.net)
    calls.emit(calls.call(model.score, -1))
    trainer = ed.Trainer(model.net, model.weights)
    return lambda: trainer.train([calls], [targets])


@pytest.mark.parametrize("name", ["kinds", "operands", "offsets", "emit", "targets of input 0"])
def test_integers_beyond_the_range_are_errors(name):
    of_targets = name.startswith("targets")
    error = ValueError if of_targets else ed.CallError
    for values, text in INTEGERS:
        with pytest.raises(error, match=f"{name}: expected .*{text}"):
            train(values)() if of_targets else lists(**{name: values})()
    for values, text in NO_INTEGERS:
        with pytest.raises(TypeError, match=f"{name}: expected a list of ints.*{text}"):
            train(values)() if of_targets else lists(**{name: values})()
    wrong = np.ma.masked_array([0, 1], [0, 1])
    with pytest.raises(error, match=f"{name}: expected numbers, got a masked element at index 1"):
        train(wrong)() if of_targets else lists(**{name: wrong})()


def test_limits_of_each_type_are_in_the_message():
    for name, low, high in [
        ("kinds", 0, 2**16 - 1),
        ("operands", -(2**31), 2**31 - 1),
        ("offsets", 0, 2**32 - 1),
        ("emit", -(2**31), 2**31 - 1),
    ]:
        for beyond in (low - 1, high + 1):
            for values in ([0, beyond], np.array([0, beyond])):
                with pytest.raises(ed.CallError) as raised:
                    lists(**{name: values})()
                got = f"{name}: expected numbers from {low} to {high}, got {beyond} at index 1"
                assert str(raised.value) == got
