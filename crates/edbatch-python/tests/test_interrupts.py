"""Ctrl-C in the middle of a trainer's step, and errors for values that are not finite."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import edbatch as ed


@pytest.fixture
def ctrl_c():
    """Python's handler of Ctrl-C: a program that a shell runs in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def chains(threads):
    """A trainer, a chain of 300 calls, and its targets."""
    net = ed.Network()
    state = net.record("s", h=2)

    @net.cell(state)
    def leaf(c):
        return c.lookup("word", "embed", (3, 2))

    @net.cell(state)
    def node(c):
        h = c.one("p", state).h
        for _ in range(4):
            h = (c.parameter("w", (2, 2)) @ h + h).tanh()
        return h

    calls = ed.CallList(net)
    last = calls.call(leaf, 1)
    for _ in range(299):
        last = calls.call(node, last)
    calls.emit(last)
    weights = ed.Weights({"embed": np.ones((3, 2)), "w": np.eye(2) / 2})
    return ed.Trainer(net, weights, threads=threads), calls


def lists_of(step, calls):
    """So many inputs that a step takes seconds."""
    count = 1
    while True:
        lists = [calls] * count
        start = time.monotonic()
        step(lists)
        took = time.monotonic() - start
        if took > 2:
            return lists
        count = max(count + 1, int(count * min(100, 3 / max(took, 1e-6))))


def interrupted(step):
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        step()
        timer.join()
        time.sleep(1)
    timer.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_step_which_changes_nothing(ctrl_c, threads):
    trainer, calls = chains(threads)
    lists = lists_of(lambda lists: trainer.accumulate(lists, [[0]] * len(lists)), calls)
    targets = [[0]] * len(lists)
    trainer.clear_gradients()
    before = trainer.state()
    # A step that goes on to its end updates the parameters before the signal is handled.
    interrupted(lambda: trainer.train(lists, targets))
    assert trainer.updates == 0 and trainer.state() == before
    interrupted(lambda: trainer.accumulate(lists, targets))
    assert all(not gradient.any() for gradient in trainer.gradients().values())
    interrupted(lambda: trainer.forward(lists))
    with pytest.raises(RuntimeError, match="call `forward` before"):
        trainer.backward([[np.ones(2)]] * len(lists))
    outputs = trainer.forward(lists)
    gradients = [[np.ones_like(row) for row in rows] for rows in outputs]
    interrupted(lambda: trainer.backward(gradients))
    assert all(not gradient.any() for gradient in trainer.gradients().values())
    # The next step has the bits that it would have had.
    other, own = chains(threads)
    trainer.train([calls] * 5, targets[:5])
    other.train([own] * 5, targets[:5])
    assert trainer.state() == other.state()


def test_a_loss_that_is_not_finite_names_the_call_and_the_weight():
    trainer, calls = chains(1)
    trainer.set_parameters(ed.Weights({"embed": [[1, 1], [1, np.nan], [1, 1]], "w": np.eye(2)}))
    message = "the loss of input 0 is not finite: .*cell leaf, call 0 .*embed, which is NaN at"
    with pytest.raises(ValueError, match=message):
        trainer.train([calls], [[0]])
    with pytest.raises(ValueError, match="weight: expected a finite number, got NaN"):
        trainer.accumulate([calls], [[0]], np.nan)
