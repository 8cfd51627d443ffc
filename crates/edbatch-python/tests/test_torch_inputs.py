"""What `edbatch.torch.Layer` and `Weights` take from PyTorch; skipped without it."""

import numpy as np
import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")
Layer = pytest.importorskip("edbatch.torch").Layer
prune = pytest.importorskip("torch.nn.utils.prune")

NET = ed.Network()
MATRIX, VECTOR = NET.record("matrix", m=(2, 3)), NET.record("vector", x=3)
OUT = NET.record("out", y=2)


@NET.cell(OUT)
def product(c):
    return c.one("m", MATRIX).m @ c.parameter("enc.0.v", 3)


@NET.cell(OUT)
def linear(c):
    return c.parameter("w", (2, 3)) @ c.one("x", VECTOR).x


def matrices():
    return Layer(NET, lambda b, _, rows: b.emit(*[b.call(product, r) for r in rows]), ("matrix",))


def vectors():
    return Layer(NET, lambda b, _, rows: b.emit(*[b.call(linear, r) for r in rows]), ("vector",))


ORDERS = {
    "contiguous": lambda t: t.clone(),
    "transposed": lambda t: t.mT.contiguous().mT,
    "flipped": lambda t: t.flip(0).contiguous().flip(0),
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda t: t[:1].expand(t.shape),
    "first": lambda t: t.movedim(0, -1).contiguous().movedim(-1, 0),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_parameters_and_gradients_are_read_by_index(order, grad):
    torch.manual_seed(1)
    layer, convert = vectors(), ORDERS[order]
    layer.w = torch.nn.Parameter(convert(torch.randn(2, 3)))
    x = convert(torch.randn(4, 3)).requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        rows = layer([0], [x])[0]
    torch.testing.assert_close(rows, x @ layer.w.T, rtol=1e-5, atol=1e-5)
    if grad:
        weight = convert(torch.randn(4, 2))
        rows.backward(weight)
        torch.testing.assert_close(layer.w.grad, weight.T @ x, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(x.grad, weight @ layer.w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flat", [True, False])
def test_matrices_are_given_as_rows_or_as_matrices(flat, order):
    torch.manual_seed(1)
    layer = matrices()
    x = ORDERS[order](torch.randn(5, 6) if flat else torch.randn(5, 2, 3)).requires_grad_()
    (rows, none) = layer([0, 1], [x, x[:0]])
    v = dict(layer.named_parameters())["enc.0.v"]
    torch.testing.assert_close(rows, x.reshape(5, 2, 3) @ v, rtol=1e-5, atol=1e-5)
    assert len(none) == 0
    rows.sum().backward()
    expected = v.detach().expand(5, 2, 3).reshape(x.shape)
    torch.testing.assert_close(x.grad, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert torch.equal(layer([0], [x])[0], rows)
    with pytest.raises(ed.CallError, match=r"give of record matrix: expected an array of shape"):
        layer([0], [torch.ones(5, 5)])


def test_a_text_is_no_list_of_inputs():
    for text in ("ab", b"ab"):
        with pytest.raises(TypeError, match="forward: expected a list of inputs, got"):
            vectors()(text, [torch.ones(1, 3)] * 2)


def one_row(layer):
    return layer([0], [torch.tensor([[1.0, -2.0, 0.5]])])[0]


def expected_row(layer):
    return torch.tensor([[1.0, -2.0, 0.5]]) @ layer.w.T


def trains(layer):
    """Checks the outputs and the gradients in several steps, and returns the names of the trained tensors."""
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(3):
        layer.zero_grad()
        one_row(layer).square().sum().backward()
        got = [tensor.grad.clone() for name, tensor in layer.named_parameters() if "w" in name]
        layer.zero_grad()
        layer.eval()  # Spectral norms make a step in each access while they train.
        torch.testing.assert_close(one_row(layer), expected_row(layer), rtol=1e-5, atol=1e-5)
        layer.train()
        assert got and all(gradient.abs().sum() > 0 for gradient in got)
        optimizer.step()
    return [name for name, _ in layer.named_parameters() if "w" in name]


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal"])
def test_parametrizations_are_trained(kind):
    layer = vectors()
    before = one_row(layer)
    getattr(torch.nn.utils.parametrizations, kind)(layer, "w")
    if kind == "weight_norm":
        torch.testing.assert_close(one_row(layer), before)
    assert all("parametrizations.w.original" in name for name in trains(layer))
    torch.nn.utils.parametrize.remove_parametrizations(layer, "w")
    torch.testing.assert_close(one_row(layer), expected_row(layer))


def test_parametrizations_of_submodules_are_trained():
    layer = matrices()
    x = torch.randn(5, 6)
    before = layer([0], [x])[0]

    class Twice(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    torch.nn.utils.parametrize.register_parametrization(layer.get_submodule("enc.0"), "v", Twice())
    rows = layer([0], [x])[0]
    torch.testing.assert_close(rows, 2 * before)
    rows.sum().backward()
    original = layer.get_submodule("enc.0").parametrizations.v.original
    torch.testing.assert_close(original.grad, 2 * x.reshape(10, 3).sum(0))


def submodule():
    """A layer whose parameter is in a module below it, which is never called."""
    net = ed.Network()
    vector, out = net.record("vector", x=3), net.record("out", y=2)

    @net.cell(out)
    def linear(c):
        return c.parameter("part.w", (2, 3)) @ c.one("x", vector).x

    layer = Layer(net, lambda b, _, rows: b.emit(*[b.call(linear, r) for r in rows]), ("vector",))
    return layer, layer.part


@pytest.mark.parametrize("where", ["layer", "submodule"])
@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "prune"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated:FutureWarning")
def test_hooks_of_older_parametrizations_run_once_a_call(where, kind):
    layer, owner = (vectors(),) * 2 if where == "layer" else submodule()
    if kind == "prune":
        prune.random_unstructured(owner, "w", 0.5)
    else:
        getattr(torch.nn.utils, kind)(owner, "w")
    calls = []
    (hook,) = owner._forward_pre_hooks.values()
    type_of_hook = type(hook)

    class Counted(type_of_hook):
        def __call__(self, *arguments):
            calls.append(1)
            return super().__call__(*arguments)

    Counted.__module__ = type_of_hook.__module__
    hook.__class__ = Counted
    x, losses = torch.tensor([[1.0, -2.0, 0.5]]), []
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for step in range(1, 4):
        optimizer.zero_grad()
        rows = layer([0], [x])[0]
        assert len(calls) == step
        torch.testing.assert_close(rows, x @ owner.w.T, rtol=1e-5, atol=1e-5)
        losses.append(rows.square().sum())
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0]


def test_deleted_parameters_are_named():
    layer = vectors()
    del layer.w
    with pytest.raises(ValueError, match="parameter w: expected .*: do not delete or replace it"):
        one_row(layer)
    layer.w = 3
    with pytest.raises(TypeError, match="parameter w: expected a tensor, got int"):
        one_row(layer)


TENSORS = {
    "bfloat16": lambda t: t.bfloat16(),
    "float16": lambda t: t.half(),
    "float64": lambda t: t.double(),
    "int64": lambda t: t.long(),
    "gradient": lambda t: t.clone().requires_grad_(),
    "parameter": lambda t: torch.nn.Parameter(t.clone()),
    "result": lambda t: torch.nn.Parameter(t.clone()) * 1,
    "transposed": lambda t: t.T.contiguous().T,
    "expanded": lambda t: t[:1].expand(2, 3),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_of_any_type_are_weights(kind):
    tensor = TENSORS[kind](torch.arange(6.0).reshape(2, 3))
    expected = tensor.detach().float().tolist()
    assert ed.Weights({"w": tensor})["w"].tolist() == expected
    state = {"w": tensor, "enc.0.v": torch.zeros(3)}
    assert ed.Weights.from_state_dict(NET, state)["w"].tolist() == expected
    calls = ed.CallList(NET)
    calls.give(MATRIX, tensor)
    assert calls.to_arrays()[4][0][1].tolist() == expected


def test_tensors_that_are_no_floats_are_named():
    large = torch.tensor([1.0, 1e300], dtype=torch.float64)
    for tensor, text in [
        (large, r"range of 32-bit floats, got 1e\+300 at index 1"),
        (large.requires_grad_(), r"got 1e\+300 at index 1"),
        (torch.tensor([1j]), "complex64"),
        # Older versions of torch write "dense" alone.
        (torch.ones(2).to_sparse(), r"(to_)?dense\(\)"),
    ]:
        for read in (ed.Weights, lambda state: ed.Weights.from_state_dict(NET, state)):
            with pytest.raises(ed.WeightsError, match=f"tensor w: expected .*{text}"):
                read({"w": tensor})
    for read in (ed.Weights, lambda state: ed.Weights.from_state_dict(NET, state)):
        with pytest.raises(ed.WeightsError, match=r"got Linear: pass `module.state_dict\(\)`"):
            read(torch.nn.Linear(2, 2))


def test_torch_tensors_are_targets_and_values():
    trainer = ed.Trainer(NET, ed.Weights.random(NET), lambda b, x: b.emit(b.call(linear, x(b))))
    inputs = [lambda b: b.give(VECTOR, torch.ones(3))]
    losses = [trainer.accumulate(inputs, [of])[0] for of in (torch.tensor([1]), [1], np.array([1]))]
    assert losses == losses[:1] * 3
