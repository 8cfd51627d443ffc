"""Parameters of `edbatch.torch.Layer` that change, are copied and are saved; skipped without it."""

import copy
import pickle

import pytest

import edbatch as ed

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("encoder", reason="torch is not installed")
import encoder  # noqa: E402
import edbatch.torch as module  # noqa: E402
from edbatch.torch import Layer  # noqa: E402
from torch import nn  # noqa: E402
from encoder import (  # noqa: E402
    H, NET, TREES, WORD, Equations, Packed, close, layer, matrix, named, reference, slot_lists,
    steps,
)


class TestChanges:
    def test_changes_through_data_are_seen_after_a_refresh(self):
        l, x = layer(), matrix()
        for see in (l.refresh, l.train, l.eval, lambda: nn.Sequential(l).train()):
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    l.packed(slot_lists(), x)
                    l.get_parameter("cell.w").data.mul_(1.5)
                    see()
                    close(l.packed(slot_lists(), x)[0], reference(named(l), x))

    @pytest.mark.parametrize("grad", [True, False])
    def test_parameters_that_cannot_be_read_are_never_replaced_by_old_ones(self, grad):
        l, x = layer(), matrix()
        owner, weights = l.get_submodule("cell"), l.get_parameter("cell.w")
        with torch.set_grad_enabled(grad):
            before = l.packed(slot_lists(), x)[0].detach()
            owner.w = nn.Parameter(torch.ones(weights.numel() + 1))
            for _ in range(2):
                with pytest.raises(ValueError, match="reshape"):
                    l.packed(slot_lists(), x)
            owner.w = weights
            close(l.packed(slot_lists(), x)[0], before)

    def test_averaged_models_and_assigned_states(self):
        model = Packed()
        average = torch.optim.swa_utils.AveragedModel(model)
        for _ in range(2):
            steps(model, slot_lists(), matrix(2, 3), 2)
            average.update_parameters(model)
        x = matrix(2, 3)
        equations = Equations()
        equations.load_state_dict(average.module.state_dict())
        close(average(slot_lists(), x), equations(TREES, x))
        state = {name: 2 * tensor for name, tensor in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
        equations.load_state_dict(state)
        close(model(slot_lists(), x), equations(TREES, x))

    def test_inference_mode(self):
        l, x = layer(), matrix()
        expected = l.packed(slot_lists(), x)[0]
        with torch.inference_mode():
            assert torch.equal(l.packed(slot_lists(), x)[0], expected)
            made = layer()
            assert torch.equal(made.packed(slot_lists(), x)[0], expected)
            made.get_parameter("cell.w").mul_(2)
            close(made.packed(slot_lists(), x)[0], reference(named(made), x))

    def test_types_and_devices_without_a_way(self):
        for change, text in [
            (lambda m: m.half(), "torch.float16 on cpu"),
            (lambda m: m.double(), "torch.float64 on cpu"),
            (lambda m: m.to("meta"), "torch.float32 on meta"),
        ]:
            with pytest.raises(TypeError, match=f"parameter none.h: expected .* got {text}"):
                change(layer()).packed(slot_lists(), matrix())
        with pytest.raises(TypeError, match="given: expected .* on meta"):
            layer().packed(slot_lists(), matrix().to("meta"))


class TestCopies:
    def test_copies_and_pickles_with_parametrizations(self):
        l, x = layer(), matrix()
        nn.utils.parametrizations.weight_norm(l.cell, "w")
        expected = l.packed(slot_lists(), x)[0]
        close(copy.deepcopy(l).packed(slot_lists(), x)[0], expected)

    def test_saved_layers(self, tmp_path):
        l, x = layer(emits="state"), matrix()
        nn.utils.parametrizations.weight_norm(l.cell, "w")
        with torch.no_grad():
            l.cell.parametrizations.w.original0.mul_(3)
        expected = l.packed(slot_lists(), x)[0]
        l.save_pretrained(tmp_path / "new" / "folder")
        engine = ed.load(tmp_path / "new" / "folder")
        assert engine.network == NET and l.network is NET
        calls = ed.CallList(NET)
        words = [calls.give(WORD, row) for row in x[:5]]
        calls.emit(calls.call(NET.cells["node"], words[0], [-1]))
        assert engine.run([calls])[0].shape == (1, H)
        again = Layer.from_pretrained(
            tmp_path / "new" / "folder", encoder.build, ("word",), emits="state", threads=2
        )
        close(again.packed(slot_lists(), x)[0], expected)
        assert again.packed([], x[:0])[0].shape == (0, H)
        with pytest.raises(TypeError, match="weights"):
            Layer.from_pretrained(tmp_path / "new" / "folder", weights=None)

    def test_old_pickles_load(self):
        """Pickles of version 0.3 name `edbatch.torch._Shared` with five arguments."""
        l = Layer(NET, None)
        state = {k: v for k, v in l.__dict__.items() if k not in ("_shared", "_runs", "_traced")}
        old = Old(state, (NET, None, ("word",), 3, {"threads": 1, "policy": None}))
        stored = pickle.dumps(old)
        assert b"edbatch.torch" in stored and b"edbatch.torch.layer" not in stored
        loaded = pickle.loads(stored)
        assert type(loaded) is module.Layer and loaded._runs.steps == 4
        for one, other in zip(loaded.parameters(), l.parameters(), strict=True):
            assert torch.equal(one, other)
        lists, x = slot_lists(), matrix()
        close(loaded.packed(lists, x)[0], reference(named(l), x))
        new = pickle.loads(pickle.dumps(l))
        assert pickle.dumps(l).count(b"edbatch.torch") and new.network is NET


class Old:
    """Pickles as a layer of version 0.3 did."""

    def __init__(self, state, shared):
        self.state, self.shared = state, shared

    def __reduce__(self):
        state = self.state | {"_shared": Reduced(module._Shared, self.shared), "_runs": Steps()}
        return copy_of, (module.Layer,), state


class Reduced:
    def __init__(self, kind, arguments):
        self.reduced = kind, arguments

    def __reduce__(self):
        return self.reduced


class Steps:
    def __reduce__(self):
        return copy_of, (module._Runs,), {"steps": 4}


def copy_of(kind):
    return kind.__new__(kind)


def test_a_loop_of_another_framework():
    """`training_step` and `configure_optimizers`, as Lightning calls them."""

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Packed()

        def training_step(self, batch, index):
            return self.model(*batch).square().sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    module, batches = Module(), [(slot_lists(), matrix(2, 3))] * 4
    optimizer, losses = module.configure_optimizers(), []
    for index, batch in enumerate(batches):
        module.train()
        loss = module.training_step(batch, index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == steps(Packed(), *batches[0])
