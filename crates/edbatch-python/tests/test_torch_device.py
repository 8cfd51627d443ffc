"""`edbatch.torch.Layer` on a device: the emulated one, whose memory is that of the CPU, so that all
of the way is taken, with the CPU's bits. Skipped without PyTorch or a C++ compiler."""

import copy

import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoder", reason="torch is not installed")
import encoder  # noqa: E402
from edbatch import _native  # noqa: E402
from edbatch.torch import Layer, _device  # noqa: E402
from encoder import (  # noqa: E402
    NET, OFFSETS, SIZES, TREES, WORD, Model, Packed, layer, matrix, parts, slot_lists, steps,
)


@pytest.fixture(scope="module", autouse=True)
def _compiler():
    try:
        on_device(layer()).packed(slot_lists(), matrix())
    except ed.DeviceError as error:
        pytest.skip(f"no emulated device: {error}")


def on_device(module):
    """The same module, whose layers compute on the emulated device."""
    for each in module.modules():
        if isinstance(each, Layer):
            each._runs.on_cpu = "cuda-emulated"
    return module


def same(got, expected):
    """All have the same bits, and the same structure."""
    if isinstance(expected, torch.Tensor):
        assert got.dtype == expected.dtype and got.is_sparse == expected.is_sparse
        if expected.is_sparse:
            assert torch.equal(got.coalesce().indices(), expected.coalesce().indices())
            got, expected = got.coalesce().values(), expected.coalesce().values()
        assert got.shape == expected.shape
        got, expected = (each.detach().contiguous().view(torch.uint8) for each in (got, expected))
        assert torch.equal(got, expected)
    elif expected is None:
        assert got is None
    else:
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            same(one, other)


def gradients(module, outputs, rows=()):
    """All gradients of a loss that weighs all outputs differently."""
    outputs = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    flat = [tensor.reshape(-1) for each in outputs for tensor in _tensors(each)]
    loss = sum((tensor * torch.arange(1.0, len(tensor) + 1)).sin().sum() for tensor in flat)
    used = [each for each in [*module.parameters(), *rows] if each.requires_grad]
    return torch.autograd.grad(loss, used, allow_unused=True)


def _tensors(output):
    return [output] if isinstance(output, torch.Tensor) else list(output)


def check(make, run, rows=()):
    """A layer on the device has the outputs and gradients of one on the CPU."""
    cpu, device = make(), on_device(make())
    expected, got = run(cpu), run(device)
    same(got, expected)
    same(gradients(device, got, rows), gradients(cpu, expected, rows))
    with torch.no_grad():
        same(run(device), run(cpu))
    return cpu, device


@pytest.mark.smoke
@pytest.mark.parametrize("grad", [True, False])
def test_packed_and_forward_have_the_bits_of_the_cpu(grad):
    x = matrix(grad=grad)
    check(layer, lambda l: l.packed(slot_lists(), x)[0], [x])
    check(layer, lambda l: l.packed(TREES, x, OFFSETS)[0], [x])
    check(layer, lambda l: l(slot_lists(), parts(x)), [x])
    check(layer, lambda l: l(TREES, parts(x)), [x])
    same(on_device(layer()).packed(slot_lists(), x)[1], layer().packed(slot_lists(), x)[1])


def test_rows_of_half_precision_have_gradients_of_their_type():
    x = matrix().bfloat16().requires_grad_()
    check(layer, lambda l: l.packed(slot_lists(), x)[0], [x])


@pytest.mark.parametrize("model, inputs", [(Model, TREES), (Packed, slot_lists())])
def test_training_has_the_losses_and_parameters_of_the_cpu(model, inputs):
    cpu, device = model(), on_device(model())
    same(torch.tensor(steps(device, inputs, matrix(2, 3))), torch.tensor(steps(cpu, inputs, matrix(2, 3))))
    same(list(device.parameters()), list(cpu.parameters()))


