"""`edbatch.torch.trace`: values and gradients of cells beside those of their modules."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn
from torch.nn import functional as F

import edbatch as ed
from edbatch.torch import Layer, many, row, trace
from traced import H, I, Fn, called, close, close_gradients, compare, numbers, records

# A tree is the number of its word and its children.
TREES = [
    (0, [(1, []), (2, [(3, []), (4, [])])]),
    (0, []),
    (2, [(1, []), (0, [(3, [])])]),
]
SIZES = [5, 1, 4]


class ChildSum(nn.Module):
    """A Child-Sum Tree-LSTM as it is commonly written, with a batch of one."""

    def __init__(self):
        super().__init__()
        self.ioux, self.iouh = nn.Linear(I, 3 * H), nn.Linear(H, 3 * H)
        self.fx, self.fh = nn.Linear(I, H), nn.Linear(H, H)

    def forward(self, x, child_c, child_h):
        iou = self.ioux(x) + self.iouh(child_h.sum(dim=0, keepdim=True))
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        f = torch.sigmoid(self.fh(child_h) + self.fx(x).repeat(len(child_h), 1))
        c = torch.sigmoid(i) * torch.tanh(u) + (f * child_c).sum(dim=0, keepdim=True)
        return torch.sigmoid(o) * torch.tanh(c), c


class Binary(nn.Module):
    """An N-ary Tree-LSTM of two children."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(I + 2 * H, 5 * H)

    def forward(self, x, left, right):
        i, o, u, f, g = self.gates(torch.cat([x, left.h, right.h])).chunk(5)
        c = (
            torch.sigmoid(i) * torch.tanh(u)
            + torch.sigmoid(f) * left.c
            + torch.sigmoid(g) * right.c
        )
        return torch.sigmoid(o) * torch.tanh(c), c


class AttentiveGru(nn.Module):
    """A GRU of the node over DAGs, with attention over predecessors."""

    def __init__(self):
        super().__init__()
        self.score, self.gru = nn.Linear(I + H, 1), nn.GRUCell(I, H)

    def forward(self, x, h):
        x_of_each = x.expand(h.size(0), -1)
        a = torch.softmax(self.score(torch.cat([x_of_each, h], -1)), dim=0)
        return self.gru(x, (a * h).sum(0))


class Transformer(nn.Module):
    """A block of attention of the node over its children."""

    def __init__(self, heads=2):
        super().__init__()
        self.query = nn.Linear(I, H)
        self.attention = nn.MultiheadAttention(H, heads, batch_first=True)
        self.first, self.second = nn.LayerNorm(H), nn.LayerNorm(H)
        self.feed = nn.Sequential(nn.Linear(H, 8), nn.GELU(), nn.Linear(8, H))

    def forward(self, x, h):
        q, h = self.query(x)[None, None], h[None]
        y = self.first(q + self.attention(q, h, h, need_weights=False)[0])
        return self.second(y + self.feed(y))[0, 0]


class Graph(nn.Module):
    """Graph attention with two heads."""

    def __init__(self):
        super().__init__()
        self.values, self.out = nn.Linear(H, 6), nn.Linear(6, H)
        self.score = nn.Parameter(numbers(3, 2, 3))

    def forward(self, x, h):
        v = self.values(h).view(-1, 2, 3)
        a = torch.softmax(F.leaky_relu((v * self.score).sum(-1), 0.2), dim=0)
        return self.out((a[..., None] * v).sum(0).flatten())


def tree_build(cell):
    def build(b, tree, words):
        def wire(tree):
            return cell(b, words[tree[0]], [wire(child) for child in tree[1]])

        b.emit(wire(tree))

    return build


def traced_sum(net, module, word, state):
    """Traces a ChildSum, which takes the children's states in its own order."""
    forward = lambda m, x, s: m(x[None], s.c, s.h)
    return trace(net, "node", module, [word, many(state)], state, forward=forward)


@pytest.mark.smoke
def test_child_sum_over_trees():
    net, word, state = records(h=H, c=H)
    module = ChildSum()
    cell = traced_sum(net, module, word, state)
    assert (cell.cell.name, cell.each.name, cell.leaf.name) == ("node", "node.each", "node.leaf")
    layer = Layer(net, tree_build(cell), ("word",))

    def reference(tree, words):
        below = [reference(child, words) for child in tree[1]]
        h, c = (torch.cat([k[j] for k in below]) if below else torch.zeros(0, H) for j in (0, 1))
        return module(words[tree[0]][None], c, h)

    words = [numbers(i, n, I).requires_grad_() for i, n in enumerate(SIZES)]
    got = torch.cat(layer(TREES, words))
    want = torch.cat([torch.cat(reference(t, x), -1) for t, x in zip(TREES, words, strict=True)])
    close(got, want)
    close_gradients(got, want, [*module.parameters(), *words])


