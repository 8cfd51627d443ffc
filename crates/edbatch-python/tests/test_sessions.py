"""Sessions: how arguments are read, errors, threads, forks, and the bits of calls from arrays."""

import gc
import os
import pickle
import sys
import threading
import weakref

import edbatch as ed
import numpy as np
import pytest

H = 6


class Clauses:
    """Cells with two tables, with a port and one of any number, with ports alone, and with none."""

    def __init__(self, *records):
        self.net = net = ed.Network()
        for name in records:
            net.record(name, x=1)
        self.clause, self.score = net.record("clause", h=H, c=2), net.record("score", y=1)
        self.given = net.record("given", x=(2, 3))
        self.axiom = net.initial(self.clause, h="axiom.h", c="axiom.c")
        clause, given, score = self.clause, self.given, self.score

        @net.cell(clause)
        def infer(c):
            r, s = c.lookup("rule", "rules", (9, H)), c.lookup("sign", "signs", (2, H))
            (h, g), (below, _) = c.one("main", clause), c.many("others", clause).sum()
            return (c.parameter("w", (H, H)) @ below + r + s + h).tanh(), g.relu()

        @net.cell(clause)
        def start(c):
            h = c.lookup("rule", "rules", (9, H))
            return h, c.parameter("b", 2)

        @net.cell(clause)
        def read(c):
            (x,) = c.one("x", given)
            return c.parameter("v", (H, 6)) @ x.reshape(6), c.parameter("b", 2)

        @net.cell(score)
        def judge(c):
            h, g = c.one("clause", clause)
            return c.parameter("o", (1, H)) @ h + c.parameter("p", (1, 2)) @ g

        @net.cell(score)
        def constant(c):
            return c.parameter("bias", 1)

        self.infer, self.start, self.read = infer, start, read
        self.judge, self.constant = judge, constant
        self.weights = ed.Weights.random(net, seed=1)

    def session(self, memory_limit=None, **options):
        engine = ed.Engine(self.net, self.weights, **options)
        return ed.Session(engine, memory_limit=memory_limit)


@pytest.fixture(scope="module")
def model():
    return Clauses()


def bits(array):
    return np.ascontiguousarray(array, np.float32).tobytes()


def counts(session):
    st = session.statistics
    return (st.stored, st.pending, st.stored_bytes, st.calls, st.runs, st.batches)


@pytest.mark.smoke
def test_calls_are_read_like_those_of_call_lists(model):
    session = model.session()
    a, b = session.call(model.start, 1), session.call(model.start, np.int64(2))
    assert type(a) is int and a >= 2**32
    lists = [[a, b], (a, b), np.array([a, b]), iter([a, b]), (value for value in (a, b))]
    same = [session.call(model.infer, 3, np.uint8(1), model.axiom, list) for list in lists]
    session.run()
    assert len({bits(session.fetch(value)) for value in same}) == 1
    calls = ed.CallList(model.net)
    c, d = calls.call(model.start, 1), calls.call(model.start, 2)
    calls.emit(calls.call(model.infer, 3, 1, model.axiom, [c, d]))
    (plain,) = ed.Engine(model.net, model.weights).run([calls])
    assert bits(plain[0]) == bits(session.fetch(same[0]))
    for wrong in (True, 1.0, "1", None, [1]):
        with pytest.raises(TypeError, match="call of start: rule: expected a row, an int"):
            session.call(model.start, wrong)
        with pytest.raises(TypeError, match="call of judge: clause: expected a value, an int"):
            session.call(model.judge, wrong)
    with pytest.raises(TypeError, match="call of infer: others: expected a list of values"):
        session.call(model.infer, 1, 1, a, b)


@pytest.mark.smoke
def test_calls_that_do_not_fit_change_nothing(model):
    session, other = model.session(), Clauses("other")
    a = session.call(model.start, 1)
    session.run()
    score, before = session.call(model.judge, a), counts(session)
    wrong = [
        (lambda: session.call(model.start, 9), "row 9 does not exist: the table has 9"),
        (lambda: session.call(model.start, -1), "row -1 does not exist: rows begin at 0"),
        (lambda: session.call(model.start), "expected 1 operand"),
        (lambda: session.call(model.judge, score), "expected a value of record clause"),
        (lambda: session.call(model.judge, -2), "call of judge: clause: value -2 does not exist"),
        (lambda: session.call(model.judge, 0), "call of judge: clause: value 0 does not exist"),
        (lambda: session.call(model.judge, 2**63), "value 9223372036854775808 does not exist"),
        (lambda: session.call(model.infer, 1, 1, a, [a, 5]), "others: value 5 does not exist"),
        (lambda: session.call(model.infer, 1, 1, 7, [a]), "main: value 7 does not exist"),
        (lambda: session.call(other.judge, a), "cell of the session's network"),
        (lambda: session.add(other.judge, None, [a]), "cell of the session's network"),
    ]
    for request, text in wrong:
        with pytest.raises(ed.CallError, match=text):
            request()
        assert counts(session) == before
    with pytest.raises(ed.CellError, match="expected a record of this network"):
        session.give(other.given, np.ones((2, 3)))