def test_mini_batches_of_any_size_follow_each_other():
    cpu, device = layer(), on_device(layer())
    for inputs in ([0], [1, 2], [0, 1, 2] * 7, [2]):
        x = matrix(len(inputs), rows=sum(SIZES[index] for index in inputs), grad=True)
        got, expected = ([l.packed(slot_lists(inputs), x)[0]] for l in (device, cpu))
        same(got, expected)
        same(gradients(device, got, [x]), gradients(cpu, expected, [x]))


def test_frozen_parameters_have_no_gradients():
    def make():
        frozen = layer()
        frozen.get_parameter("cell.w").requires_grad_(False)
        return frozen

    x = matrix(grad=True)
    check(make, lambda l: l.packed(slot_lists(), x)[0], [x])
    frozen = on_device(make().requires_grad_(False))
    (gradient,) = torch.autograd.grad(frozen.packed(slot_lists(), x)[0].sum(), x)
    (expected,) = torch.autograd.grad(layer().packed(slot_lists(), x)[0].sum(), x)
    same(gradient, expected)


def test_parameters_are_read_again_exactly_if_they_have_changed(monkeypatch):
    cpu, device, x = layer(), on_device(layer()), matrix()
    read = []
    of = device._runs._has
    monkeypatch.setattr(device._runs, "_has", lambda key, all: (read.append(key), of(key, all)))

    def runs(change, times):
        for l in (cpu, device):
            with torch.no_grad():
                change(l)
        read.clear()
        for _ in range(2):
            same(device.packed(slot_lists(), x)[0], cpu.packed(slot_lists(), x)[0])
        assert len(read) == times

    runs(lambda l: None, 1)
    runs(lambda l: l.get_parameter("cell.w").mul_(1.5), 1)
    runs(lambda l: (l.get_parameter("cell.u").data.mul_(2), l.refresh()), 1)
    runs(lambda l: l.load_state_dict({name: 3 * p for name, p in l.state_dict().items()}), 1)
    runs(lambda l: None, 0)
    with torch.no_grad():
        same(copy.deepcopy(device).packed(slot_lists(), x)[0], cpu.packed(slot_lists(), x)[0])


def test_a_step_whose_values_are_replaced_runs_again():
    cpu, device, x = layer(), on_device(layer()), matrix(grad=True)

    def both(l):
        first = l.packed(slot_lists(), x)[0]
        second = l.packed(slot_lists([1]), x[5:6])[0]
        with torch.no_grad():
            l.packed(slot_lists([2]), x[:3])
        return [*gradients(l, second, [x]), *gradients(l, first, [x])]

    same(both(device), both(cpu))


def tables(**options):
    net = ed.Network()
    out = net.record("out", h=3)

    @net.cell(out)
    def look(c):
        x, y = c.lookup("row", "embed", (50, 3)), c.lookup("other", "both", (4, 3))
        return (c.parameter("m", (3, 3)) @ x + y).tanh()

    @net.cell(out)
    def whole(c):
        return c.parameter("both", (4, 3)).T @ c.parameter("v", 4)

    @net.cell(out)
    def never(c):
        return c.parameter("unused", 3)

    def build(b, rows):
        b.emit(*[b.call(look, row, row % 4) for row in rows], b.call(whole))

    torch.manual_seed(0)
    return Layer(net, build, **options)


@pytest.mark.parametrize("sparse", [(), ("embed",)])
def test_gradients_of_tables_are_dense_or_sparse(sparse):
    def run(l):
        return torch.cat(l([[9, 7, 3, 7], [], [3, 49]]))

    cpu, _ = check(lambda: tables(sparse=sparse), run)
    assert run(cpu).shape == (9, 3)


def records():
    """Given rows of two records, own rows of lists, and values of two widths; with dropout."""
    net = ed.Network()
    a, b, wide = net.record("a", x=2, y=3), net.record("b", z=4), net.record("wide", h=6)

    @net.cell(b)
    def narrow(c):
        x, y = c.one("a", a)
        (z,) = c.many("b", b).sum()
        return (c.parameter("w", (4, 2)) @ x + c.parameter("v", (4, 3)) @ y + z).tanh()

    @net.cell(wide)
    def last(c):
        return c.parameter("p", (6, 4)) @ c.one("b", b).z.dropout(0.5)

    return net, a, b, narrow, last


