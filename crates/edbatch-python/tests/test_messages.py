"""Each error has a text that says what to do, and the line of its cause."""

import asyncio
import functools

import edbatch as ed
import numpy as np
import pytest
from messages import raises
from networks import Trees, trees


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
        "multiply of [4] and [4]: expected a matrix with a vector that is written v[:, None]",
    ),
    "column of another length": (
        lambda c, s, b: matrix(c) * vector(c)[:, None],  # HERE
        "multiply of [3, 4] and [4]: expected equal shapes",
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
        "slice 2..9 of [4]: expected a nonempty range of rows within 0..4",
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
        "concatenate of [4] and [3, 4]: expected only vectors, or only matrices",
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
        "layer-norm -1 of [4]: expected a finite epsilon of at least 0, got -1",
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
    with raises(ed.CellError, "state: record: expected a unique name"):
        net.record("state", h=4)  # HERE
    with raises(ed.CellError, "empty", "at least one field"):
        net.record("empty")  # HERE
    with raises(ed.CellError, "field h: expected a vector or a matrix of 1 to 2^31 - 1"):
        net.record("bad", h=(1, 2, 3))  # HERE
    with raises(ed.CellError, "initial value of state: expected the name of a parameter for each of the fields h"):
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


def test_calls_say_which_operand_does_not_fit():
    model, other = Trees(), Trees(width=9)
    b = ed.CallList(model.net)
    node, none = model.node, model.none
    leaf = b.call(node, 3, [none])
    root = b.call(model.score, leaf)
    with raises(ed.CallError, "call of node: expected 2 operands (a row of word, a list of values"):
        b.call(node, 3)  # HERE
    with raises(ed.CallError, "call of score: expected 1 operand (a value for root), got 2"):
        b.call(model.score, leaf, leaf)  # HERE
    with raises(ed.CallError, "call of node: word: row 30 does not exist: the table has 30"):
        b.call(node, 30, [none])  # HERE
    with raises(ed.CallError, "call of node: word: row -1 does not exist: rows begin at 0"):
        b.call(node, -1, [none])  # HERE
    with raises(TypeError, "call of node: word: expected a row, an int, got True"):
        b.call(node, True, [none])  # HERE
    with raises(TypeError, "call of node: word: expected a row, an int, got 1.5"):
        b.call(node, 1.5, [none])  # HERE
    with raises(TypeError, "call of node: children: expected a list of values, got int"):
        b.call(node, 3, leaf)  # HERE
    with raises(TypeError, "call of node: children: expected a value, an int, got None"):
        b.call(node, 3, [None])  # HERE
    with raises(ed.CallError, "call of node: expected at least 1 value, got 0"):
        b.call(node, 3, [])  # HERE
    with raises(ed.CallError, "call of node: children: value 9 does not exist: the last one is 1"):
        b.call(node, 3, [9])  # HERE
    with raises(ed.CallError, "value -2 does not exist: the network has 1 initial values"):
        b.call(node, 3, [-2])  # HERE
    with raises(ed.CallError, "children: expected a value of record state, got one of logits"):
        b.call(node, 3, [root])  # HERE
    with raises(ed.CallError, "call of node: expected a cell of this network, got one of another"):
        b.call(other.node, 3, [none])  # HERE
    with raises(TypeError):
        b.call("node", 3, [none])  # HERE
    with raises(ed.CallError, "emit: value 2 does not exist: the last one is 1"):
        b.emit(2)  # HERE
    with raises(ed.CallError, "emit: value 0 does not exist: there is none yet"):
        ed.CallList(model.net).emit(0)  # HERE
    b.clear()
    with raises(ed.CallError, "value 0 was made before an await or `clear`"):
        b.emit(leaf)  # HERE
    assert len(b) == 0


def test_given_arrays_have_the_shapes_of_the_record():
    net = ed.Network()
    both, one = net.record("both", h=2, M=(2, 3)), net.record("one", h=3)
    foreign = ed.Network().record("foreign", h=2)
    b = ed.CallList(net)
    with raises(ed.CallError, "give of record one: expected an array of shape [3], got an array"):
        b.give(one, np.ones(4))  # HERE
    with raises(ed.CallError, "got an array of shape [1, 3]"):
        b.give(one, np.ones((1, 3)))  # HERE
    with raises(ed.CallError, "give of record both: expected an array for each field, h [2], M"):
        b.give(both, np.ones(2), np.ones(6))  # HERE
    with raises(ed.CallError, "or one of shape [8], got 3 arrays"):
        b.give(both, np.ones(2), np.ones((2, 3)), np.ones(1))  # HERE
    with raises(ed.CellError, "record foreign: expected a record of this network"):
        b.give(foreign, np.ones(2))  # HERE
    with raises(ValueError):
        b.give(one, ["a", "b", "c"])  # HERE
    flat = np.arange(8, dtype=np.float32)
    for arrays in [(flat,), (flat[:2], flat[2:].reshape(2, 3)), (list(range(8)),)]:
        b.give(both, *arrays)
    strided = np.arange(16.0)[::2]  # float64, and not contiguous
    b.give(both, strided / 2)
    elements = [array for _, array in b.to_arrays()[4]]
    assert all(array.tobytes() == flat.tobytes() for array in elements)


def test_arrays_say_which_call_does_not_fit():
    model = Trees()
    make = functools.partial(ed.CallList.from_arrays, model.net)
    node, score = model.node.kind, model.score.kind
    for arrays, text in [
        (([node], [3, -1], [0], []), "offsets: expected 2 entries, one more than there are kinds"),
        (([node], [3, -1], [0, 1], []), "offsets: expected ascending numbers from 0 to 2"),
        (([node, node], [3, -1], [0, 5, 2], []), "not ascending"),
        (([9], [3, -1], [0, 2], []), "call 0: cell 9 does not exist: the network has 3 cells"),
        (([node], [30, -1], [0, 2], []), "call 0: call of node: word: row 30 does not exist"),
        (([node], [-3, -1], [0, 2], []), "call 0: call of node: row -3 does not exist"),
        (([node], [3, 0], [0, 2], []), "call 0: call of node: value 0 does not exist"),
        (([node], [3, -2], [0, 2], []), "call 0: call of node: value -2 does not exist"),
        (([node], [], [0, 0], []), "call 0: call of node: expected 1 row of tables, got 0"),
        (([node, score], [3, -1, 0, 0], [0, 2, 4], []), "call 1: call of score: expected 1 value"),
        (([node], [3, -1], [0, 2], [1]), "emit: value 1 does not exist: expected a number below 1"),
        (([70000], [3, -1], [0, 2], []), "kinds: expected numbers of 16 bits, got 70000"),
    ]:
        with raises(ed.CallError, text):
            make(*arrays)  # HERE
    with raises(TypeError, "operands: expected a list of ints or an array of integers"):
        make([node], [3.5, -1], [0, 2], [])  # HERE
    with raises(ed.CallError, "give of record state: expected an array of shape [8]"):
        make([], [], [0], [], give=[(model.state, np.ones(3))])  # HERE


def test_values_that_were_not_carried_are_refused_at_their_line():
    model = Trees()

    async def call(b, tree):
        h = model.wire(b, tree)
        await b.fetch(b.call(model.score, h))
        b.call(model.score, h)  # HERE

    async def emit(b, tree):
        h = model.wire(b, tree)
        (scores, k) = await b.fetch(b.call(model.score, h), h)
        assert k != h
        b.emit(h)  # HERE

    async def fetch(b, tree):
        h = model.wire(b, tree)
        await b.fetch(h)
        await b.fetch(h)  # HERE

    async def carry(b, tree):
        h = model.wire(b, tree)
        k, = [await b.arg_max(h)]
        await b.fetch(model.wire(b, tree), h)  # HERE

    async def late(b, tree):
        first, second = (b.fetch(model.wire(b, t)) for t in (tree, tree))
        await first
        await second  # HERE

    for build in (call, emit, fetch, carry):
        with raises(ed.CallError, "was made before an await or `clear`, and was not carried"):
            model.engine(build).run(trees(3))
    with raises(ed.CallError, "awaits a value from before another await"):
        model.engine(late).run(trees(3))


def test_awaits_of_anything_else_say_so():
    model = Trees()

    async def sleep(b, tree):
        await asyncio.sleep(0)  # HERE

    def plain(b, tree):
        b.fetch(model.wire(b, tree))

    async def twice(b, tree):
        request = b.fetch(model.wire(b, tree))
        await request
        await request  # HERE

    with raises(RuntimeError, "awaits something that the engine does not complete"):
        model.engine(sleep).run(trees(1))
    with pytest.raises(RuntimeError, match="fetched and not awaited: declare `async def build`"):
        model.engine(plain).run(trees(1))
    with raises(RuntimeError, "a fetched value can be awaited once"):
        model.engine(twice).run(trees(1))


def test_an_interface_that_is_kept_is_of_no_use():
    model, kept = Trees(), []

    def build(b, tree):
        kept.append(b)
        model.build(b, tree)

    model.engine(build).run(trees(1))
    with raises(RuntimeError, "the wiring of this input has ended"):
        kept[0].emit(-1)  # HERE
    with raises(RuntimeError, "the wiring of this input has ended"):
        kept[0].to_json()  # HERE


def test_options_and_inputs_say_what_was_expected(tmp_path):
    model = Trees()
    for options, text in [
        ({"device": "gpu"}, "device: expected cpu, cuda, cuda:1 or cuda-emulated, got \"gpu\""),
        ({"threads": 0}, "expected 1 to"),
        ({"policy": "beam:none"}, "policy: expected beam:WIDTH with a width of at least 1"),
        ({"policy": ""}, "policy: expected depth, by-depth, agenda"),
        ({"threads": 2, "memory_limit": 1000}, "a memory limit needs 1 thread, got 2"),
        ({"memory_limit": 10, "fold_tables": 20}, "folded tables may take 20 bytes"),
    ]:
        with raises(ValueError, text):
            model.engine(**options)  # HERE
    with raises(ed.FileError, "policy nowhere.json: No such file"):
        model.engine(policy="nowhere.json")  # HERE
    with raises(MemoryError, "expected at most 1000 bytes"):
        model.engine(memory_limit=1000).run(trees(1))  # HERE
    plain = ed.Engine(model.net, model.weights)
    with raises(TypeError, "expected a CallList, got tuple: for inputs of your own, give the"):
        plain.run(trees(1))  # HERE
    other = Trees(width=9)
    with raises(ed.CallError, "expected a call list of the engine's network, got one of another"):
        plain.run([ed.CallList(other.net)])  # HERE
    with raises(ValueError, "width: expected at least 1 input at a time, got 0"):
        model.engine().stream(0, [], print)  # HERE
    with raises(ValueError, "encoding: unknown encoding `best`: expected one of base"):
        model.engine().learn([trees(2)], encoding="best")  # HERE
    with raises(ValueError, "no input calls a cell"):
        plain.learn([[ed.CallList(model.net)]])  # HERE
    with raises(ValueError, "round: expected a number below 1, got 1"):
        model.engine().schedule(trees(1), round=1)  # HERE
    with raises(ed.DeviceError):
        model.engine(device="cuda:99")  # HERE


def test_weights_say_what_does_not_fit(tmp_path):
    model = Trees()
    tensors = dict(model.weights.items())
    for changed, text in [
        ({"w": None}, "tensor w is missing; the model needs it with shape [8, 6]"),
        ({"extra": np.ones((2, 3))}, "unexpected tensor extra of shape [2, 3]"),
        ({"w": np.ones((6, 8))}, "tensor w: the model expects shape [8, 6], got [6, 8]"),
    ]:
        changed = {n: a for n, a in (tensors | changed).items() if a is not None}
        weights = ed.Weights(changed)
        with raises(ed.WeightsError, text):
            ed.Engine(model.net, weights)  # HERE
    with raises(ed.WeightsError, "tensor w: expected one to three nonzero dimensions, got []"):
        ed.Weights({"w": 1.0})  # HERE
    with raises(KeyError, "nothing"):
        model.weights["nothing"]  # HERE
    with raises(ed.FileError, "nowhere: expected a readable file, got: No such file"):
        ed.Weights.load("nowhere")  # HERE
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"no weights")
    with raises(ed.WeightsError, f"{file}: not a readable safetensors file"):
        ed.Weights.load(file)  # HERE


def test_files_name_the_place(tmp_path):
    model = Trees()
    with raises(ed.FileError, "1:2: expected", "got"):
        ed.Network.from_json("{}")  # HERE
    file = tmp_path / "network.json"
    file.write_text('{"edbatch_network": 9}')
    with raises(ed.FileError, f"{file}:1:"):
        ed.Network.load(file)  # HERE
    with raises(ed.FileError, "1:38: expected a row of table word of cell node"):
        ed.CallList.from_json(model.net, '{"calls": [["node", 3, [-1]], ["node"]]}')  # HERE
    calls = ed.CallList(model.net)
    calls.give(model.state, np.full(8, np.inf))
    with raises(ed.FileError, "expected finite elements to write, got inf"):
        calls.to_json()  # HERE
    with raises(ed.FileError, "nowhere"):
        ed.load("nowhere")  # HERE
    (tmp_path / "config.json").write_text("{}")
    with raises(ed.FileError, "expected a folder without config.json"):
        ed.save(tmp_path, model.net, model.weights)  # HERE
