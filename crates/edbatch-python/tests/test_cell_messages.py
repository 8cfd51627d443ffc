"""Each error of a declaration says what to do, at the line of its cause."""

import edbatch as ed
import numpy as np
import pytest
from messages import raises


def declare(equations, **fields):
    """Declares a cell of a network with a record of `h [4]` and `M [3, 4]`."""
    net = ed.Network()
    state, both = net.record("state", h=4), net.record("both", h=4, M=(3, 4))
    out = net.record("out", **(fields or {"y": 4}))
    return net.cell(out)(lambda c: equations(c, state, both))


def vector(c):
    return c.parameter("v", 4)


def matrix(c):
    return c.parameter("m", (3, 4))


CELL_ERRORS = {
    "add of other lengths": (
        lambda c, s, b: vector(c) + c.parameter("w", 5),  # HERE
        "cell <lambda>: v2, add of [4] and [5]: expected equal shapes",
    ),
    "product of other lengths": (
        lambda c, s, b: c.parameter("m5", (3, 5)) @ vector(c),  # HERE
        "matmul of [3, 5] and [4]: expected equal inner dimensions, got 5 and 4",
    ),
    "product of vectors": (
        lambda c, s, b: vector(c) @ vector(c),  # HERE
        "matmul of [4] and [4]: expected a matrix on the left",
    ),
    "matrix and vector": (
        lambda c, s, b: matrix(c) + c.parameter("r", 3),  # HERE
        "add of [3, 4] and [3]: expected equal shapes; write v[:, None] for a vector v",
    ),
    "column without a matrix": (
        lambda c, s, b: vector(c)[:, None] * vector(c),  # HERE
        "mul of [4] and [4]: expected a matrix with a vector that is written v[:, None]",
    ),
    "column of another length": (
        lambda c, s, b: matrix(c) * vector(c)[:, None],  # HERE
        "mul of [3, 4] and [4]: expected equal shapes",
    ),
    "column alone": (
        lambda c, s, b: vector(c)[:, None].tanh(),  # HERE
        "tanh of [4]: expected a tensor without [:, None]",
    ),
    "fields as a tensor": (
        lambda c, s, b: matrix(c) @ c.one("p", s),  # HERE
        "matmul: expected a tensor, got the fields of a value: write `h, = …`",
    ),
    "fields with an operator": (
        lambda c, s, b: c.one("p", s) * 2,  # HERE
        "port p: an operator needs a tensor, got all fields of a value: write `h, = …`, or `.h`",
    ),
    "values as a tensor": (
        lambda c, s, b: matrix(c) @ c.many("p", s),  # HERE
        "matmul: expected a tensor, got the values at a port: append `.sum()`",
    ),
    "array as a tensor": (
        lambda c, s, b: vector(c) + np.ones(4),  # HERE
        "add: expected a tensor, got ndarray",
    ),
    "number beyond 32 bits": (
        lambda c, s, b: vector(c) + 1e300,  # HERE
        "constant: expected a number that fits 32 bits, got 1e300",
    ),
    "condition": (
        lambda c, s, b: vector(c) if vector(c) else None,  # HERE
        "bool of [4]: expected no condition on a tensor",
    ),
    "one element": (
        lambda c, s, b: vector(c)[2],  # HERE
        "index of [4]: expected a range of rows, x[a:b], or v[:, None]",
    ),
    "rows out of range": (
        lambda c, s, b: vector(c)[2:9],  # HERE
        "index of [4]: expected a range of rows, x[a:b], or v[:, None] of a vector, without a "
        "step and within 0..4, got slice(2, 9, None)",
    ),
    "transpose of a vector": (
        lambda c, s, b: vector(c).T,  # HERE
        "transpose of [4]: expected a matrix",
    ),
    "reshape": (
        lambda c, s, b: vector(c).reshape(3, 2),  # HERE
        "reshape to [3, 2] of [4]: expected a shape of 4 elements",
    ),
    "concat of vector and matrix": (
        lambda c, s, b: c.concat([vector(c), matrix(c)]),  # HERE
        "concat of [4] and [3, 4]: expected only vectors, or only matrices",
    ),
    "dot": (
        lambda c, s, b: vector(c).dot(matrix(c)),  # HERE
        "dot of [4] and [3, 4]: expected two operands of equal shapes",
    ),
    "slope": (
        lambda c, s, b: vector(c).leaky_relu(2.0),  # HERE
        "leaky_relu of [4]: expected a slope from 0 to 1, got 2",
    ),
    "epsilon": (
        lambda c, s, b: vector(c).layer_norm(-1.0),  # HERE
        "layer_norm(-1) of [4]: expected a finite epsilon of at least 0, got -1",
    ),
    "rate": (
        lambda c, s, b: vector(c).dropout(1.0),  # HERE
        "dropout 1 of [4]: expected a rate from 0 to below 1, got 1",
    ),
    "dropout of a matrix": (
        lambda c, s, b: matrix(c).dropout(0.5),  # HERE
        "dropout 0.5 of [3, 4]: expected a vector",
    ),
    "parameter of another shape": (
        lambda c, s, b: vector(c) + c.parameter("v", 5),  # HERE
        "cell <lambda>: parameter v: expected dimensions [4] as declared before, got [5]",
    ),
    "parameter of no shape": (
        lambda c, s, b: c.parameter("v", "four"),  # HERE
        "parameter v: expected an int or a tuple of ints, got 'four'",
    ),
    "parameter without rows": (
        lambda c, s, b: c.parameter("v", 0),  # HERE
        "parameter v: expected one to three nonzero dimensions, got [0]",
    ),
    "table of three dimensions as a parameter": (
        lambda c, s, b: c.parameter("v", (2, 3, 4)),  # HERE
        "expected a vector or a matrix of fewer than 2^31 elements, got [2, 3, 4]",
    ),
    "table without rows": (
        lambda c, s, b: c.lookup("t", "v", 4),  # HERE
        "table t: expected a table of vectors or matrices of fewer than 2^31 elements, got [4]",
    ),
    "port after many": (
        lambda c, s, b: (c.many("all", s), c.one("p", s)),  # HERE
        "port p: expected no port after the one that takes any number of values",
    ),
    "field of values": (
        lambda c, s, b: c.many("all", b).softmax_sum("s", "h"),  # HERE
        "field s of the values at all: expected one of the fields h, M",
    ),
    "heads": (
        lambda c, s, b: c.many("all", s).attention(vector(c), "h", "h", heads=3),  # HERE
        "expected a query and keys of equal widths, and values: vectors that 3 heads divide",
    ),
    "index of another size": (
        lambda c, s, b: vector(c).select(c.index("i", 5)),  # HERE
        "select by index 0 of [4]: expected 5 elements or rows, the size of the index port i",
    ),
    "index without a size": (
        lambda c, s, b: c.index("i", 0),  # HERE
        "index i: expected a size from 1 to 2^31 - 1, got 0",
    ),
    "constant": (
        lambda c, s, b: c.constant(1.0, (2, 3, 4)),  # HERE
        "constant: expected a vector or a matrix",
    ),
}