def test_several_records_own_rows_of_lists_widths_and_dropout():
    net, a, b, narrow, last = records()

    def calls(count, own):
        made = ed.CallList(net)
        firsts = made.slots(a, count)
        given = [made.give(b, [i, 1, 2, 3]) for i in range(own)]
        seconds = made.slots(b, count)
        made.give(b, [4, 5, 6, 7])
        for first, second in zip(firsts, seconds):
            value = made.call(narrow, first, [second, *given])
            made.emit(value, made.call(last, value))
        return made

    def make():
        torch.manual_seed(0)
        return Layer(net, given=("a", "b"))

    lists = [calls(3, 2), calls(1, 0), calls(2, 1)]
    x, z = matrix(1, 5, 6, grad=True), matrix(2, 4, 6, grad=True)
    for train in (True, False):
        run = lambda l: l.train(train)(lists, *(torch.split(each, [3, 1, 2]) for each in (x, z)))
        check(make, run, [x, z])


def test_nothing_depends_on_all_parameters():
    l = on_device(layer(emits="state"))
    rows, offsets = l.packed([], matrix()[:0])
    assert rows.shape == (0, encoder.H) and offsets.tolist() == [0]
    (rows.sum() + l.zero()).backward()
    assert all(not each.grad.any() for each in l.parameters())


class TestErrors:
    def test_tensors_on_two_devices(self):
        here, there = torch.ones(2), torch.ones(2, device="meta")
        text = "given x: expected a tensor on cpu, as parameter w is, got one on meta: move"
        with pytest.raises(TypeError, match=text):
            _device.device_of([here, there], ["w", "x"], 1, "cpu")

    def test_tensors_that_are_not_contiguous(self):
        x = matrix(rows=encoder.E, width=9).T
        layer().packed(slot_lists(), x)
        with pytest.raises(TypeError, match=r"given word: expected a contiguous tensor .* \(1, 9\)"):
            on_device(layer()).packed(slot_lists(), x)
        transposed = on_device(layer())
        weights = torch.nn.Parameter(torch.ones(encoder.E, encoder.H).T)
        transposed.get_submodule("cell").w = weights
        with pytest.raises(TypeError, match="parameter cell.w: expected a contiguous tensor"):
            transposed.packed(slot_lists(), matrix())

    def test_elements_of_another_type(self):
        with pytest.raises(TypeError, match="none.h: expected a tensor of float32 .* got torch.float64 on"):
            on_device(layer().double()).packed(slot_lists(), matrix())

    def test_a_parameter_of_another_size(self):
        l = on_device(layer())
        l.get_submodule("cell").w = torch.nn.Parameter(torch.ones(3))
        with pytest.raises(ed.DeviceError, match="expected 20 elements, got 3"):
            l.packed(slot_lists(), matrix())

    def test_an_input_that_fails_leaves_the_layer_usable(self):
        l, x = on_device(layer()), matrix()
        expected = l.packed(slot_lists(), x)[0]
        with pytest.raises(IndexError):
            l.packed([(99, [])], x, [0, 9])
        same(l.packed(slot_lists(), x)[0], expected)

    def test_trainers_on_the_cpu_have_no_tensors_of_a_device(self):
        trainer = ed.Trainer(NET, ed.Weights.random(NET, seed=1))
        with pytest.raises(ValueError, match="the backend is no device: train on CUDA"):
            _native._decide(trainer, slot_lists(), ([WORD], [36], None, None, False))

    def test_moving_without_a_device_is_an_error_of_torch(self):
        if torch.cuda.is_available():
            pytest.skip("there is a device")
        with pytest.raises((AssertionError, RuntimeError), match="CUDA|NVIDIA"):
            layer().to("cuda")
