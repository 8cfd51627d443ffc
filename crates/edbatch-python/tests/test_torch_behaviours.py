"""`edbatch.torch.Layer` under what PyTorch does with modules; skipped without it."""

import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoder", reason="torch is not installed")
from edbatch.torch import Layer  # noqa: E402
from encoder import (  # noqa: E402
    NAMES, NET, TREES, Model, Packed, close, layer, matrix, named, parts, reference, slot_lists,
    steps,
)

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def since(*version):
    return pytest.mark.skipif(VERSION < version, reason=f"needs torch {version[0]}.{version[1]}")


def compiled(model, batches, count=12, **options):
    """Trains a compiled model. Returns the losses, the frames and the numbers of breaks."""
    import torch._dynamo as dynamo
    from torch._dynamo.testing import CompileCounter

    dynamo.reset()
    dynamo.utils.counters.clear()
    counter = CompileCounter()
    run = torch.compile(model, backend=counter, **options)
    losses = []
    for inputs, x in batches:
        losses += steps(model, inputs, x, count, run)
    return losses, counter.frame_count, dict(dynamo.utils.counters["graph_break"])


class TestCompile:
    """Dynamo keeps out of the layer: one break, and its error tells why."""

    def test_packed_is_one_break(self):
        lists, x = slot_lists(), matrix(2, 3)
        losses, frames, breaks = compiled(Packed(), [(lists, x)])
        close(losses, steps(Packed(), lists, x, 12))
        assert frames == 2 and list(breaks.values()) == [1], (frames, breaks)

    def test_forward_is_one_break(self):
        losses, frames, breaks = compiled(ListModel(), [(slot_lists(), matrix(2, 3))])
        close(losses, steps(Model(), TREES, matrix(2, 3), 12))
        assert frames == 2 and list(breaks.values()) == [1], (frames, breaks)

    def test_other_numbers_of_rows_recompile_twice(self):
        sizes = [[0, 1, 2], [0, 2], [1, 2], [0, 1]]
        rows = {0: 5, 1: 1, 2: 3}
        batches = [
            (slot_lists(each), matrix(2, 3, sum(rows[index] for index in each))) for each in sizes
        ]
        model = Packed()
        losses, frames, _ = compiled(model, batches, 3)
        plain = Packed()
        close(losses, [loss for batch in batches for loss in steps(plain, *batch, 3)])
        assert frames <= 4, frames

    @since(2, 6)
    def test_a_whole_graph_is_an_error_with_the_reason(self):
        if VERSION < (2, 8):
            pytest.skip("torch.compiler.disable has no reason")
        with pytest.raises(Exception, match="edbatch.torch.Layer runs outside of the graph: "):
            compiled(Packed(), [(slot_lists(), matrix(2, 3))], fullgraph=True)

    @since(2, 9)
    def test_export_is_an_error_with_the_reason(self):
        with pytest.raises(Exception, match="edbatch.torch.Layer runs outside of the graph: "):
            torch.export.export(Fixed(), (matrix(2, 3),), strict=False)


class Fixed(Packed):
    """Takes rows alone, as torch.export takes no call lists."""

    def forward(self, x):
        return super().forward(slot_lists(), x)


class ListModel(Model):
    """Takes call lists, which are opaque for Dynamo."""

    def forward(self, lists, x):
        return self.out(torch.cat(self.enc(lists, parts(self.pre(x)))))


