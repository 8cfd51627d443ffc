"""`Layer.packed`: given rows and outputs as one tensor; skipped without PyTorch."""

import numpy as np
import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")
encoder = pytest.importorskip("encoder", reason="torch is not installed")
Layer = pytest.importorskip("edbatch.torch").Layer
from encoder import (  # noqa: E402
    E, H, NET, OFFSETS, STATE, TREES, close, layer, matrix, named, parts, reference,
    slot_list, slot_lists,
)


def gradients(l, rows, x):
    return torch.autograd.grad(rows.square().sum(), [x, *named(l).values()])


@pytest.mark.smoke
def test_packed_equals_forward_and_torch():
    l, x = layer(), matrix(grad=True)
    roots = reference(named(l), x)
    outputs = l(TREES, parts(x))
    assert type(outputs) is tuple and len(outputs) == 3
    expected = gradients(l, roots, x)
    kinds = [(TREES, OFFSETS), (slot_lists(), None), (slot_lists(), torch.tensor(OFFSETS))]
    kinds += [([TREES[0], *slot_lists([1, 2])], np.array(OFFSETS, np.uint32)), (TREES, (OFFSETS,))]
    for inputs, offsets in kinds:
        rows, ends = l.packed(inputs, x, offsets)
        assert (ends.dtype, ends.tolist()) == (torch.int64, [0, 1, 2, 3])
        assert torch.equal(rows, torch.cat(outputs))
        close(rows, roots)
        for got, of_torch in zip(gradients(l, rows, x), expected, strict=True):
            close(got, of_torch)
    lists = l(slot_lists(), parts(x))
    assert torch.equal(torch.cat(lists), torch.cat(outputs))
    with torch.no_grad():
        assert torch.equal(l.packed(slot_lists(), x)[0], torch.cat(outputs))


def test_kept_lists_take_other_rows_each_time():
    l, lists = layer(), slot_lists()
    for seed in range(3):
        x = matrix(seed, grad=True)
        rows, _ = l.packed(lists, x)
        close(rows, reference(named(l), x))
        assert lists == slot_lists()


def test_build_gets_ranges_or_lists():
    seen = []

    def build(b, x, words):
        seen.append(words)
        b.emit(encoder.wire(b.call, x, words[:]))

    l = Layer(NET, build, ("word",))
    x = matrix()
    assert torch.equal(l.packed(TREES, x, OFFSETS)[0], torch.cat(l(TREES, parts(x))))
    assert seen[:3] == [range(5), range(1), range(3)] and seen[3:] == [list(range(5)), [0], [0, 1, 2]]


def two_records():
    """Emits each word plus each bias, and the bias; constants are given between the slots."""
    net = ed.Network()
    word, bias = net.record("word", x=3), net.record("bias", m=(1, 3), v=2)

    @net.cell(word)
    def add(c):
        x, (m, _) = c.one("x", word).x, c.one("bias", bias)
        return x * 2.0 + m.reshape(3)

    def build(b, x, words, biases):
        for one in words:
            for other in biases:
                b.emit(b.call(add, one, other))

    def calls(words, biases):
        made = ed.CallList(net)
        first = made.slots(word, 1)
        constant = made.give(bias, np.ones(3)[None], np.zeros(2))
        others, rest = made.slots(bias, biases), made.slots(word, words - 1)
        for one in (*first, *rest):
            made.emit(*[made.call(add, one, other) for other in (*others, constant)])
        return made

    return net, build, calls


