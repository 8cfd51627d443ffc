"""The package's metadata and its page on PyPI, as far as they show without a wheel."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import edbatch
import pytest

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]

pytestmark = pytest.mark.smoke


def toml(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def project():
    return toml(PACKAGE / "pyproject.toml")["project"]


def test_links_of_the_page_are_absolute():
    """PyPI knows no other files of the repository."""
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(\s*([^)\s]+)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=\"([^\"]+)", page, re.M)
    targets = ["".join(target) for target in targets]
    assert targets and all(target.startswith("https://") for target in targets), targets


def test_licences_are_copies():
    assert project()["license-files"] == ["LICENSE-APACHE", "LICENSE-MIT"]
    for name in project()["license-files"]:
        assert (PACKAGE / name).read_bytes() == (ROOT / name).read_bytes()


def test_one_library_for_all_versions_of_python():
    (feature,) = toml(PACKAGE / "Cargo.toml")["dependencies"]["pyo3"]["features"]
    oldest = project()["requires-python"].removeprefix(">=")
    assert feature == "abi3-py" + oldest.replace(".", "")
    library = importlib.util.find_spec("edbatch._native").origin
    assert library.endswith((".abi3.so", ".pyd"))


def test_the_address_is_said_once():
    """The line `repository` of the workspace sets it for all crates, and for PyPI's page."""
    address = toml(ROOT / "Cargo.toml")["workspace"]["package"]["repository"]
    assert address == "" or address.startswith("https://")
    assert "urls" in project()["dynamic"] and "urls" not in project()
    assert toml(PACKAGE / "Cargo.toml")["package"]["repository"] == {"workspace": True}


def test_the_extra_has_the_oldest_pytorch_that_is_tested():
    checks = (ROOT / "xtask/src/ci/python.rs").read_text(encoding="utf-8")
    (oldest,) = re.findall(r'"torch==([^"]+)"', checks)
    assert project()["optional-dependencies"] == {"torch": [f"torch>={oldest}"]}


def test_version_is_the_workspace_s():
    assert edbatch.__version__ == toml(ROOT / "Cargo.toml")["workspace"]["package"]["version"]


def test_a_missing_pytorch_is_named():
    code = "import sys; sys.modules['torch'] = None; import edbatch.torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "edbatch.torch needs PyTorch: `pip install torch`" in run.stderr