def test_given_values_are_those_of_call_lists(model):
    session = model.session()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    h, c = np.ones(H), np.zeros(2)
    values = [session.give(model.given, array) for array in (x, np.asfortranarray(x), x.tolist())]
    fields = [session.give(model.clause, h, c), session.give(model.clause, np.append(h, c))]
    session.run()
    assert all(bits(session.fetch(value)) == bits(x) for value in values)
    assert bits(session.fetch(fields[0])) == bits(session.fetch(fields[1]))
    x[:] = 7
    assert session.fetch(values[0])[0] == 0
    for wrong in (np.ones(6), np.ones((3, 2)), [[1, 2, None]] * 2, 1j * x):
        with pytest.raises(ed.CallError, match="give of record given"):
            session.give(model.given, wrong)


@pytest.mark.smoke
def test_many_given_values_are_rows_of_a_matrix(model):
    session = model.session()
    matrix = np.arange(24, dtype=np.float32).reshape(4, 6)
    forms = [matrix, np.asfortranarray(matrix), np.repeat(matrix, 2, 0)[::2], matrix.tolist()]
    forms += [matrix.astype(np.int8), np.ma.array(matrix), matrix.astype(">f8")]
    made = [session.give_many(model.given, form) for form in forms]
    assert len(session.give_many(model.given, [])) == 0
    before = counts(session)
    for wrong in (matrix[0], matrix[:, :5], matrix.reshape(4, 2, 3), np.float32(1), "x", None):
        with pytest.raises(ed.CallError, match="give_many of record given"):
            session.give_many(model.given, wrong)
    matrix[2, 3] = 1
    for wrong in (np.ma.array(matrix, mask=matrix == 1), matrix.astype(float) * 1e300, matrix * 1j):
        with pytest.raises(ed.CallError, match="give_many of record given"):
            session.give_many(model.given, wrong)
    assert counts(session) == before
    matrix[:] = 0
    session.run()
    expected = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert all(bits(session.fetch(values)) == bits(expected) for values in made)
    assert made[0].dtype == np.int64 and len(session) == 4 * len(forms)


@pytest.mark.smoke
def test_many_calls_of_a_cell_are_single_calls(model):
    session = model.session()
    leaves = session.add(model.start, np.arange(9), None)
    rows = np.array([[1, 0], [2, 1], [3, 0]])
    square = leaves.reshape(3, 3)
    made = session.add(model.infer, rows, square)
    flat = session.add(model.infer, rows, leaves, offsets=np.array([0, 2, 7, 9], np.uint8))
    judged, constants = session.add(model.judge, None, made), session.call(model.constant)
    column = session.add(model.judge, None, made.reshape(3, 1))
    listed = session.add(model.infer, rows.tolist(), square.tolist())
    narrow = session.add(model.start, np.arange(9, dtype=np.uint16)[:, None][::-1], None)
    one = [
        session.call(model.infer, *map(int, row), int(of[0]), of[1:].tolist())
        for row, of in zip(rows, square, strict=True)
    ]
    by_offsets = [
        session.call(model.infer, *map(int, row), int(leaves[a]), leaves[a + 1 : b].tolist())
        for row, a, b in zip(rows, (0, 2, 7), (2, 7, 9), strict=True)
    ]
    session.run()
    assert bits(session.fetch(made)) == bits(session.fetch(one)) == bits(session.fetch(listed))
    assert bits(session.fetch(flat)) == bits(session.fetch(by_offsets))
    assert bits(session.fetch(column)) == bits(session.fetch(judged))
    assert bits(session.fetch(narrow[::-1])) == bits(session.fetch(leaves))
    assert session.fetch(constants).shape == (1,)
    initial = session.add(model.judge, None, np.full(4, model.axiom))
    empty = session.add(model.infer, [], []), session.add(model.judge, None, [])
    nothing = session.add(model.infer, np.zeros((0, 2), int), [], [0])
    assert len(initial) == 4 and [len(values) for values in (*empty, nothing)] == [0, 0, 0]
    ports_alone = session.add(model.constant, np.zeros((5, 0), int), None)
    session.run()
    assert session.fetch(ports_alone).shape == (5, 1)


