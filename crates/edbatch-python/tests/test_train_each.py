"""Trainers that read mini-batches from an iterable."""

import pytest
from test_trainer import INPUTS, TARGETS, model

import edbatch as ed

BATCHES = [(INPUTS, TARGETS), (INPUTS[:1], TARGETS[:1]), (INPUTS[1:], TARGETS[1:])]


def of(device="cpu", threads=1):
    net, build, *_ = model(dropout=0.25)
    weights = ed.Weights.random(net, seed=1)
    try:
        return ed.Trainer(net, weights, build, device=device, threads=threads, seed=3)
    except ed.DeviceError as error:
        pytest.skip(f"no emulated device: {error}")


def after(updates):
    """The state after so many mini-batches of `train`, and their losses."""
    trainer = of()
    losses = [trainer.train(*BATCHES[update % 3]).loss for update in range(updates)]
    return trainer.state(), losses


KINDS = [("cpu", 1), ("cpu", 2), ("cuda-emulated", 1), ("cuda-emulated", 2)]


@pytest.mark.parametrize(("device", "threads"), KINDS)
def test_train_each_is_train_in_a_loop(device, threads):
    trainer, seen = of(device, threads), []
    reports = trainer.train_each(iter(BATCHES), seen.append)
    state, losses = after(3)
    assert trainer.state() == state
    assert [report.loss for report in reports] == [report.loss for report in seen] == losses
    assert trainer.train_each([]) == []


@pytest.mark.parametrize(("device", "threads"), KINDS)
def test_what_ends_train_each(device, threads):
    def endless():
        while True:
            yield from BATCHES

    trainer, count = of(device, threads), 0

    def twice(_):
        nonlocal count
        count += 1
        return count < 2

    # A device may have begun one more.
    reports = trainer.train_each(endless(), twice)
    assert len(reports) == (2 if device == "cpu" else 3)
    assert trainer.state() == after(len(reports))[0]

    def broken():
        yield from BATCHES[:2]
        raise KeyError("a source of mini-batches")

    trainer = of(device, threads)
    with pytest.raises(KeyError, match="a source of mini-batches"):
        trainer.train_each(broken())
    assert trainer.state() == after(2)[0]
    with pytest.raises(ValueError, match="targets") as raised:
        of(device, threads).train_each([*BATCHES, (INPUTS, TARGETS[:2])])
    assert "3" in str(raised.value)
    trainer = of(device, threads)
    with pytest.raises(TypeError) as raised:
        trainer.train_each([BATCHES[0], ([[1], 5], [[0], [0]])])
    assert raised.value.__notes__ == ["input 1 of 2"]
    assert trainer.state() == after(1)[0]
    with pytest.raises(ZeroDivisionError):
        of(device, threads).train_each(BATCHES, lambda report: 1 / 0)
    with pytest.raises(TypeError, match="iterable"):
        of(device, threads).train_each(3)
    with pytest.raises((TypeError, ValueError)):
        of(device, threads).train_each([3])
