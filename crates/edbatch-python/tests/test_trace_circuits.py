"""The showcase of circuits: equal to the same model level by level in PyTorch."""

import copy
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "benches/showcases"))

import aiger  # noqa: E402
import circuits  # noqa: E402
import circuits_figure  # noqa: E402
import circuits_in_torch  # noqa: E402


@pytest.fixture(scope="module")
def models():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Small operations on several threads wait for each other.
    torch.manual_seed(1)
    model = circuits.DeepGate()
    with torch.no_grad():  # So that attention and shares differ from node to node.
        for module in (model.up.start.score, model.down.end.score, model.down.read):
            for parameter in module.parameters():
                parameter.mul_(5)
    yield model, circuits_in_torch.InTorch(model)
    torch.set_num_threads(threads)


def test_whole_circuit_has_the_shares_of_a_loop_over_levels(models):
    ours, theirs = models
    circuit = aiger.graph(aiger.generate(seed=2, inputs=20, ands=400, window=30))
    wired, batch = ours.wire(circuit), circuits_in_torch.Levels(circuit)
    with torch.inference_mode():
        expected = theirs(batch)
        torch.testing.assert_close(ours(wired), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(theirs(batch), expected, rtol=0, atol=1e-5)
    assert expected.std() > 1e-2, "the shares of nodes differ"


def test_gradients_are_those_of_a_loop_over_levels(models):
    ours, theirs = models
    ((circuit, labels),) = circuits.cones(3, 3, seed=3, limit=100)
    assert len(circuit.ptr) == 4 and len(labels) == len(circuit.kinds)
    loss = torch.nn.functional.mse_loss
    ours.zero_grad()
    theirs.zero_grad()
    loss(ours(ours.wire(circuit)), labels).backward()
    loss(theirs(circuits_in_torch.Levels(circuit)), labels).backward()
    modules = ours.up.start, ours.down.end, ours.down.read
    for mine, other in zip(modules, (theirs.up, theirs.down, theirs.read), strict=True):
        for (name, a), b in zip(mine.named_parameters(), other.parameters(), strict=True):
            assert b.grad.abs().max() > 0 or "score.bias" in name
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_training_learns_as_the_loop_over_levels_does(models, capsys):
    data = circuits.cones(4, 2, seed=4, limit=100)
    losses = circuits_in_torch.compare_training(*copy.deepcopy(models), data, epochs=3)
    assert len(losses) == 3 and losses[-1][0] < losses[0][0]
    for ours, theirs in losses:
        assert ours == pytest.approx(theirs, rel=1e-3)
    assert capsys.readouterr().out.count("\n| ") == 4 - 1


def test_forward_table(models, tmp_path, capsys):
    text = "aag 3 2 0 1 1\n2\n4\n7\n6 2 5\n"
    (tmp_path / "small.aag").write_text(text, encoding="ascii")
    circuits_in_torch.compare_forward(*models, circuits.paths(tmp_path), seconds=0)
    printed = capsys.readouterr().out
    assert re.search(r"\| small \| 5 \| 4 \| .* \| 3 \| \d\.\de[+-]\d+ \|", printed)
    ((name, width, _),) = circuits_figure.points(printed)
    assert (name, width) == ("small", 1.25)


@pytest.mark.parametrize("folder", [".", "missing"])
def test_a_folder_without_circuits_is_an_error(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        circuits.options("").parse_args(["--folder", str(tmp_path / folder)])
    assert "expected files *.aig or *.aag, got none" in capsys.readouterr().err


def test_without_a_folder_circuits_are_generated(monkeypatch):
    monkeypatch.delenv("EDBATCH_CIRCUITS", raising=False)
    folder = circuits.options("").parse_args([]).folder
    depths = [aiger.levels(len(c.kinds), c.edges).max() for _, c in circuits.files(folder)]
    assert depths == sorted(depths) and len(depths) == 3


def test_page_quotes_the_model_and_its_figure_is_of_its_table():
    page = (ROOT / "docs/showcases/circuits.md").read_text(encoding="utf-8")
    source = (ROOT / "benches/showcases/circuits.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python,showcase\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert block in source
    rows = list(circuits_figure.points(page))
    assert len(rows) == 20
    drawn = "\n".join(circuits_figure.draw(rows)) + "\n"
    assert (ROOT / "docs/showcases/circuits.svg").read_text(encoding="utf-8") == drawn