def test_binary_tree():
    net, word, state = records(h=H, c=H)
    module = Binary()
    node = trace(net, "node", module, [word, state, state], state)
    assert node.each is None and node.leaf is None
    layer = Layer(net, lambda b, _, x, s: b.emit(node(b, x[0], *s)), ("word", "state"))
    x, s = numbers(1, 1, I).requires_grad_(), numbers(2, 2, 2 * H).requires_grad_()
    (got,) = layer([None], [x], [s])
    left, right = (type("Fields", (), {"h": row[:H], "c": row[H:]}) for row in s)
    want = torch.cat(module(x[0], left, right))[None]
    close(got, want)
    close_gradients(got, want, [*module.parameters(), x, s])


def test_gru_over_a_dag():
    net, word, state = records()
    module = AttentiveGru()
    node = trace(net, "node", module, [word, many(state)], state)
    first = trace(net, "first", module, [word], state, forward=lambda m, x: m.gru(x))
    assert node.leaf is None and not any(name.startswith("first.") for name in net.parameters)
    edges = {2: [0, 1], 3: [2, 0], 4: [3]}

    def build(b, _, words):
        values = []
        for at in range(5):
            below = [values[k] for k in edges.get(at, [])]
            values.append(node(b, words[at], below) if below else first(b, words[at]))
        b.emit(*values)

    x = numbers(1, 5, I).requires_grad_()
    (got,) = Layer(net, build, ("word",))([None], [x])
    states = []
    for at in range(5):
        below = [states[k] for k in edges.get(at, [])]
        states.append(module(x[at], torch.stack(below)) if below else module.gru(x[at]))
    want = torch.stack(states)
    close(got, want)
    close_gradients(got, want, [*module.parameters(), x])


@pytest.mark.parametrize("module", [AttentiveGru, Transformer, Graph])
def test_attention_over_children(module):
    compare(module(), "wm")


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": H, "vdim": H}])
@pytest.mark.parametrize("weights", [False, True])
def test_multi_head_attention(options, weights):
    module = Fn(
        lambda m, x, h: m.a(m.q(x)[None], h, h, need_weights=weights)[0][0],
        a=nn.MultiheadAttention(H, 2, **options),
        q=nn.Linear(I, H),
    )
    compare(module, "wm")
    compare(module.requires_grad_(False).eval(), "wm")  # PyTorch has a fast path for this.


def test_perceptrons():
    compare(
        nn.Sequential(nn.Linear(H, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, H), nn.GELU()), "s"
    )
    join = nn.Sequential(
        nn.Linear(2 * H, 6), nn.SiLU(), nn.Dropout(0.1), nn.Linear(6, H), nn.Tanh()
    )
    compare(Fn(lambda m, a, b: m.join(torch.cat([a, b], -1)), join=join), "ss")


@pytest.mark.parametrize(
    "module",
    [nn.GRUCell(I, H), nn.GRUCell(I, H, bias=False), nn.RNNCell(I, H, nonlinearity="relu")],
)
@pytest.mark.parametrize("batched", [False, True])
def test_recurrent_cells(module, batched):
    compare(module, "ws", batched=batched)


def test_lstm_cell():
    module = Fn(lambda m, x, h: torch.cat(m.lstm(x, (h, h * 2)))[2:6], lstm=nn.LSTMCell(I, H))
    compare(module, "ws")


def test_encoder_and_decoder_layers():
    module = Fn(
        lambda m, x, h: m.decoder(m.encoder(m.query(x)[None]), h)[0],
        encoder=nn.TransformerEncoderLayer(H, 2, 8, dropout=0.0),
        decoder=nn.TransformerDecoderLayer(H, 2, 8, dropout=0.0),
        query=nn.Linear(I, H),
    )
    compare(module, "wm")


