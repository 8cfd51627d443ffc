"""The Python code of the book and of the README runs, and prints what follows it."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.smoke
@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_blocks_run_in_order(page):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    has_torch = importlib.util.find_spec("torch") is not None
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
