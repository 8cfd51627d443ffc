"""Trainers under limits of the address space: MemoryError, and never the end of the interpreter."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
import edbatch as ed

net = ed.Network()
state = net.record("s", h=64)
zero = net.initial(state, h="zero")

@net.cell(state)
def step(c):
    x, h = c.lookup("word", "embed", (20000, 64)), c.one("p", state).h
    return (c.parameter("w", (64, 64)) @ h + c.parameter("u", (64, 64)) @ x + x).tanh()

def build(b, words):
    last = zero
    for word in words:
        last = b.call(step, word, last)
        b.emit(last)

random = np.random.default_rng(1)
inputs = [[int(word) for word in random.integers(0, 20000, 50)] for _ in range(60)]
targets = [[1] * 50] * 60
if sys.argv[2] == "many":
    one = ed.CallList(net)
    one.emit(one.call(step, 1, zero))
    inputs, targets = [one] * 200_000, [[1]] * 200_000
weights = ed.Weights.random(net, seed=1)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]) * 1_000_000,) * 2)
try:
    trainer = ed.Trainer(net, weights, build, threads=1)
    trainer.train(inputs, targets)
    trainer.accumulate(inputs, targets)
    trainer.gradients()
    trainer.backward(trainer.forward(inputs))
    trainer.set_state(trainer.state())
    trainer.set_parameters(trainer.parameters())
except MemoryError as error:
    print("MemoryError", error)
else:
    print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space need Linux")
@pytest.mark.parametrize(
    "inputs, ends", [("few", {"MemoryError", "done"}), ("many", {"MemoryError"})]
)
def test_a_trainer_raises_memory_error_where_memory_ends(inputs, ends):
    ended = set()
    for megabytes in [1, 4, 7, 10, 15, 20, 25, 30, 60, 100, 150, 200]:
        command = [sys.executable, "-c", PROGRAM, str(megabytes), inputs]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{megabytes} MB: {done.returncode}: {done.stderr}"
        ended.add(done.stdout.split()[0])
    assert ends <= ended