def test_rows_of_tables():
    net, _, state = records()
    module = Fn(
        lambda m, i, h: m.bias(i) + m.matrix(i).view(H, H) @ h.sum(0) + m.bias.weight.mean(0),
        bias=nn.Embedding(10, H),
        matrix=nn.Embedding(6, H * H),
    )
    node = trace(
        net, "node", module, [row, many(state)], state, forward=lambda m, word, s: m(word, s)
    )
    assert node.cell.tables == ["word", "word"]
    gate = Fn(lambda m, h, i: (h * torch.sigmoid(m.gate(i))).sum(0), gate=nn.Embedding(7, H))
    gated = trace(net, "gated", gate, [many(state), row], state)
    assert gated.each.tables == ["arguments1"] and gated.cell.tables == []

    def build(b, index, states):
        b.emit(node(b, index, states), gated(b, states, index))

    s = numbers(1, 3, H).requires_grad_()
    (got,) = Layer(net, build, ("state",))([5], [s])
    index = torch.tensor(5)
    want = torch.stack([module(index, s), gate(s, index)])
    close(got, want)
    close_gradients(got, want, [*module.parameters(), *gate.parameters(), s])


def test_batched_rows_and_children():
    net, _, state = records()
    module = Fn(
        lambda m, i, h: m.e(i) + (m.k(h) * m.e(i)[:, None]).sum(1),
        e=nn.Embedding(9, H),
        k=nn.Linear(H, H),
    )
    node = trace(net, "node", module, [row, many(state)], state, batched=True)
    layer = Layer(net, lambda b, i, s: b.emit(node(b, i, s)), ("state",))
    s = numbers(1, 3, H).requires_grad_()
    (got,) = layer([4], [s])
    want = module(torch.tensor([4]), s[None])
    close(got, want)
    close_gradients(got, want, [*module.parameters(), s])


def test_matrices_in_records():
    net = ed.Network()
    state = net.record("state", v=H, m=(H, H))
    module = Fn(lambda m, s: (torch.tanh(s.m @ s.v), m.w @ s.m), w=numbers(1, H, H))
    node = trace(net, "node", module, [state], state)
    layer = Layer(net, lambda b, _, s: b.emit(node(b, *s)), ("state",))
    s = numbers(2, 1, H + H * H)
    (got,) = layer([None], [s])
    fields = type("Fields", (), {"v": s[0, :H], "m": s[0, H:].view(H, H)})
    close(got[0], torch.cat([y.flatten() for y in module(fields)]))


def test_ports_are_named_after_arguments():
    net, word, state = records()
    node = trace(net, "node", AttentiveGru(), [word, many(state)], state)
    assert list(node.cell.ports.items()) == [("x", "one"), ("h", "many")]
    assert list(node.each.ports.items()) == [("x", "one"), ("h", "one")]
    turned = Fn(lambda m, below, x: (below * m.k(x)).sum(0), k=nn.Linear(I, H))
    by_forward = trace(
        net,
        "turned",
        turned,
        [many(state), word],
        state,
        forward=lambda m, below, token: m(below, token),
    )
    assert list(by_forward.each.ports) == ["token", "below"]
    assert list(by_forward.cell.ports) == ["below"]  # The word is read for each child alone.


def test_no_cell_without_children_if_the_module_fails_without_them():
    def total(m, x, h):
        assert len(h) > 0
        return h.sum(0) * m.k(x)

    cell, _ = compare(Fn(total, k=nn.Linear(I, H)), "wm")
    assert cell.leaf is None and "node.leaf" not in str(cell.cell)


def test_two_dropouts_have_masks_of_their_own():
    net, _, state = records()
    module = Fn(lambda m, s: m.drop(s) - m.drop(s), drop=nn.Dropout(0.5))
    node = trace(net, "node", module, [state], state)
    layer = Layer(net, lambda b, _, s: b.emit(node(b, *s)), ("state",))
    torch.manual_seed(1)
    assert any(bool(layer([None], [torch.ones(1, H)])[0].any()) for _ in range(8))
    assert not layer.eval()([None], [torch.ones(1, H)])[0].any()
    assert called(module, [torch.ones(H)]).abs().sum() == 0


def test_sizes_like_the_number_of_children_of_the_example():
    """The example has 53 children, or another prime if something has 53 elements."""
    net = ed.Network()
    word, state = net.record("word", x=59), net.record("state", h=53)
    module = Fn(lambda m, x, h: (m.k(x) * h).sum(0), k=nn.Linear(59, 53))
    trace(net, "node", module, [word, many(state)], state)
    joined = Fn(lambda m, x, h: m.k(torch.cat([x, x])[:61]) * h.sum(0), k=nn.Linear(61, 53))
    trace(net, "joined", joined, [word, many(state)], state)
    wide = Fn(lambda m, h: m.k(h.sum(0).repeat(2, 1).flatten()[:67]), k=nn.Linear(67, 53))
    trace(net, "wide", wide, [many(state)], state)
