"""The showcase DAGNN: its readers, and its cells beside the levels of PyTorch."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benches/showcases"))
import dagnn  # noqa: E402
import dagnn_compare  # noqa: E402
import dagnn_data  # noqa: E402
import dagnn_in_torch  # noqa: E402

SOURCE = """
def get_name(self, key):
    if key:
        return self.names[key]
    return get_name(self, 1)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Python files with functions of several names, and one that is no Python."""
    monkeypatch.delenv("EDBATCH_ARCHITECTURES", raising=False)
    for at in range(40):
        name = ("get_name", "setName", "HTTPError", "close")[at % 4]
        body = SOURCE.replace("get_name", name) + "    pass\n" * (at % 3)
        (tmp_path / f"{at:02}.py").write_text(body)
    (tmp_path / "broken.py").write_text("def f(:")
    return str(tmp_path)


def test_architectures_are_read(tmp_path):
    file = tmp_path / "lines"
    file.write_text("[[1],[4,0],[5,0,0],[0,1,1,1],[2,1,1,1,1],[3,0,0,0,0,1]], 0.7302\n")
    graphs = dagnn_data.read("architectures", str(file), 20)
    assert graphs.tokens.tolist() == [0, 3, 6, 7, 2, 4, 5, 1] and graphs.targets == [0.7302]
    jumps = [(0, 4), (1, 4), (2, 4), (0, 5), (1, 5), (2, 5), (3, 5), (4, 6)]
    path = [(vertex, vertex + 1) for vertex in range(7)]
    assert sorted(zip(*graphs.edges.tolist())) == sorted(path + jumps)
    file.write_text("[[1],[4,0]], 0.7\n")
    with pytest.raises(SystemExit, match="lines, line 1: expected six nodes"):
        dagnn_data.read("architectures", str(file), 20)
    with pytest.raises(SystemExit, match="No such file"):
        dagnn_data.read("architectures", str(tmp_path / "none"), 20)
    with pytest.raises(SystemExit, match="--limit: expected at least 20 graphs, got 10"):
        dagnn_data.read("architectures", None, 10)


def test_functions_are_read(folder):
    graphs = dagnn_data.read("functions", folder, 40)
    assert sorted(graphs.classes) == ["close", "get", "http", "set"]
    assert len(graphs.targets) == 40 and np.bincount(graphs.targets).tolist() == [10] * 4
    sources, targets = graphs.edges
    assert (sources < targets).all()
    assert (np.bincount(targets, minlength=len(graphs.tokens)) <= 2).all()
    with pytest.raises(SystemExit, match="expected at least 20 functions, found 0"):
        dagnn_data.read("functions", folder + "/none", 40)


def test_the_name_of_a_function_is_not_among_its_tokens():
    tokens, _ = dagnn_data.syntax(dagnn_data.ast.parse(SOURCE).body[0])
    assert not any("get_name" in token for token in tokens) and "Name self" in tokens
    tokens, edges = dagnn_data.syntax(dagnn_data.ast.parse("def f(a): return a").body[0])
    assert tokens == ["FunctionDef ", "arguments ", "arg a", "Return ", "Name a"]
    assert edges == [(0, 1), (1, 2), (0, 3), (3, 4), (2, 4)]


@pytest.mark.parametrize("task", ["architectures", "functions"])
def test_both_sides_train_alike(task, folder, capsys):
    path = ["--data", folder] if task == "functions" else []
    options = ["--task", task, "--limit", "40", "--epochs", "2", "--batch", "16", "--hidden", "8"]
    parser = dagnn.options("")
    parser.add_argument("--seeds", type=int)
    args = parser.parse_args([*options, *path, "--seeds", "1"])
    count, found, seconds = dagnn_compare.compare(args, sys.stdout)
    assert count == 36 and "largest difference" in capsys.readouterr().out
    for of in found.values():
        ours, theirs = of.values()
        assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    assert {len(laps) for of in seconds.values() for laps in of.values()} == {2}
    assert any("times" in row for row in dagnn_compare.table(task, count, found, seconds))


def test_several_ends_are_pooled():
    """Graphs with two sources and two sinks, where the levels differ from the order of nodes."""
    torch.manual_seed(1)
    edges = np.array([[2, 2, 0, 4, 5], [0, 1, 3, 6, 6]])
    graphs = dagnn_data.Graphs(np.arange(7), edges, np.array([0, 4, 7]), np.zeros(2), 7)
    model = dagnn.DAGNN(7, 3, 4)
    levels = dagnn_in_torch.Levels(model)(dagnn_in_torch.prepared(graphs, [1, 0]))
    torch.testing.assert_close(model(model.lists(graphs)[::-1]), levels, rtol=1e-5, atol=1e-5)


def test_the_page_quotes_the_program():
    page = (ROOT / "docs/showcases/dagnn.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = (ROOT / "benches/showcases/dagnn.py").read_text(encoding="utf-8")
    assert len(blocks) == 2 and all(block in program for block in blocks)
    assert program.count("\n") <= 150


def test_times_are_drawn(tmp_path):
    rows = dagnn_compare.table("graphs", 36, {}, {"inference": {"ED-Batch": [2], "PyTorch": [6]}})
    assert rows[-1] == "| graphs, inference, graphs/s | 18 | 6 | 3.0 times |"
    (tmp_path / "table.md").write_text("\n".join(rows))
    dagnn_compare.draw(tmp_path / "bars.svg", [tmp_path / "table.md"])
    drawn = (tmp_path / "bars.svg").read_text()
    assert 'width="310.0"' in drawn and 'width="103.3"' in drawn and "18 ED-Batch" in drawn
    page, figure = (ROOT / f"docs/showcases/dagnn.{kind}" for kind in ("md", "svg"))
    dagnn_compare.draw(tmp_path / "page.svg", [page])
    assert (tmp_path / "page.svg").read_text() == figure.read_text()
