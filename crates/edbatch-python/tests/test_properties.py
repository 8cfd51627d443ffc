"""Properties of operators, slices, given arrays, arrays of calls and weights."""

import json

import edbatch as ed
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from networks import Trees

MODEL = Trees()
FLOATS = st.floats(-4, 4, width=32)
SIZES = st.integers(1, 6)


def run(shape, equations, array):
    """Runs a cell on a given array; returns its result."""
    net = ed.Network()
    record = net.record("in", x=shape)
    traced = []

    @net.cell(record)
    def probe(c):
        (x,) = c.one("x", record)
        traced.append(equations(x).shape)
        return x

    @net.cell(net.record("out", y=traced[0]))
    def cell(c):
        return equations(c.one("x", record).x)

    calls = ed.CallList(net)
    calls.emit(calls.call(cell, calls.give(record, array)))
    (rows,) = ed.Engine(net, ed.Weights({})).run([calls])
    return rows[0].reshape(traced[0])


SHAPES = st.tuples(SIZES) | st.tuples(SIZES, SIZES)


@given(arrays.arrays(np.float32, SHAPES, elements=FLOATS), FLOATS)
@settings(max_examples=60, deadline=None)
def test_operators_with_numbers_are_those_of_numpy(array, number):
    number = np.float32(number)
    for equations in [
        lambda x: x + number,
        lambda x: number - x,
        lambda x: x * number,
        lambda x: number * x,
        lambda x: x / np.float32(abs(number) + 1),
        lambda x: float(number) + -x,
        lambda x: abs(x).maximum(number) if hasattr(x, "maximum") else np.maximum(abs(x), number),
        lambda x: x[:1],
    ]:
        ours = run(array.shape, equations, array)
        np.testing.assert_array_equal(ours, equations(array), strict=False)


@given(st.integers(1, 6), st.none() | st.integers(-8, 8), st.none() | st.integers(-8, 8))
@settings(max_examples=100, deadline=None)
def test_slices_are_those_of_numpy_unless_they_leave_the_tensor(rows, start, stop):
    array = np.arange(rows, dtype=np.float32)
    bounds = [0 if start is None else start, rows if stop is None else stop]
    first, end = (bound + rows if bound < 0 else bound for bound in bounds)
    try:
        ours = run(rows, lambda x: x[start:stop], array)
        np.testing.assert_array_equal(ours, array[start:stop])
        assert 0 <= first < end <= rows
    except ed.CellError as error:
        assert "slice" in str(error) and not 0 <= first < end <= rows


@given(arrays.arrays(np.float32, (3, 4), elements=FLOATS))
@settings(max_examples=20, deadline=None)
def test_a_column_is_repeated_over_the_columns_of_a_matrix(array):
    def equations(x):
        return x * (x[:, 0] if isinstance(x, np.ndarray) else x.T[0:1].reshape(3))[:, None]

    ours = run((3, 4), equations, array)
    np.testing.assert_array_equal(ours, equations(array))


@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.float16, np.int64]),
        arrays.array_shapes(max_dims=3, max_side=9),
        elements=st.integers(-9, 9),
    )
)
@settings(max_examples=100, deadline=None)
def test_given_arrays_are_converted_if_their_shape_is_exact(array):
    calls = ed.CallList(MODEL.net)
    try:
        calls.emit(calls.give(MODEL.state, array))
    except ed.CallError as error:
        assert array.shape != (8,) and "expected an array of shape [8]" in str(error)
        return
    (rows,) = ed.Engine(MODEL.net, MODEL.weights).run([calls])
    np.testing.assert_array_equal(rows, [array.astype(np.float32)])


SMALL = st.integers(-3, 9)
CALLS = st.lists(st.tuples(st.integers(0, 3), st.lists(SMALL, max_size=4)), max_size=6)


@given(CALLS, st.lists(SMALL, max_size=3), st.integers(0, 2))
@settings(max_examples=300, deadline=None)
def test_arrays_of_any_numbers_are_refused_or_run(calls, emit, gives):
    kinds = [kind for kind, _ in calls]
    operands = [operand for _, each in calls for operand in each]
    offsets = np.cumsum([0] + [len(each) for _, each in calls])
    give = [(MODEL.state, np.full(8, number)) for number in range(gives)]
    try:
        made = ed.CallList.from_arrays(MODEL.net, kinds, operands, offsets, emit, give)
    except ed.CallError:
        return
    line = json.loads(made.to_json())
    assert len(made) == len(line["calls"]) == len(calls)
    assert [call[1:] == [] for call in line["calls"]] == [not each for _, each in calls]
    assert line.get("emit", []) == emit
    (rows,) = ed.Engine(MODEL.net, MODEL.weights).run([made])
    assert len(rows) == len(emit)
    assert ed.CallList.from_json(MODEL.net, made.to_json()) == made


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=9),
        arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=4), elements=FLOATS),
        max_size=5,
    )
)
@settings(max_examples=60, deadline=None)
def test_weights_keep_names_and_bits_in_a_file(tmp_path_factory, tensors):
    tensors.pop("__metadata__", None)
    file = tmp_path_factory.mktemp("weights") / "w.safetensors"
    ed.Weights(tensors).save(file)
    read = ed.Weights.load(file)
    assert set(read) == set(tensors)
    for name, array in tensors.items():
        assert read[name].shape == array.shape and read[name].tobytes() == array.tobytes()