@pytest.mark.parametrize("name", CELL_ERRORS)
def test_an_operation_that_does_not_fit_raises_at_its_line(name):
    equations, text = CELL_ERRORS[name]
    with raises(ed.CellError, text):
        declare(equations)


def test_cells_return_the_fields_of_their_record():
    for returned, text in [
        (lambda c, s, b: c.parameter("w", 5), "return of [5]: expected the fields of the record"),
        (lambda c, s, b: (vector(c), vector(c)), "return of [4] and [4]: expected the fields"),
        (lambda c, s, b: None, "return: expected a tensor, or a tuple with a tensor for each"),
        (lambda c, s, b: [1.0], "return: expected a tensor, got float"),
    ]:
        with pytest.raises(ed.CellError) as caught:
            declare(returned)
        assert text in str(caught.value)


def test_attributes_of_fields_say_which_there_are():
    with pytest.raises(AttributeError, match=r"\.tanh needs a tensor, got all fields"):
        declare(lambda c, s, b: c.one("p", s).tanh())
    declare(lambda c, s, b: c.one("p", b).h)
    declare(lambda c, s, b: c.one("p", b).M, y=(3, 4))


def test_declarations_say_what_is_wrong():
    net, other = ed.Network(), ed.Network()
    state, foreign = net.record("state", h=4), other.record("foreign", h=4)
    with raises(ed.CellError, "record state: expected a unique name"):
        net.record("state", h=4)  # HERE
    with raises(ed.CellError, "empty", "at least one field"):
        net.record("empty")  # HERE
    with raises(ed.CellError, "field h: expected a vector or a matrix of 1 to 2^31 - 1"):
        net.record("bad", h=(1, 2, 3))  # HERE
    with raises(ed.CellError, "initial value of state: expected the name of a parameter"):
        net.initial(state, h="a", c="b")  # HERE
    with raises(ed.CellError, "record foreign: expected a record of this network"):
        net.initial(foreign, h="a")  # HERE
    with raises(ed.CellError, "record foreign: expected a record of this network"):
        net.cell(foreign)  # HERE
    with raises(ed.CellError, "cell node: port p: expected a record of this network"):

        @net.cell(state)
        def node(c):
            return c.one("p", foreign).h  # HERE

    keep = []
    net.cell(state, name="node")(lambda c: keep.append(c) or c.parameter("v", 4))
    with raises(ed.CellError, "cell node: cell: expected a unique name"):
        net.cell(state, name="node")(vector)  # HERE
    with raises(RuntimeError, "cell node has been declared"):
        keep[0].parameter("w", 4)  # HERE
    with raises(RuntimeError, "cell late is being declared: declare records"):
        net.cell(state, name="late")(lambda c: net.record("r", h=1))  # HERE
    ed.CallList(net)
    with raises(RuntimeError, "the network is frozen, because an engine or a call list uses it"):
        net.record("late", h=4)  # HERE
    assert list(net.records) == ["state"] and list(net.cells) == ["node"]
    assert net.parameters == {"v": (4,)}, "failed cells declare nothing"