@pytest.mark.smoke
def test_arrays_that_do_not_fit_change_nothing(model):
    session = model.session()
    leaves = session.add(model.start, [1, 2, 3], None)
    session.run()
    gone = session.add(model.start, [1], None)
    session.release(gone)
    before = counts(session)
    add, infer, judge, start = session.add, model.infer, model.judge, model.start
    rows, pairs = [[1, 0]] * 2, leaves[[[0, 1], [1, 2]]]
    wrong = [
        (lambda: add(infer, [1, 2], pairs), "add of infer: expected rows of shape .n, 2."),
        (lambda: add(infer, None, pairs), "add of infer: expected rows .*, got None"),
        (lambda: add(judge, [1], leaves[:1]), "add of judge: expected no rows, got shape .1."),
        (lambda: add(infer, rows, None), "expected values for its ports, got None"),
        (lambda: add(judge, None, None), "expected values for its ports, got None"),
        (lambda: add(infer, [[1, 0]] * 3, pairs), "rows of 3 calls and values of 2"),
        (lambda: add(model.constant, None, None), "use `call` for a cell without both"),
        (lambda: add(infer, rows, pairs, [0, 2, 4]), "one flat array of values with offsets"),
        (lambda: add(infer, rows, leaves, [0, 2, 2]), "offsets that ascend from 0 to 3"),
        (lambda: add(infer, rows, leaves, [1, 2, 3]), "offsets that ascend from 0 to 3"),
        (lambda: add(infer, rows, leaves, [0, 4, 3]), "offsets that ascend from 0 to 3"),
        (lambda: add(infer, rows, leaves, []), "offsets that ascend from 0 to 3"),
        (lambda: add(infer, rows, leaves, [0, -2, 3]), "offsets: expected numbers from 0"),
        (lambda: add(infer, rows, leaves[:2]), "call 0: call of infer"),
        (lambda: add(start, [1, -1], None), "call 1: call of start: row -1 .*begin at 0"),
        (lambda: add(start, [1, 2**40], None), "call 1: call of start: row 1099511627776 does"),
        (lambda: add(start, [1, 9], None), "call 1: call of start: rule: row 9 does not exist"),
        (lambda: add(judge, None, [leaves[0], 0]), "call 1: call of judge: value 0 does not"),
        (lambda: add(judge, None, [leaves[0], -2]), "call 1: call of judge: value -2 does not"),
        (lambda: add(judge, None, [*leaves, *gone]), "call 3: call of judge: value .* released"),
        (lambda: add(judge, None, [2**63]), "values: expected numbers from"),
        (lambda: add(judge, None, [[1], [2, 3]]), "values: expected an array"),
        (lambda: add(judge, None, np.ma.array(leaves, mask=True)), "a masked element"),
    ]
    for request, text in wrong:
        with pytest.raises(ed.CallError, match=text):
            request()
        assert counts(session) == before, text
    for form in (leaves * 1.0, "abc", leaves[0], [[leaves]], leaves.astype("M8[s]"), [None], {1}):
        with pytest.raises(TypeError, match="values: expected a list of ints or an array"):
            add(judge, None, form)
    for form in ([1.5], "1", 1, [True, "x"]):
        with pytest.raises(TypeError, match="rows: expected a list of ints or an array"):
            add(start, form, None)
    assert counts(session) == before


@pytest.mark.smoke
def test_arrays_of_several_cells_name_their_earlier_calls(model):
    session = model.session()
    a = session.call(model.start, 4)
    kinds = [model.start.kind, model.infer.kind, model.judge.kind]
    operands, offsets = [3, 5, 1, a, 0, model.axiom, 1], [0, 1, 6, 7]
    made = session.add_arrays(kinds, operands, offsets)
    b = session.call(model.start, 3)
    c = session.call(model.infer, 5, 1, a, [b, model.axiom])
    one = [b, c, session.call(model.judge, c)]
    session.run()
    assert made.dtype == np.int64
    assert list(map(bits, session.fetch(made))) == list(map(bits, session.fetch(one)))
    before = counts(session)
    wrong = [
        (([9], [1], [0, 1]), "call 0: cell 9 does not exist: the network has 5 cells"),
        ((kinds, operands, [0, 1, 6]), "offsets: expected 4 offsets"),
        ((kinds, operands, [0, 1, 6, 6]), "offsets: expected offsets from 0 to 7"),
        ((kinds, operands, [0, 6, 1, 7]), "offsets: offset 2 is smaller"),
        ((kinds[2:] * 2, [a, 1], [0, 1, 2]), "call 1: value 1 is not an earlier call"),
        ((kinds[2:] * 2, [a, -5], [0, 1, 2]), "call 1: call of judge: value -5 does not exist"),
        ((kinds[:1] * 2, [1, -1], [0, 1, 2]), "call 1: call of start: row -1 does not exist"),
        ((kinds[:1], [], [0, 0]), "call 0: call of start"),
        (([-1], [1], [0, 1]), "kinds: expected numbers from 0"),
    ]
    for arrays, text in wrong:
        with pytest.raises(ed.CallError, match=text):
            session.add_arrays(*arrays)
        assert counts(session) == before
    with pytest.raises(TypeError, match="kinds: expected a list of ints"):
        session.add_arrays([1.5], [1], [0, 1])


