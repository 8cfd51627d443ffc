"""The recipe of Ray Train, with killed processes; skipped without Ray."""

import importlib.util
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DEPLOY = Path(__file__).parents[3] / "docs/deploy"
TIMEOUT = 300
EPOCHS, STEPS = 8, 3
START = re.compile(r"rank (\d): process (\d+) starts at epoch (\d+)")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("ray", "pyarrow", "pydantic"))),
        reason="ray[train] is not installed",
    ),
]


class Run:
    """A run of train_ray.py, with its output in a file."""

    def __init__(self, folder, temporary):
        self.storage, self.output = folder / "runs", folder / "output.txt"
        path = os.pathsep.join(filter(None, [str(DEPLOY / "torchrun"), *sys.path]))
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": path,
            "RAY_ADDRESS": "local",  # Not a cluster that this machine is part of.
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),  # Not one in the user's folder.
            "RAY_DEDUP_LOGS": "0",  # The lines of all workers.
            "RAY_TMPDIR": temporary,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        command = [sys.executable, str(DEPLOY / "ray-train/train_ray.py")]
        command += ["--storage", str(self.storage), "--epochs", str(EPOCHS)]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT
            )

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def starts(self):
        """Returns rank, process and first epoch of each worker that has started."""
        # Ray prints some lines twice.
        return {tuple(map(int, found)) for found in START.findall(self.text())}

    def recorded(self):
        """Returns Ray's list of checkpoints. An entry is added after its files are copied."""
        file = self.storage / "trees/checkpoint_manager_snapshot.json"
        return file.read_bytes() if file.exists() else b""

    def wait_for(self, reached):
        end = time.monotonic() + TIMEOUT
        while not reached():
            assert self.process.poll() is None and time.monotonic() < end, self.text()
            time.sleep(0.02)

    def wait_for_a_checkpoint(self, workers):
        """Waits until this number of workers have started, and until the next checkpoint."""
        self.wait_for(lambda: len(self.starts()) == workers)
        before = self.recorded()
        self.wait_for(lambda: self.recorded() != before)

    def result(self):
        """Waits for the end, and returns the last checkpoint and the printed losses."""
        assert self.process.wait(TIMEOUT) == 0, self.text()
        (folder,) = re.findall(r"^checkpoint: (.*)$", self.text(), re.MULTILINE)
        losses = re.findall(r"^step \d+: loss (\S+)$", self.text(), re.MULTILINE)
        return torch.load(Path(folder, "state.pt")), losses


@contextmanager
def recipe(folder):
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        run = Run(folder, short)
        try:
            yield run
        finally:
            run.process.terminate()
            run.process.wait(TIMEOUT)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with recipe(tmp_path_factory.mktemp("undisturbed")) as run:
        state, losses = run.result()
        assert sorted((rank, epoch) for rank, _, epoch in run.starts()) == [(0, 0), (1, 0)]
    assert state["epoch"] == EPOCHS - 1 and len(state["losses"]) == EPOCHS * STEPS == len(losses)
    assert state["losses"][-1] < state["losses"][0]
    return state, losses


def equal(result, undisturbed):
    """Checks that losses, weights and the optimizer's moments have the same bits."""
    (state, losses), (expected, of_expected) = result, undisturbed
    assert losses == of_expected
    assert state["epoch"] == expected["epoch"] and state["losses"] == expected["losses"]
    moments = [each["optimizer"]["state"] for each in (state, expected)]
    assert len(moments[0]) == len(state["model"]) == len(moments[1])
    pairs = [(mine, moments[1][index]) for index, mine in moments[0].items()]
    for mine, theirs in [(state["model"], expected["model"]), *pairs]:
        assert mine.keys() == theirs.keys()
        for name, tensor in mine.items():
            assert torch.equal(tensor, theirs[name]), name


def test_killed_workers_continue_from_the_last_checkpoint(tmp_path, undisturbed):
    with recipe(tmp_path) as run:
        starts, epochs = set(), [0]
        for killed in (1, 0):
            run.wait_for_a_checkpoint(len(starts) + 2)
            (process,) = [each for rank, each, _ in run.starts() - starts if rank == killed]
            starts = run.starts()
            os.kill(process, signal.SIGKILL)
            run.wait_for(lambda: len(run.starts()) == len(starts) + 2)
            again = run.starts() - starts
            assert sorted(rank for rank, _, _ in again) == [0, 1]
            (epoch,) = {epoch for _, _, epoch in again}
            epochs.append(epoch)
        result = run.result()
    assert epochs == sorted(set(epochs)) and epochs[-1] < EPOCHS, epochs
    equal(result, undisturbed)


def test_a_run_whose_driver_is_killed_continues(tmp_path, undisturbed):
    with recipe(tmp_path) as run:
        run.wait_for_a_checkpoint(2)
        run.process.kill()
    with recipe(tmp_path) as run:
        result = run.result()
        (epoch,) = {epoch for _, _, epoch in run.starts()}
    assert 0 < epoch < EPOCHS
    equal(result, undisturbed)
