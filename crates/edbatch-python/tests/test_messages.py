"""Each error of an input, an option or a file says what to do, at the line of its cause."""

import asyncio
import functools

import edbatch as ed
import numpy as np
import pytest
from messages import raises
from networks import Trees, trees


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
    with raises(TypeError, "call of score: root: expected a value, an int, got None"):
        b.call(model.score, None)  # HERE
    with raises(ed.CallError, "call of score: expected 1 operand (a value for root), got 5"):
        b.call(model.score, 0, 0, 0, 0, 0)  # HERE
    with raises(ed.CallError, "call of node: children: expected at least one value, got none"):
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
        b.emit(0, 2, 1)  # HERE
    assert repr(b) == "<edbatch.CallList: 2 calls, 1 emitted>"
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
    with raises(ed.CallError, "give of record one: expected an array or a tensor of numbers"):
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
        (([node], [3, -1], [0, 2], [1]), "emit: value 1 does not exist: expected a number"),
        (([70000], [3, -1], [0, 2], []), "kinds: expected numbers from 0 to 65535, got 70000 at"),
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

    mine = []

    async def of_another(b, tree):
        mine.append(b)
        await mine[0].fetch(model.none)  # HERE
        b.emit(model.none)

    async def twice(b, tree):
        request = b.fetch(model.wire(b, tree))
        await request
        await request  # HERE

    with raises(RuntimeError, "awaits something that the engine does not complete"):
        model.engine(sleep).run(trees(1))
    with raises(RuntimeError, "await only `fetch`, `fetch_each` and `arg_max` of its own `b`"):
        model.engine(of_another).run(trees(2))
    with pytest.raises(RuntimeError, match="fetched and not awaited: declare `async def build`"):
        model.engine(plain).run(trees(1))
    with raises(RuntimeError, "a fetched value can be awaited once"):
        model.engine(twice).run(trees(1))


def test_mistakes_of_beginners_are_named():
    model, cached = Trees(), {}

    def returns(b, tree):
        return model.wire(b, tree)

    def caches(b, tree):
        if not cached:
            cached["leaf"] = b.call(model.node, 3, [model.none])
        b.emit(cached["leaf"])  # HERE

    with pytest.raises(TypeError, match="`build` emitted nothing, and returned int: call `b.emit"):
        model.engine(returns).run(trees(1))
    with raises(ed.CallError, "value 0 does not exist: there is none yet. Values belong to one"):
        model.engine(caches).run(trees(2))
    for run in (model.engine().run, ed.Trainer(model.net, model.weights).forward):
        with pytest.raises(TypeError, match="inputs: expected a list of inputs, got int"):
            run(3)
    with pytest.raises(TypeError, match="the argument `build` of Engine or Trainer"):
        ed.Trainer(model.net, model.weights).forward(trees(1))


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
    with raises(TypeError, "expected a CallList, got tuple: inputs of your own need a function"):
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
    for precision in ("tf32", "half"):
        text = f'precision: expected f32 or bf16 on device cpu, got "{precision}"'
        with raises(ValueError, text):
            model.engine(precision=precision)  # HERE
    text = 'precision: expected f32 or bf16 or tf32 on device cuda, got "half"'
    for device in ("cuda", "cuda:99", "cuda-emulated"):
        with raises(ValueError, text):
            model.engine(device=device, precision="half")  # HERE


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
