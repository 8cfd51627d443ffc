"""Sparse gradients of tables in `edbatch.torch.Layer`; skipped without PyTorch."""

import copy
import math
import warnings

import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")
Layer = pytest.importorskip("edbatch.torch").Layer


def tables(rows=50, **options):
    """Looks up two tables; the rows of the second are also used whole, and `m` is no table."""
    net = ed.Network()
    out = net.record("out", h=3)

    @net.cell(out)
    def look(c):
        x, y = c.lookup("row", "embed", (rows, 3)), c.lookup("other", "both", (4, 3))
        return (c.parameter("m", (3, 3)) @ x + y).tanh()

    @net.cell(out)
    def whole(c):
        return c.parameter("both", (4, 3)).T @ c.parameter("v", 4)

    def build(b, rows):
        b.emit(*[b.call(look, row, row % 4) for row in rows], b.call(whole))

    torch.manual_seed(0)
    return Layer(net, build, **options)


INPUTS = [[3, 7, 3], [9]]


def back(layer, inputs=INPUTS):
    torch.cat(layer(inputs)).square().sum().backward()
    return layer


@pytest.mark.smoke
def test_gradients_have_the_rows_that_were_read():
    sparse, dense = back(tables(sparse=("embed",))), back(tables())
    rows = torch.cat(sparse(INPUTS)).square().sum()
    (gradient,) = torch.autograd.grad(rows, sparse.embed)
    assert gradient.is_sparse and gradient.is_coalesced()
    assert gradient.indices()[0].tolist() == [3, 7, 9] and gradient.values().shape == (3, 3)
    gradient = sparse.embed.grad
    assert torch.equal(gradient.to_dense(), dense.embed.grad)
    for name in ("m", "both", "v"):
        assert torch.equal(sparse.get_parameter(name).grad, dense.get_parameter(name).grad)
    back(sparse, [[1, 3]])
    assert sparse.embed.grad.coalesce().indices()[0].tolist() == [1, 3, 7, 9]


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "SparseAdam"])
def test_optimizers_of_sparse_gradients(kind):
    sparse, dense = tables(sparse="embed"), tables()
    of_dense = "Adam" if kind == "SparseAdam" else kind
    one = getattr(torch.optim, kind)([sparse.embed], lr=0.1)
    other = getattr(torch.optim, of_dense)([dense.embed], lr=0.1)
    for _ in range(3):
        for layer, optimizer in ((sparse, one), (dense, other)):
            optimizer.zero_grad()
            back(layer)
            optimizer.step()
    torch.testing.assert_close(sparse.embed, dense.embed, rtol=1e-5, atol=1e-5)
    assert not torch.equal(sparse.embed, tables().embed)


def test_create_graph_and_nothing_keep_gradients_sparse():
    layer = tables(sparse=("embed",), emits="out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.cat(layer(INPUTS)).square().sum().backward(create_graph=True)
    assert layer.embed.grad.is_sparse
    layer = copy.deepcopy(layer)
    layer.zero_grad()
    layer.zero().backward()
    assert layer.embed.grad.is_sparse and layer.embed.grad._nnz() == 0
    torch.optim.SparseAdam([layer.embed]).step()


@pytest.mark.parametrize("name", ["m", "none", "both", "v"])
def test_only_tables_are_sparse(name):
    text = rf"sparse: expected parameters that cells only look up, of \['embed'\], got '{name}'"
    with pytest.raises(ValueError, match=text):
        tables(sparse=("embed", name))


def test_large_tables_warn_once():
    rows = math.ceil((64 << 20) / 12)
    with pytest.warns(UserWarning, match=r"64 MiB for the table embed: .*sparse=\('embed',\)") as seen:
        tables(rows)
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables(rows - 1)
        tables(rows, sparse=("embed",))