@pytest.mark.smoke
def test_fetch_returns_copies_of_one_value_or_several(model):
    session = model.session()
    a, score = session.call(model.start, 4), session.call(model.constant)
    session.run()
    assert session.fetch(a).shape == (H + 2,) and session.fetch(a).dtype == np.float32
    assert bits(session.fetch(np.int64(a))) == bits(session.fetch(a))
    for several in ([a], (a,), np.array([a]), np.array([0, a])[1:]):
        assert session.fetch(several).shape == (1, H + 2)
    mixed = session.fetch([a, score, model.axiom])
    assert [value.shape for value in mixed] == [(H + 2,), (1,), (H + 2,)]
    assert session.fetch([]).size == 0
    first = session.fetch(a)
    first[:] = 7
    assert bits(session.fetch(a)) != bits(first)
    pending = session.call(model.start, 4)
    for values in (pending, [pending], [a, pending]):
        with pytest.raises(ed.CallError, match="pending"):
            session.fetch(values)
    for values in (0, -2, [a, 0], a + 2**32, 2**63):
        with pytest.raises(ed.CallError, match="does not exist|expected numbers"):
            session.fetch(values)
    for values in (True, 1.0, None, "a", [1.5], {a}, [[a]], np.array([[a]])):
        for request in (session.fetch, session.release):
            with pytest.raises(TypeError):
                request(values)
    assert len(session) == 2


@pytest.mark.smoke
def test_release_is_all_or_nothing_and_handles_never_return(model):
    session = model.session()
    values = session.add(model.start, np.arange(9), None)
    session.run()
    before = counts(session)
    for wrong in ([*values, 5], [values[0], values[0]], [values[0], model.axiom], model.axiom):
        with pytest.raises(ed.CallError):
            session.release(wrong)
        assert counts(session) == before
    session.release(int(values[0]))
    session.release(values[1:3])
    session.release(tuple(values[3:5]))
    session.release([])
    assert len(session) == 4
    again = session.add(model.start, np.arange(50) % 9, None)
    assert not set(values) & set(again)
    session.discard()
    with pytest.raises(ed.CallError, match="does not exist"):
        session.fetch(again)
    assert (len(session), session.statistics.pending) == (4, 0)
    session.clear()
    with pytest.raises(ed.CallError, match="does not exist"):
        session.release(values[5:])
    assert (len(session), session.statistics.calls, session.statistics.runs) == (0, 9, 1)


def test_a_run_over_the_limit_leaves_its_calls_pending(model):
    weights = model.session().statistics.weight_bytes
    session = model.session(memory_limit=weights + 64 * 64)
    for form in (lambda: ed.Session(None), lambda: ed.Session(model.net), lambda: ed.Session()):
        with pytest.raises(TypeError):
            form()
    kept = session.add(model.start, np.arange(9), None)
    session.run()
    many = session.add(model.start, np.zeros(1000, int), None)
    for _ in range(2):
        with pytest.raises(MemoryError, match="or release values"):
            session.run()
        assert session.statistics.pending == 1000 and len(session) == 9
    with pytest.raises(MemoryError):
        fork = session.fork()
        fork.add(model.start, np.zeros(1000, int), None)
        fork.run()
    session.discard()
    assert session.fetch(kept).shape == (9, H + 2) and len(many) == 1000
    with pytest.raises(OverflowError):
        model.session(memory_limit=-1)


