"""Each operation that `edbatch.torch.trace` knows: values and gradients beside PyTorch's."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn
from torch.nn import functional as F

from traced import H, I, Fn, compare, numbers

#: Functions of a module, a word and any number of children.
OVER_CHILDREN = {
    "sum": lambda m, x, h: h.sum(0),
    "sum of all": lambda m, x, h: h.sum() * m.k(x),
    "mean": lambda m, x, h: h.mean(dim=0),
    "mean of all": lambda m, x, h: h.mean() + m.k(x),
    "amax": lambda m, x, h: torch.amax(h, 0),
    "max.dim": lambda m, x, h: h.max(0).values,
    "max": lambda m, x, h: h[:, 0].max() * m.k(x),
    "logsumexp": lambda m, x, h: torch.logsumexp(h, 0),
    "keepdim": lambda m, x, h: (h.sum(0, keepdim=True) * m.k(x)[None]).squeeze(0),
    "of a product": lambda m, x, h: F.relu(m.l(h)).sum(0),
    "of squares": lambda m, x, h: (h**2).mean(0).sqrt(),
    "with the node": lambda m, x, h: (torch.sigmoid(m.k(x) + m.l(h)) * h).sum(0),
    "repeat": lambda m, x, h: torch.tanh(h + m.k(x).repeat(len(h), 1)).sum(0),
    "expand": lambda m, x, h: (m.k(x).expand_as(h) * h).sum(0),
    "expand of the node alone": lambda m, x, h: m.k(x).expand(h.shape[0], -1).sum(0) + h.mean(0),
    "zeros": lambda m, x, h: (torch.zeros(len(h), H) + h).sum(0) + torch.zeros_like(h).sum(0),
    "several": lambda m, x, h: m.l(h.max(0).values) * h.mean(0) + torch.logsumexp(m.l(h), 0),
    "parts": lambda m, x, h: torch.cat([h[:, :1].sum(0), h[:, 1:].max(0).values]),
    "softmax and sum": lambda m, x, h: (torch.softmax(h, 0) * m.l(h)).sum(0),
    "softmax of a score": lambda m, x, h: (torch.softmax(m.l(h)[:, :1], 0) * h).sum(0),
    "softmax and @": lambda m, x, h: torch.softmax(h @ m.v, 0) @ h,
    "softmax and t()": lambda m, x, h: (torch.softmax(m.l(h)[:, :1], 0).t() @ h)[0],
    "softmax of columns": lambda m, x, h: (
        (torch.softmax(h[:, None, :2], 0) * h.view(-1, 2, 2)).sum(0).flatten()
    ),
    "product over children": lambda m, x, h: (h.t() @ m.l(h)) @ m.v,
    "attention": lambda m, x, h: F.scaled_dot_product_attention(m.k(x)[None], h, m.l(h))[0],
    "attention, scaled": lambda m, x, h: F.scaled_dot_product_attention(
        m.k(x)[None], m.l(h), h, scale=0.3
    )[0],
    "attention of a sum": lambda m, x, h: F.scaled_dot_product_attention(
        h.sum(0, keepdim=True), h, h
    )[0],
    "gru of each": lambda m, x, h: m.gru(h, h).sum(0),
    "norm of each": lambda m, x, h: F.layer_norm(h, (H,)).sum(0),
}


@pytest.mark.parametrize("name", OVER_CHILDREN)
def test_over_children(name):
    members = {
        "l": nn.Linear(H, H),
        "k": nn.Linear(I, H),
        "v": numbers(9, H),
        "gru": nn.GRUCell(H, H),
    }
    compare(Fn(OVER_CHILDREN[name], **members), "wm")


def two(x):
    return x.view(2, 2)


#: Functions of a module and two states of four elements.
ELEMENTS = {
    "add": lambda m, a, b: a + b + 1 + torch.add(a, b, alpha=2),
    "sub": lambda m, a, b: a - b - 1 + a.sub(b, alpha=2) + (2 - a),
    "rsub": lambda m, a, b: torch.rsub(a, b) + torch.rsub(a, 3, alpha=2),
    "mul": lambda m, a, b: a * b * 2 + 3 * a,
    "div": lambda m, a, b: a / 4 + a / (b * b + 1) + 1 / (b.exp() + 1),
    "neg": lambda m, a, b: -a + torch.negative(b),
    "reciprocal": lambda m, a, b: (a * a + 1).reciprocal() + b,
    "square": lambda m, a, b: a.square() + torch.square(b),
    "pow": lambda m, a, b: (
        a**2 + b**3 + (a * a + 1) ** 0.5 + (b * b + 1) ** -0.5 + (a**2 + 1) ** -1
    ),
    "rsqrt": lambda m, a, b: (a * a + 1).rsqrt() + b,
    "sigmoid, tanh": lambda m, a, b: torch.sigmoid(a) + torch.tanh(b),
    "relu": lambda m, a, b: F.relu(a) + b.relu(),
    "exp, log": lambda m, a, b: a.exp() + (b * b + 1).log(),
    "sqrt, erf": lambda m, a, b: (a * a + 1).sqrt() + torch.erf(b),
    "abs": lambda m, a, b: a.abs() + torch.absolute(b),
    "silu, gelu": lambda m, a, b: F.silu(a) + F.gelu(b) + F.gelu(a, approximate="tanh"),
    "leaky_relu": lambda m, a, b: F.leaky_relu(a, 0.2) + F.leaky_relu(b, -0.1),
    "maximum, minimum": lambda m, a, b: torch.maximum(a, b) * torch.minimum(a, b) + torch.max(a, b),
    "elu": lambda m, a, b: F.elu(a) + F.elu(b, 0.5) + F.celu(a, 0.7) + F.selu(b),
    "softplus": lambda m, a, b: F.softplus(a) + F.softplus(b, beta=2) + F.softplus(30 * a),
    "logsigmoid, mish": lambda m, a, b: F.logsigmoid(a) + F.mish(b),
    "clamp": lambda m, a, b: torch.clamp(a, -0.5, 0.7) + b.clamp(min=0.1) + torch.clip(b, max=0.3),
    "hardtanh": lambda m, a, b: F.hardtanh(a) + F.relu6(3 * b) + F.hardsigmoid(a) + F.hardswish(b),
    "softsign": lambda m, a, b: F.softsign(a) + F.tanhshrink(b),
    "prelu": lambda m, a, b: F.prelu(a, m.slope) + F.prelu(b, m.slope),
    "glu": lambda m, a, b: torch.cat([F.glu(a), F.glu(torch.cat([b, a]))[:2]]),
    "softmax": lambda m, a, b: F.softmax(a, -1) + F.log_softmax(b, 0),
    "softmax of rows": lambda m, a, b: (F.softmax(two(a), 1) + F.log_softmax(two(b), 0)).flatten(),
    "layer_norm": lambda m, a, b: m.norm(a) + F.layer_norm(b, (H,)) + m.plain(a),
    "layer_norm of rows": lambda m, a, b: F.layer_norm(two(a) * 3, (2,)).flatten() + b,
    "layer_norm of both": lambda m, a, b: F.layer_norm(two(a), (2, 2)).flatten() + b,
    "rms_norm": lambda m, a, b: F.rms_norm(a, (H,)) + F.rms_norm(b, (H,), m.vector, 1e-3),
    "dropout": lambda m, a, b: F.dropout(a, 0.5, training=False) + m.drop(b),
    "numbers of tensors": lambda m, a, b: a * torch.tensor(2.0) + b / torch.tensor(3),
    "constants": lambda m, a, b: (
        a + torch.ones_like(b) * 3 - torch.zeros(H) + torch.full((H,), 0.5) * b + a.new_ones(H)
    ),
    "in place": lambda m, a, b: (a * 2).add_(b).mul_(b).clamp_(min=0),
    "of another type": lambda m, a, b: a.float() + b.to(torch.float32) + a.type_as(b),
}

PRODUCTS = {
    "linear": lambda m, a, b: m.linear(a) + m.plain_linear(b),
    "of one output": lambda m, a, b: m.one(a) * b,
    "weights alone": lambda m, a, b: m.linear.weight.t() @ a + (a @ m.linear.weight) * b,
    "addmm": lambda m, a, b: torch.addmm(a, b[None], m.linear.weight, beta=2, alpha=0.5)[0],
    "mv, dot": lambda m, a, b: torch.mv(m.linear.weight, a) + torch.dot(a, b),
    "matmul": lambda m, a, b: (two(a) @ two(b) @ a[:2]).repeat(2, 1).flatten(),
    "bmm": lambda m, a, b: torch.bmm(a.view(2, 1, 2), b.view(2, 2, 1)).flatten()[:1] * a,
    "bmm and a matrix": lambda m, a, b: (a.view(2, 1, 2) @ two(b)).flatten(),
    "outer": lambda m, a, b: (a[:, None] * b[None, :]) @ b + torch.outer(a, b).sum(0),
    "sum of products": lambda m, a, b: (a * b).sum() * a + (two(a) * two(b)).sum(1)[:1],
    "attention without children": lambda m, a, b: F.scaled_dot_product_attention(
        two(a), two(b), two(a + b)
    ).flatten(),
    "matrix and row": lambda m, a, b: (
        (two(a) + b[:2]) * two(b) - a[2:] / (two(b) ** 2 + 1)
    ).flatten(),
    "matrix and column": lambda m, a, b: (two(a) * b[:2, None] - b[2:, None] + two(b)).flatten(),
    "column and row": lambda m, a, b: torch.maximum(
        a[:2, None] - a[2:], b[:2, None] + b[2:]
    ).flatten(),
    "scalars": lambda m, a, b: (
        m.scalar * a + a[0] - b + m.wide * b + m.row[0, 0, 0] * m.row[:, 0, 1]
    ),
}

SHAPES = {
    "cat": lambda m, a, b: torch.cat([a[1:3], b[-1:], a[0:1]]) + torch.concat([b[:2], a[:2]]),
    "cat of columns": lambda m, a, b: torch.cat([two(a), two(b)], 1)[:, 1:3].flatten(),
    "stack": lambda m, a, b: (torch.stack([a, b]) * m.pair[:, None]).sum(0),
    "stack of columns": lambda m, a, b: torch.stack([a, b], 1).softmax(1).sum(1) * a,
    "split": lambda m, a, b: torch.cat(
        [c * d for c, d in zip(a.chunk(2), b.split([2, 2]), strict=True)]
    ),
    "split of three": lambda m, a, b: (
        torch.cat(a.split(3)[::-1]) + torch.cat(two(b).split(1, 1)).flatten()
    ),
    "unbind": lambda m, a, b: b.unbind(0)[2] * a + torch.stack(two(a).unbind(1)).flatten(),
    "narrow, select": lambda m, a, b: a.narrow(0, 1, 2).repeat(2, 1).flatten() + b.select(0, -1),
    "slices": lambda m, a, b: torch.cat([two(a)[1], two(b)[:, 1]]) + two(a)[1, 0],
    "view": lambda m, a, b: (
        two(a).t().reshape(-1) + b.view(1, 2, 2).flatten() + b.unflatten(0, (2, 2)).view(-1)
    ),
    "squeeze": lambda m, a, b: (
        a[None, :, None].squeeze() + b.unsqueeze(0).squeeze(0) + b[None].squeeze((0,))
    ),
    "expand, repeat": lambda m, a, b: (
        a[None].expand(3, -1).mean(0) + b[:1].expand(H) + b[:1].repeat(H)
    ),
    "transpose": lambda m, a, b: (
        two(a).T.flatten() + two(b).mT.flatten() + two(b).transpose(0, 1).reshape(H)
    ),
    "permute": lambda m, a, b: (
        two(a).permute(1, 0).flatten() + b.view(2, 1, 2).permute(2, 1, 0).flatten()
    ),
    "movedim": lambda m, a, b: (
        torch.movedim(two(a), 0, 1).flatten() + torch.swapaxes(two(b), 0, 1).flatten()
    ),
    "clone": lambda m, a, b: a.clone() + b.contiguous(),
}


@pytest.mark.parametrize("name", [*ELEMENTS, *PRODUCTS, *SHAPES])
def test_of_the_node(name):
    members = {
        "norm": nn.LayerNorm(H),
        "plain": nn.LayerNorm(H, elementwise_affine=False),
        "linear": nn.Linear(H, H),
        "plain_linear": nn.Linear(H, H, bias=False),
        "one": nn.Linear(H, 1),
        "drop": nn.Dropout(0.3),
        "slope": torch.tensor([0.3]),
        "vector": numbers(8, H),
        "pair": numbers(9, 2),
        "scalar": torch.tensor(0.7),
        "wide": numbers(7, 1, H)[0],
        "row": numbers(6, H, 1, 2),
    }
    function = {**ELEMENTS, **PRODUCTS, **SHAPES}[name]
    compare(Fn(function, **members), "ss")


@pytest.mark.parametrize(
    "activation",
    [
        *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity),
        *(nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU),
        *(nn.Sigmoid, nn.Softplus, nn.Softsign, nn.Tanh, nn.Tanhshrink),
    ],
)
def test_activations(activation):
    compare(Fn(lambda m, x, h: m.f(m.l(h)).sum(0), f=activation(), l=nn.Linear(H, H)), "wm")
