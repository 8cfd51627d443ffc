"""Replays three mini-batches in turn, in inference and in training, and compares them with eager
runs, without a CUDA device.

    python3 test_replayed.py

A captured graph reads tensors by address and keeps none of them alive. Here the operations are
recorded with weak references instead, so that a replay fails if an input was freed.
"""

import gc
import random
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import pytorch
import pytorch_training

HIDDEN = 8
CELLS = ["leaf", "node", "out"]


class Recorder(TorchDispatchMode):
    """Keeps the tensors that are made while it records, as a graph's pool does, and no other."""

    def __init__(self):
        super().__init__()
        self.calls, self.own = [], {}

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        results = function(*arguments, **(keywords or {}))
        hold = lambda value: self.own.get(id(value)) or self.reference(value)
        self.calls.append((function, tree_map(hold, (arguments, keywords or {})), results))
        for result in tree_flatten(results)[0]:
            if isinstance(result, torch.Tensor):
                self.own.setdefault(id(result), lambda result=result: result)
        return results

    @staticmethod
    def reference(value):
        return weakref.ref(value) if isinstance(value, torch.Tensor) else lambda: value

    @torch.no_grad()
    def replay(self):
        def alive(reference):
            value = reference()
            assert reference.__class__ is not weakref.ref or value is not None, "freed memory"
            return value

        for function, references, results in self.calls:
            arguments, keywords = tree_map(alive, references)
            again = function(*arguments, **keywords)
            for old, new in zip(tree_flatten(results)[0], tree_flatten(again)[0]):
                # Views and operations in place write the memory of `old` themselves.
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def record(work):
    recorder = Recorder()
    with recorder:
        results = work()
    return recorder, results


def random_weights():
    weights = {"embed.weight": torch.randn(20, HIDDEN), "out.weight": torch.randn(5, HIDDEN)}
    weights["out.bias"] = torch.randn(5)
    for gate in "iou":
        weights[f"leaf.w_{gate}"] = torch.randn(HIDDEN, HIDDEN)
    for gate in "iouf":
        weights[f"leaf.b_{gate}"] = torch.randn(HIDDEN)
        weights[f"node.b_{gate}"] = torch.randn(HIDDEN)
        for side in "lr":
            weights[f"node.u_{gate}_{side}"] = torch.randn(HIDDEN, HIDDEN)
    return weights


def prepared(model, leaves):
    """A chain of nodes over some leaves."""
    calls = [(0, [random.randrange(20)], []) for _ in range(leaves)]
    for leaf in range(1, leaves):
        calls.append((1, [], [0 if leaf == 1 else len(calls) - 1, leaf]))
    calls.append((2, [], [len(calls) - 1]))
    batch = {"calls": calls, "wanted": [len(calls) - 1]}
    return model.prepare(pytorch.Calls(CELLS, batch))


def infer():
    model = pytorch.TreeLstm(random_weights(), CELLS)
    mini_batches = [prepared(model, leaves) for leaves in (3, 5, 4)]
    expected = [pytorch.eager(model, mini_batch)() for mini_batch in mini_batches]
    replayed = []
    while mini_batches:
        replayed.append(pytorch.Replayed(model, mini_batches.pop(0), record))
    gc.collect()
    for _ in range(3):
        for run, results in zip(replayed, expected):
            # Overwrites memory that was freed.
            garbage = [torch.full((size,), 7, dtype=torch.int64) for size in range(1, 9)]
            run.results.zero_()
            assert torch.equal(run(), results)
            del garbage
    # Without the inputs, the recorder notices.
    run = pytorch.Replayed(model, prepared(model, 6), record)
    run.prepared = None
    gc.collect()
    try:
        run()
    except AssertionError as error:
        assert str(error) == "freed memory"
    else:
        raise SystemExit("reading freed memory was not noticed")


def train():
    """Each replay updates the weights, as sparse gradients do, and capturing changes none."""
    weights = random_weights()
    copy = {name: tensor.clone() for name, tensor in weights.items()}
    models = [pytorch_training.TreeLstm(of, CELLS) for of in (copy, weights)]
    (eager, _), (step, updated) = [
        pytorch_training.stepper(model, {"rate": 0.1}, with_sparse_gradients)
        for model, with_sparse_gradients in zip(models, (True, False))
    ]
    mini_batches = [(prepared(models[0], leaves), torch.tensor([leaves])) for leaves in (3, 4, 2)]
    captured = [
        pytorch_training.Captured(lambda own=own: step(*own, 1), updated, record)
        for own in mini_batches
    ]
    losses = []
    for _ in range(3):
        for own, replay in zip(mini_batches, captured):
            losses.append(replay().clone())
            torch.testing.assert_close(losses[-1], eager(*own, 1))
    assert sum(losses[6:]) < sum(losses[:3]), losses
    tables = [of["embed.weight"].detach() for of in (copy, weights)]
    torch.testing.assert_close(*tables, rtol=0, atol=1e-6)


def main():
    random.seed(1)
    torch.manual_seed(1)
    with torch.inference_mode():
        infer()
    train()
    print("three mini-batches replayed, in inference and in training")


if __name__ == "__main__":
    main()