class TestAutocast:
    @pytest.mark.parametrize("kind", [Model, Packed])
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_a_linear_before_the_layer(self, kind, dtype):
        model, x = kind(), matrix(2, 3)
        inputs = TREES if kind is Model else slot_lists()
        exact = kind()(inputs, x)
        with torch.autocast("cpu", dtype=dtype):
            out = model(inputs, x)
        assert out.dtype == dtype
        out.float().square().sum().backward()
        for parameter in model.parameters():
            assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()
        close(out.float(), exact, 3e-2)

    def test_the_layer_first_has_the_same_bits(self):
        l, x = layer(), matrix()
        expected = l.packed(slot_lists(), x)[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(l.packed(slot_lists(), x)[0], expected)
            assert torch.equal(torch.cat(l(TREES, parts(x))), expected)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_rows_get_gradients_in_their_type(self, dtype):
        l, x = layer(), matrix().to(dtype).requires_grad_()
        rows = l.packed(slot_lists(), x)[0]
        assert rows.dtype == torch.float32
        (got,) = torch.autograd.grad(rows.sum(), x)
        (expected,) = torch.autograd.grad(reference(named(l), x.float()).sum(), x)
        assert got.dtype == dtype
        close(got, expected)

    def test_a_grad_scaler(self):
        scaler = torch.cuda.amp.GradScaler(enabled=False) if VERSION < (2, 3) else (
            torch.amp.GradScaler("cpu")
        )
        model = Packed()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler.scale(model(slot_lists(), matrix(2, 3)).square().sum()).backward()
        scaler.unscale_(optimizer)
        expected = Packed()
        expected(slot_lists(), matrix(2, 3)).square().sum().backward()
        for one, other in zip(model.parameters(), expected.parameters(), strict=True):
            close(one.grad, other.grad)
        scaler.step(optimizer)


class TestHooks:
    def test_full_backward_hooks_see_all_outputs(self):
        l, seen = layer(), []
        l.register_full_backward_hook(lambda m, inputs, outputs: seen.append(len(outputs)))
        l.register_full_backward_pre_hook(lambda m, outputs: seen.append(len(outputs)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            torch.cat(l(TREES, parts(matrix(grad=True)))).sum().backward()
        assert seen == [3, 3]

    def test_packed_goes_through_hooks(self):
        l, seen, x = layer(), [], matrix(grad=True)
        l.register_forward_pre_hook(lambda m, arguments: seen.append(len(arguments[0])))
        l.register_forward_hook(lambda m, _, outputs: seen.append([type(o) for o in outputs]))
        l.register_full_backward_hook(lambda m, inputs, outputs: seen.append(inputs[1].shape))
        l.packed(slot_lists(), x)[0].sum().backward()
        assert seen[:2] == [3, [torch.Tensor, torch.Tensor]] and x.grad is not None
        l.register_forward_hook(lambda m, _, outputs: (2 * outputs[0], outputs[1]))
        plain = layer()
        close(l.packed(slot_lists(), x)[0], 2 * plain.packed(slot_lists(), x)[0])

    def test_checkpoints_recompute(self):
        from torch.utils.checkpoint import checkpoint

        l, x = layer(), matrix(grad=True)
        (expected,) = torch.autograd.grad(l.packed(slot_lists(), x)[0].square().sum(), x)
        rows, _ = checkpoint(l.packed, slot_lists(), x, use_reentrant=False)
        rows.square().sum().backward()
        assert torch.equal(x.grad, expected)


class TestTransforms:
    def test_functional_call(self):
        model, x = Packed(), matrix(2, 3)
        p = {k: (2 * v).detach().requires_grad_() for k, v in model.named_parameters()}
        before = model(slot_lists(), x).detach()
        out = torch.func.functional_call(model, p, (slot_lists(), x))
        rows = reference({n: p["enc." + n] for n in NAMES}, x @ p["pre.weight"].T + p["pre.bias"])
        expected = rows @ p["out.weight"].T + p["out.bias"]
        close(out, expected)
        tensors = list(p.values())
        got = torch.autograd.grad(out.square().sum(), tensors)
        for one, other in zip(
            got, torch.autograd.grad(expected.square().sum(), tensors), strict=True
        ):
            close(one, other)
        with torch.no_grad():
            close(torch.func.functional_call(model, p, (slot_lists(), x)), expected)
            close(model(slot_lists(), x), before)

    @pytest.mark.parametrize("kind", ["grad", "vmap", "jacrev", "jvp"])
    def test_transforms_are_errors(self, kind):
        l = layer()

        def loss(x):
            return l.packed(slot_lists(), x)[0].sum()

        run = {
            "grad": lambda x: torch.func.grad(loss)(x),
            "vmap": lambda x: torch.func.vmap(loss)(x[None]),
            "jacrev": lambda x: torch.func.jacrev(loss)(x),
            "jvp": lambda x: torch.func.jvp(loss, (x,), (x,)),
        }
        with pytest.raises(RuntimeError) as raised:
            run[kind](matrix())
        text = "edbatch.torch.Layer: torch.func transforms (grad, vmap, jacrev, jvp) are not supported"
        assert str(raised.value).startswith(text) and "torch.autograd.grad" in str(raised.value)

    def test_second_derivatives_are_errors_and_never_silent(self):
        l, x = layer(), matrix(grad=True)
        tensors = [x, *named(l).values()]
        for rows in (l.packed(slot_lists(), x)[0], torch.cat(l(TREES, parts(x)))):
            got = torch.autograd.grad(rows.square().sum(), tensors, create_graph=True)
            roots = reference(named(l), x)
            expected = torch.autograd.grad(roots.square().sum(), tensors)
            for one, other in zip(got, expected, strict=True):
                close(one, other)
            for gradient in got:
                penalty = (gradient.norm() - 1) ** 2
                with pytest.raises(RuntimeError, match="double backward is not supported"):
                    (rows.square().sum() + penalty).backward(retain_graph=True)
        # A graph that is not used is no error.
        rows = l.packed(slot_lists(), x)[0]
        for tensor in tensors:
            tensor.grad = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rows.square().sum().backward(create_graph=True)
        close(x.grad, expected[0])


def in_threads(function, count=4):
    errors = []

    def run(index):
        try:
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


class TestThreads:
    def test_inference_in_threads_at_the_same_time(self):
        """Each thread is in its `build` while all others are."""
        barrier = threading.Barrier(4, timeout=60)

        def build(b, tree, words):
            if wait.is_set():
                barrier.wait()
            b.emit(b.call(NET.cells["node"], words[0], [-1]))

        wait, x = threading.Event(), matrix(rows=1)
        l, outputs = Layer(NET, build, ("word",)), {}
        with torch.no_grad():
            expected = l.packed([0], x, [0, 1])[0]
        wait.set()

        def run(index):
            with torch.no_grad():
                for _ in range(3):
                    outputs[index] = l.packed([0], x, [0, 1])[0]

        in_threads(run)
        assert all(torch.equal(rows, expected) for rows in outputs.values()) and len(outputs) == 4

    def test_parameters_that_change_between_threads(self):
        l, x = layer(), matrix()

        def run(index):
            with torch.no_grad():
                for _ in range(20):
                    rows = l.packed(slot_lists(), x)[0]
                    assert any(torch.equal(rows, each) for each in known)

        with torch.no_grad():
            known = []
            for factor in (1.0, 0.5):
                l.get_parameter("cell.w").mul_(factor)
                known.append(l.packed(slot_lists(), x)[0])
            l.get_parameter("cell.w").mul_(2.0)
        in_threads(run)
        with torch.no_grad():
            l.get_parameter("cell.w").mul_(0.5)
        in_threads(run)

    def test_training_in_threads_has_the_same_bits(self):
        model, gradients = Packed(), {}
        batches = [(slot_lists([index % 3]), matrix(index, 3, [5, 1, 3][index % 3])) for index in range(4)]

        def gradient(index):
            out = model(*batches[index]).square().sum()
            return torch.autograd.grad(out, list(model.parameters()))

        expected = [gradient(index) for index in range(4)]

        def run(index):
            for _ in range(5):
                gradients[index] = gradient(index)

        in_threads(run)
        for index, of_index in gradients.items():
            assert all(map(torch.equal, of_index, expected[index]))


def test_threads_of_the_layer_stand_beside_those_of_torch():
    x, lists = matrix(), slot_lists()
    one, two = layer(), layer(threads=2)
    for l in (one, two):
        l.packed(lists, x)[0].sum().backward()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        close(two.packed(lists, x)[0], one.packed(lists, x)[0])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        close(a.grad, b.grad)