@pytest.mark.parametrize("options", [{"threads": 3}, {"device": "cuda-emulated"}])
def test_engines_with_threads_and_devices_have_sessions(model, options):
    results = []
    for session in (model.session(), model.session(**options)):
        leaves = session.add(model.start, np.arange(9), None)
        session.run()
        made = session.add(model.infer, [[1, 0]] * 3, leaves.reshape(3, 3))
        fork = session.fork()
        assert len(fork) == 0
        session.run()
        results.append(bits(session.fetch(made)))
    assert results[0] == results[1]


def test_a_session_outlives_its_engine_and_builds_are_no_obstacle(model):
    engine = ed.Engine(model.net, model.weights, lambda b, x: b.emit(b.call(model.start, x)))
    session, gone = ed.Session(engine), weakref.ref(engine)
    engine.run([1])
    del engine
    gc.collect()
    assert gone() is None
    value = session.call(model.start, 1)
    session.run()
    assert session.fetch(value).any()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(session)
    assert repr(session) == "<edbatch.Session: 1 values, 0 pending>"
    session.call(model.start, 1)
    assert repr(session) == "<edbatch.Session: 1 values, 1 pending>"
    assert "1 stored, 1 pending; 1 calls in 1 runs" in repr(session.statistics)


def test_an_engine_that_was_loaded_has_sessions(model, tmp_path):
    ed.save(tmp_path / "model", model.net, model.weights)
    engine = ed.load(tmp_path / "model")
    session, mine = ed.Session(engine), model.session()
    a, b = session.call(engine.network.cells["start"], 3), mine.call(model.start, 3)
    session.run()
    mine.run()
    assert bits(session.fetch(a)) == bits(mine.fetch(b))


def test_operands_may_use_the_session_while_they_are_read(model):
    session = model.session()

    def below():
        for row in range(3):
            yield session.call(model.start, row)

    made = session.call(model.infer, 1, 1, model.axiom, below())
    assert session.statistics.pending == 4

    class Index:
        def __index__(self):
            session.run()
            return 2

    other = session.call(model.start, Index())
    assert len(session) == 4 and session.statistics.pending == 1
    session.run()
    assert session.fetch([made, other]).shape == (2, H + 2)


def test_another_thread_gets_an_error_while_a_session_runs():
    net = ed.Network()
    state = net.record("state", h=256)
    absent = net.initial(state, h="h0")

    @net.cell(state)
    def step(c):
        (h,) = c.one("previous", state)
        return (c.parameter("w", (256, 256)) @ h).tanh()

    session = ed.Session(ed.Engine(net, ed.Weights.random(net)))
    kinds, offsets = np.full(30_000, step.kind), np.arange(30_001)
    operands = np.concatenate([[absent], np.arange(29_999)])
    texts, counted = [], 0
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    for _ in range(20):
        session.release(session.add_arrays(kinds, operands, offsets))
        thread = threading.Thread(target=session.run)
        thread.start()
        while thread.is_alive():
            counted += 1
            for request in (session.run, session.discard, lambda: len(session)):
                try:
                    request()
                except RuntimeError as error:
                    texts.append(str(error))
                    assert repr(session).startswith("<edbatch.Session: ")
                    break
            else:
                break
        thread.join()
        session.clear()
        if counted > 100 and texts:
            break
    sys.setswitchinterval(interval)
    assert texts and all("the session is running" in text for text in texts)
    assert all("use `fork()`" in text for text in texts)


def test_forks_work_in_threads_of_their_own(model):
    session, results = model.session(), [None] * 4

    def work(index, fork):
        leaves = fork.add(model.start, np.arange(9), None)
        made = fork.add(model.infer, [[1, 0]] * 3, leaves.reshape(3, 3))
        fork.run()
        results[index] = bits(fork.fetch(made))

    threads = [threading.Thread(target=work, args=(i, session.fork())) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1 and results[0] is not None


def test_after_a_fork_of_the_process_threads_are_an_error_not_a_hang(model):
    threaded, single = model.session(threads=2), model.session()
    threaded.call(model.start, 1)
    value, fork = single.call(model.start, 1), threaded.fork()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        single.run()
        alone = fork.call(model.start, 1)
        fork.run()
        same = bits(single.fetch(value)) == bits(fork.fetch(alone))
        requests = [threaded.run, threaded.fork, lambda: threaded.call(model.start, 1)]
        for request in requests:
            try:
                request()
            except RuntimeError as error:
                os.write(write, f"{same} {error}\n".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        lines = answer.read().splitlines()
    os.waitpid(child, 0)
    assert len(lines) == 3 and all("spawn" in line for line in lines)
    assert lines[0].startswith("True the process was forked after the session was built")
    threaded.run()
    assert len(threaded) == 1
