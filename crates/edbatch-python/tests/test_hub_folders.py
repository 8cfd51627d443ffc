"""Model folders as hubs keep them: links to blobs in a cache, and pointers of Git LFS."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import edbatch as ed
import numpy as np
import pytest
from networks import Trees

GOLDENS = Path(__file__).parents[2] / "edbatch/tests/goldens-small"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n"


def cached(folder, cache):
    """Moves a folder into a cache as Hugging Face's. Returns the snapshot: links to the blobs."""
    snapshot, blobs = cache / "models--us--model/snapshots/0f1e", cache / "models--us--model/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for file in folder.iterdir():
        name = hashlib.sha256(file.read_bytes()).hexdigest()
        file.rename(blobs / name)
        (snapshot / file.name).symlink_to(Path("../../blobs") / name)
    return snapshot


def command(*words):
    run = [sys.executable, "-m", "edbatch", *map(str, words)]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def pair(folder):
    """Writes a network with a call list, and returns its outputs."""
    trees = Trees()
    ed.save(folder, trees.net, trees.weights)
    calls = ed.CallList(trees.net)
    calls.emit(calls.call(trees.node, 3, [-1]))
    (folder / "calls.jsonl").write_text(calls.to_json() + "\n", encoding="utf-8")
    return calls, trees.engine().run([calls])[0]


@pytest.mark.smoke
def test_networks_load_from_links(tmp_path):
    calls, expected = pair(tmp_path / "model")
    snapshot = cached(tmp_path / "model", tmp_path)
    engine = ed.load(snapshot)
    lines = (snapshot / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    assert np.array_equal(engine.run(lines)[0], expected)
    assert ed.CallList.from_json(engine.network, lines[0]).to_json() == calls.to_json()
    assert command("infer", snapshot).returncode == 0


def test_models_of_the_zoo_load_from_links(tmp_path):
    shutil.copytree(GOLDENS / "tree_lstm", tmp_path / "model")
    snapshot = cached(tmp_path / "model", tmp_path)
    there, linked = command("infer", GOLDENS / "tree_lstm"), command("infer", snapshot)
    assert linked.stdout == there.stdout != ""
    ed.load(snapshot)


def test_training_leaves_blobs_as_they_are(tmp_path):
    shutil.copytree(GOLDENS / "tree_lstm", tmp_path / "model")
    snapshot = cached(tmp_path / "model", tmp_path)
    trees = snapshot / "trees.txt"
    options = ["--epochs", 1, "--metric", "accuracy"]
    trained = command("train", snapshot, "--input", trees, "--valid", trees, *options)
    assert trained.returncode == 0, trained.stderr
    for blob in (snapshot / "../../blobs").resolve().iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


def test_layers_load_from_links(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from edbatch.torch import Layer

    calls, expected = pair(tmp_path / "model")
    layer = Layer.from_pretrained(cached(tmp_path / "model", tmp_path))
    with torch.no_grad():
        np.testing.assert_allclose(layer([calls])[0].numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "weights.safetensors"])
def test_pointers_in_models_of_the_zoo_say_what_to_do(tmp_path, name):
    shutil.copytree(GOLDENS / "tree_lstm", tmp_path / "model")
    check_pointer(tmp_path / "model", name)


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["network.json", "weights.safetensors"])
def test_pointers_in_networks_say_what_to_do(tmp_path, name):
    pair(tmp_path / "model")
    check_pointer(tmp_path / "model", name)
    if name == "network.json":
        with pytest.raises(ed.FileError, match="Git LFS: run `git lfs pull`"):
            ed.Network.load(tmp_path / "model" / name)


def check_pointer(folder, name):
    (folder / name).write_text(POINTER.format("0" * 64), encoding="utf-8")
    with pytest.raises((ed.FileError, ed.WeightsError), match="Git LFS: run `git lfs pull`") as got:
        ed.load(folder)
    assert name in str(got.value)
    failed = command("infer", folder)
    assert failed.returncode == 1 and str(got.value) in failed.stderr
