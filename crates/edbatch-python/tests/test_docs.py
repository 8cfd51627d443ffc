"""The Python code of the book and of the README runs, and prints what follows it."""

import contextlib
import difflib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    "README.md", "crates/edbatch-python/README.md", "docs/python.md", "docs/from-pytorch.md",
    "docs/torch.md",
]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.smoke
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_order(page):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    has_torch = importlib.util.find_spec("torch") is not None
    if not has_torch and all("torch" in kind for kind, _ in blocks if "python" in kind):
        pytest.skip("torch is not installed")
    namespace, count = {}, 0
    for index, (kind, code) in enumerate(blocks):
        if kind != "python" and not (kind == "python,torch" and has_torch):
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page}, block {index}", "exec"), namespace)
        if printed.getvalue() and index + 1 < len(blocks) and blocks[index + 1][0] == "text":
            assert printed.getvalue() == blocks[index + 1][1]
    assert count > 0


def test_a_model_in_levels_differs_by_forty_lines():
    """The model before and the one after, on a page, give equal states and gradients."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    blocks = BLOCK.findall((ROOT / "docs/from-pytorch.md").read_text(encoding="utf-8"))
    before, after = [code for kind, code in blocks if kind == "python,torch"][:2]
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    assert len([line for line in lines if line[:2] not in ("--", "++", "@@")]) <= 40
    models, sides = [], []
    edges = torch.tensor([[1, 2, 3, 5, 6, 7, 8], [0, 0, 2, 4, 5, 5, 7]])
    for code in (before, after):
        namespace = {}
        exec(compile(code, "from-pytorch.md", "exec"), namespace)
        models.append(namespace["TreeLSTM"](3, 4))
        if len(models) == 2:
            models[1].layer.node.load_state_dict(models[0].state_dict())
        x = torch.ones(9, 3).cumsum(0).sin().requires_grad_()
        states = models[-1](x, edges)
        gradients = torch.autograd.grad(states.square().sum(), [x, *models[-1].parameters()])
        sides.append([states, *gradients])
    assert len(sides[0]) == len(sides[1]) == 10
    for ours, theirs in zip(*sides, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
