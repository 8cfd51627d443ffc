"""Arrays are read by index: their memory order and the type of their numbers do not matter."""

import edbatch as ed
import numpy as np
import pytest
from networks import Trees


def unaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    copy = memory[1:].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert not copy.flags.aligned or array.itemsize == 1
    return copy


def read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def every_other(array):
    copy = np.zeros([2 * size for size in array.shape], array.dtype)
    copy[tuple(slice(None, None, 2) for _ in array.shape)] = array
    return copy[tuple(slice(None, None, 2) for _ in array.shape)]


ORDERS = {
    "c": np.array,
    "fortran": np.asfortranarray,
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "reversed": lambda array: np.flip(np.flip(array).copy()),
    "every other": every_other,
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
    "unaligned": unaligned,
    "read-only": read_only,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "masked array without a mask": lambda array: np.ma.masked_array(np.asfortranarray(array)),
    "own sequence": lambda array: WithArray(np.asfortranarray(array)),
}


class WithArray:
    """An object that NumPy converts."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


FLOATS = ["float32", "float64", "float16", "longdouble", "int64", "uint8", "bool"]

NET = ed.Network()
MATRIX, BOTH = NET.record("matrix", m=(2, 3)), NET.record("both", m=(2, 3), v=3)
ROW = NET.record("row", y=3)


@NET.cell(ROW)
def row(c):
    return c.lookup("word", "w", (2, 3))


@NET.cell(MATRIX)
def table(c):
    return c.lookup("word", "t", (2, 2, 3))


ZEROS = {"w": np.zeros((2, 3)), "t": np.zeros((2, 2, 3))}


def build(b, give):
    give(b) if callable(give) else [b.emit(b.call(row, word)) for word in give]


ENGINE = ed.Engine(NET, ed.Weights(ZEROS), build)


def trainer():
    return ed.Trainer(NET, ed.Weights(ZEROS), build)


def weights(array):
    return ed.Weights({"w": array})["w"]


def from_state_dict(array):
    return ed.Weights.from_state_dict(NET, ZEROS | {"w": array})["w"]


def give(array):
    return ENGINE.run([lambda b: b.emit(b.give(MATRIX, array))])[0]


def give_fields(array):
    fields = ENGINE.run([lambda b: b.emit(b.give(BOTH, array, np.arange(3)))])[0]
    assert fields[0, 6:].tolist() == [0, 1, 2]
    return fields[:, :6]


def from_arrays(array):
    calls = ed.CallList.from_arrays(NET, [], [], [0], [0], give=[(MATRIX, array)])
    return ENGINE.run([calls])[0]


def backward(array):
    of = trainer()
    of.forward([[0, 1]])
    of.backward([array])
    return of.gradients()["w"]


def backward_of_vectors(array):
    of = trainer()
    of.forward([[0, 1]])
    of.backward([list(array) if isinstance(array, np.ndarray) else list(array.array)])
    return of.gradients()["w"]


def set_parameters(array):
    of = trainer()
    of.set_parameters(ed.Weights(ZEROS | {"w": array}))
    return np.stack(of.forward([[0, 1]])[0])


ENTRIES = [weights, from_state_dict, give, give_fields, from_arrays, backward, backward_of_vectors]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entry", [*ENTRIES, set_parameters])
def test_matrices_are_read_by_index(entry, order, dtype):
    array = ORDERS[order](np.array([[0, 1, 2], [3, 0, 5]], dtype))
    expected = np.array(array.tolist() if isinstance(array, np.ndarray) else array.array.tolist())
    assert entry(array).reshape(2, 3).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
def test_tables_of_matrices_are_read_by_index(order, dtype):
    array = ORDERS[order](np.arange(12, dtype=dtype).reshape(2, 2, 3))
    expected = (array if isinstance(array, np.ndarray) else array.array).tolist()
    got = ed.Weights(ZEROS | {"t": array})
    assert got["t"].tolist() == expected
    of = trainer()
    of.set_parameters(got)
    (out,) = of.forward([lambda b: [b.emit(b.call(table, word)) for word in range(2)]])
    assert out.reshape(2, 2, 3).tolist() == expected


INTEGERS = ["int64", "int32", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("order", [order for order in ORDERS if order != "broadcast"])
def test_integers_are_read_by_index(order, dtype):
    model, convert = Trees(), ORDERS[order]
    leaf = ed.CallList(model.net)
    node, score = model.node.kind, model.score.kind
    state = leaf.give(model.state, np.zeros(8))
    calls = [(3, [state]), (5, [state]), (7, [1, 2])]
    made = [leaf.call(model.node, word, children) for word, children in calls]
    leaf.emit(leaf.call(model.score, made[-1]), made[0])
    kinds, operands = [node, node, node, score], [3, 0, 5, 0, 7, 1, 2, 3]
    kinds, operands, offsets, emit = (
        convert(np.array(numbers, dtype)) for numbers in (kinds, operands, [0, 2, 4, 7, 8], [4, 1])
    )
    give = [(model.state, np.zeros(8))]
    assert ed.CallList.from_arrays(model.net, kinds, operands, offsets, emit, give) == leaf
    # Values at a port, and targets.
    again = ed.CallList(model.net)
    again.give(model.state, np.zeros(8))
    for word, children in calls:
        numbers = convert(np.array(children, dtype))
        again.call(model.node, word, numbers if isinstance(numbers, np.ndarray) else numbers.array)
    again.emit(again.call(model.score, 3), 1)
    assert again == leaf
    of = ed.Trainer(model.net, model.weights)
    scores = ed.CallList(model.net)
    for word in range(3):
        scores.emit(scores.call(model.score, scores.call(model.node, word, [-1])))
    losses = [of.accumulate([scores], [targets])[0] for targets in
              (convert(np.array([2, 0, 4], dtype)), [2, 0, 4])]
    assert losses[0] == losses[1] > 0