def test_several_records():
    net, build, calls = two_records()
    l = Layer(net, build, ("word", "bias"))
    words, biases = matrix(1, 3, 5, True), matrix(2, 5, 3, True)
    offsets = ([0, 2, 5], torch.tensor([0, 3, 3]))
    rows, ends = l.packed([0, 1], (words, biases), offsets)
    assert ends.tolist() == [0, 6, 6]
    expected = [2 * words[i] + biases[j, :3] for i in range(2) for j in range(3)]
    close(rows, torch.stack(expected))
    weight = matrix(3, 3, 6)
    got = torch.autograd.grad((rows * weight).sum(), (words, biases))
    wanted = torch.autograd.grad((torch.stack(expected) * weight).sum(), (words, biases))
    for one, other in zip(got, wanted, strict=True):
        close(one, other)

    lists = [calls(2, 1), calls(3, 2)]
    rows, ends = l.packed(lists, [words, biases])
    assert ends.tolist() == [0, 4, 13]
    ones = torch.tensor([1.0, 1, 1])
    of_first = [words[0] * 2 + biases[0, :3], words[0] * 2 + ones]
    close(rows[:2], torch.stack(of_first))
    last = [words[4] * 2 + biases[1, :3], words[4] * 2 + biases[2, :3], words[4] * 2 + ones]
    close(rows[-3:], torch.stack(last))
    rows.sum().backward()
    close(words.grad, torch.tensor([[2.0] * 3] * 5) * torch.tensor([2, 2, 3, 3, 3])[:, None])
    close(biases.grad[:, :3], torch.tensor([[2.0] * 3, [3.0] * 3, [3.0] * 3]))
    assert not biases.grad[:, 3:].any()


def test_a_record_is_given_once():
    net, build, _ = two_records()
    with pytest.raises(ValueError, match="given: expected each record once"):
        Layer(net, build, ("word", "bias", "word"))


def test_an_input_that_awaits_gets_its_rows_first():
    async def build(b, tree, words):
        root = encoder.wire(b.call, tree, words)
        _, root = await b.fetch(root, root)
        b.emit(root)

    l, plain = Layer(NET, build, ("word",)), layer()
    l.load_state_dict(plain.state_dict())
    with torch.no_grad():
        assert torch.equal(l.packed(TREES, matrix(), OFFSETS)[0], plain.packed(slot_lists(), matrix())[0])
    with pytest.raises(TypeError, match="awaits a computed value, which has no gradient"):
        l.packed(TREES, matrix(), OFFSETS)


@pytest.mark.parametrize(
    ("rows", "offsets"),
    [(9, [0, 5, 6]), (9, [0, 5, 6, 8]), (8, OFFSETS), (9, [1, 5, 6, 9]), (9, [0, 6, 5, 9]), (9, [])],
)
def test_wrong_offsets(rows, offsets):
    with pytest.raises(ValueError, match="offsets: expected 4 ascending numbers from 0 to"):
        layer().packed(TREES, matrix(rows=rows), offsets)


def test_rows_that_do_not_fit_are_errors():
    l, x = layer(emits="state"), matrix()
    cases = [
        (lambda: l.packed(slot_lists(), x, [0, 4, 6, 9]), ValueError, "slots: expected 5 rows of record word"),
        (lambda: l.packed(slot_lists(), x[:8]), ValueError, "slots: expected 9 rows of record word"),
        (lambda: l.packed(TREES, x), ValueError, "offsets: expected them, because an input is no CallList"),
        (lambda: l.packed(TREES, x, (OFFSETS, OFFSETS)), ValueError, "offsets: expected a list for each of 1"),
        (lambda: l.packed(TREES, x, [0.0, 5.0, 6.0, 9.0]), TypeError, "offsets"),
        (lambda: l.packed(slot_lists()), TypeError, "packed: expected rows for the records"),
        (lambda: l.packed(slot_lists(), (x, x)), TypeError, "packed: expected rows for the records"),
        (lambda: l.packed(slot_lists(), matrix(width=E + 1)), ed.CallError, "give of record word: expected an array of shape"),
        (lambda: Layer(NET).packed(slot_lists(), x), TypeError, "the layer was made without `given=`"),
        (lambda: l.packed(slot_lists(), x.double()), TypeError, "convert with `.float().cpu()`"),
        (lambda: l.packed(slot_lists(), x.long()), TypeError, "embed indices before"),
        (lambda: l(slot_lists(), x), ValueError, "to `layer.packed`"),
        (lambda: l.packed(slot_lists(), x.numpy()[None]), TypeError, "given: expected a tensor, got"),
        (lambda: l.packed([], x), ValueError, "offsets: expected no rows of record word"),
        (lambda: l(slot_lists(), parts(x)[::-1]), ValueError, "slots: expected 5 rows of record word"),
        (lambda: Layer(NET)(slot_lists()), ed.CallError, "slots: 5 rows of record word are missing"),
        (lambda: layer().packed([], x[:0]), ValueError, "packed: no inputs: expected emits="),
        (lambda: l.packed([3], x, [0, 9]), TypeError, "input 0 of 1"),
    ]
    for call, kind, text in cases:
        for grad in (True, False):
            with torch.set_grad_enabled(grad), pytest.raises(kind) as raised:
                call()
            notes = "".join(getattr(raised.value, "__notes__", []))
            assert text in str(raised.value) + notes, (raised.value, notes)


