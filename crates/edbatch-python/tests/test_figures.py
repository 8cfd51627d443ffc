"""The bars of the showcases' pages are drawn from the tables of these pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.smoke
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("prover", ["µs a clause", "0,1", "3", "4", "5"]),
        ("plans", ["µs a query", "0,1", "2", "3"]),
    ],
)
def test_bars_are_of_the_first_table(name, arguments):
    page = (ROOT / f"docs/showcases/{name}.md").read_text(encoding="utf-8")
    table = re.search(r"(?:^\|.*\n)+", page, re.MULTILINE)[0]
    draw = [sys.executable, "-X", "utf8", ROOT / "benches/showcases/bars.py", *arguments]
    drawn = subprocess.run(draw, input=table.encode(), check=True, capture_output=True).stdout
    assert (ROOT / f"docs/showcases/{name}.svg").read_bytes() == drawn