def test_slots_of_another_record_are_missing():
    calls = slot_list(1)
    calls.slots(STATE, 2)
    with pytest.raises(ed.CallError, match="slots: 2 rows of record state are missing"):
        layer().packed([calls], matrix(rows=1))


def two_widths():
    net = ed.Network()
    small, large = net.record("small", x=2), net.record("large", x=3)
    for record, width in ((small, 2), (large, 3)):
        net.cell(record, name=record.name)(lambda c, n=width: c.parameter(f"p{n}", n).tanh())

    def build(b, names):
        b.emit(*[b.call(net.cells[name]) for name in names])

    return net, build


def test_packed_values_have_one_width():
    net, build = two_widths()
    l, both = Layer(net, build), ["small", "large"]
    with pytest.raises(ValueError, match=r"one width, got \[2, 3\]: call the layer"):
        l.packed([both, ["small"]])
    rows, ends = l.packed([["small"], [], ["small", "small"]])
    assert rows.shape == (3, 2) and ends.tolist() == [0, 1, 1, 3]
    (mixed, one, none) = l([both, ["large"], []])
    assert [v.shape for v in mixed] == [(2,), (3,)] and one.shape == (1, 3) and len(none) == 0
    (mixed[1].sum() + one.sum()).backward()
    close(l.p3.grad, 2 * (1 - l.p3.tanh() ** 2))
    assert not l.p2.grad.any()


def test_emits_is_checked():
    net, build = two_widths()
    l = Layer(net, build, emits="large")
    assert l.packed([["large"]])[0].shape == (1, 3)
    for call in (l.packed, l):
        with pytest.raises(ValueError, match="emits: expected values of record large, got one of small"):
            call([["large"], ["small"]])
    assert l.packed([[], []])[0].shape == (0, 3)


def test_nothing_depends_on_all_parameters():
    l = layer(emits="state")
    x = matrix(rows=0, grad=True)
    rows, offsets = l.packed([], x)
    assert rows.shape == (0, H) and offsets.tolist() == [0]
    rows.sum().backward()
    assert x.grad.shape == (0, E)
    l.zero().backward()
    for parameter in l.parameters():
        assert parameter.grad.shape == parameter.shape and not parameter.grad.any()
    with torch.no_grad():
        next(l.parameters()).fill_(torch.nan)
    assert float(l.zero().detach()) == 0 and l([], []) == () and l([], matrix()) == ()


def test_rows_are_read_by_index():
    l, x = layer(), matrix()
    expected = l.packed(slot_lists(), x)[0]
    wide = torch.zeros(9, 2 * E)
    wide[:, ::2] = x
    for other in (x.T.contiguous().T, wide[:, ::2], x.flip(0).contiguous().flip(0)):
        other = other.detach().requires_grad_()
        rows = l.packed(slot_lists(), other)[0]
        assert torch.equal(rows, expected)
        rows.sum().backward()
        assert other.grad.shape == (9, E)


def test_dropout_counts_steps():
    net = ed.Network()
    word = net.record("word", x=50)

    @net.cell(word)
    def drop(c):
        return c.one("x", word).x.dropout(0.5)

    l = Layer(net, lambda b, _, words: b.emit(*[b.call(drop, w) for w in words]), ("word",))
    x = torch.ones(2, 50, requires_grad=True)
    first, second = (l.packed([0], x, [0, 2])[0] for _ in range(2))
    assert not torch.equal(first, second)
    first.sum().backward()
    close(x.grad, first)
    with torch.no_grad():
        assert (l.packed([0], x, [0, 2])[0] == 0).any()
    assert torch.equal(l.eval().packed([0], x, [0, 2])[0], x)
