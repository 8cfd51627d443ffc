"""Builds and checks the files for PyPI: one abi3 wheel, and the source distribution.

`cargo xtask ci --only distributions` runs all checks, in an environment with the packages of
`requirements.txt`. `distributions.py wheel` only builds the wheel and looks into it. Nothing is
uploaded.

The wheel is in `target/python/wheels`, the source distribution in `target/python/sdist`.
"""

import email.message
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "crates/edbatch-python"
OUT = ROOT / "target/python"
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")

# The maximum sizes of the wheel and of the source distribution in bytes.
MAX_WHEEL, MAX_SDIST = 12_000_000, 4_000_000

# The newest version of glibc that the wheel may need: that of manylinux_2_28.
MAX_GLIBC = (2, 28)

# An address for the test of the line `repository`. It belongs to nobody.
ADDRESS = "https://example.org/edbatch"

# Imports the package where only NumPy should be installed with it.
FRESH = """
import importlib.metadata as m, edbatch
others = {d.name for d in m.distributions()} - {'pip', 'setuptools', 'edbatch', 'numpy'}
assert not others, f'it installs {others}'
assert edbatch.__version__ == m.version('edbatch')
"""

# Prints the minor version of Python, and 1 for a free-threaded one.
VERSION = """
import sys, sysconfig
print(sys.version_info.minor, sysconfig.get_config_var('Py_GIL_DISABLED') or 0)
"""


def main(what: str) -> None:
    wheel = build_wheel()
    check_files(wheel, *read_wheel(wheel))
    if what == "wheel":
        return
    sdist = build_sdist()
    check_files(sdist, *read_sdist(sdist))
    run("-m", "twine", "check", "--strict", wheel, sdist)
    check_stable_abi(wheel)
    check_glibc(wheel)
    check_repository(sdist)
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    run("-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    runs_alone(wheel, sys.executable)
    others = newer_pythons()
    for python in others:
        runs_alone(wheel, python, tests=True)
    if not others:
        note_skip("there is no newer Python than the one that runs the tests")
    runs_alone(sdist, sys.executable)


def build_wheel() -> Path:
    """Builds the wheel. On Linux, zig links it with an old glibc, for most distributions."""
    shutil.rmtree(OUT / "wheels", ignore_errors=True)
    zig = ["--zig"] if sys.platform == "linux" else []
    build = ["build", "--release", "--locked", *zig, "--out", OUT / "wheels"]
    # maturin runs zig as a module of the first python3.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    run("-m", "maturin", *build, cwd=PACKAGE, PATH=path)
    return only(OUT / "wheels", "*.whl", MAX_WHEEL)


def build_sdist() -> Path:
    shutil.rmtree(OUT / "sdist", ignore_errors=True)
    run("-m", "maturin", "sdist", "--out", OUT / "sdist", cwd=PACKAGE)
    return only(OUT / "sdist", "*.tar.gz", MAX_SDIST)


def only(folder: Path, pattern: str, limit: int) -> Path:
    """Returns the only such file in a folder, and checks its size."""
    (file,) = folder.glob(pattern)
    size = file.stat().st_size
    print(f"-- {file.name}: {size} bytes")
    expect(size <= limit, f"{file.name}: at most {limit} bytes are allowed")
    return file


def read_wheel(wheel: Path) -> tuple[email.message.Message, dict[str, bytes]]:
    """Returns the metadata and the licences. Checks the tags in the name."""
    _, version, python, abi, _ = wheel.stem.split("-")
    oldest = pyproject()["requires-python"].removeprefix(">=").replace(".", "")
    expect((python, abi) == (f"cp{oldest}", "abi3"), f"{wheel.name}: expected cp{oldest}-abi3")
    with zipfile.ZipFile(wheel) as files:
        folder = f"edbatch-{version}.dist-info"
        texts = {name: files.read(f"{folder}/licenses/{name}") for name in LICENCES}
        return email.message_from_bytes(files.read(f"{folder}/METADATA")), texts


def read_sdist(sdist: Path) -> tuple[email.message.Message, dict[str, bytes]]:
    """Returns the metadata and the licences. Checks that the versions of all crates are there."""
    with tarfile.open(sdist) as files:
        folder = sdist.name.removesuffix(".tar.gz")
        read = lambda name: files.extractfile(f"{folder}/{name}").read()
        lock = (ROOT / "Cargo.lock").read_bytes()
        expect(read("Cargo.lock") == lock, f"{sdist.name}: expected the workspace's Cargo.lock")
        texts = {name: read(name) for name in LICENCES}
        return email.message_from_bytes(read("PKG-INFO")), texts


def check_files(file: Path, metadata: email.message.Message, licences: dict[str, bytes]) -> None:
    """Checks the fields for PyPI's page, and the texts of the licences."""
    project = pyproject()
    expected = {
        "Name": ["edbatch"],
        "Version": [workspace()["version"]],
        "Summary": [project["description"]],
        "Author": [author["name"] for author in project["authors"]],
        "Keywords": [",".join(project["keywords"])],
        "Classifier": project["classifiers"],
        "License-Expression": [workspace()["license"]],
        "License-File": list(LICENCES),
        "Requires-Python": [project["requires-python"]],
        "Provides-Extra": ["torch"],
        "Project-URL": [f"Source Code, {workspace()['repository']}"],
    }
    for field, values in expected.items():
        values = [value.strip() for value in values]
        got = [value.strip() for value in metadata.get_all(field, [])]
        expect(got == values, f"{file.name}: {field}: expected {values}, got {got}")
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    page = metadata.get_payload(decode=True).decode()
    expect(page.strip() == readme.strip(), f"{file.name}: expected README.md as the description")
    for name, text in licences.items():
        expect(text == (ROOT / name).read_bytes(), f"{file.name}: {name} differs")


def check_stable_abi(wheel: Path) -> None:
    """Checks that the library uses no function of CPython outside the stable ABI of its tag."""
    run("-m", "abi3audit", "--strict", "--summary", wheel)


def check_glibc(wheel: Path) -> None:
    """Checks the oldest glibc with which the wheel's library links, as auditwheel finds it."""
    if sys.platform != "linux":
        return note_skip("wheels are checked for their glibc on Linux only")
    show = [sys.executable, "-m", "auditwheel", "show", wheel]
    text = " ".join(subprocess.run(show, check=True, capture_output=True, text=True).stdout.split())
    found = re.search(r'following platform tag: "(manylinux_(\d+)_(\d+)_\w+)"', text)
    expect(found is not None, f"{wheel.name}: expected a manylinux wheel, got: {text}")
    print(f"-- auditwheel: {found[1]}")
    for tag in [found[0], *re.findall(r"manylinux_\d+_\d+", wheel.name)]:
        major, minor = re.search(r"manylinux_(\d+)_(\d+)", tag).groups()
        expect((int(major), int(minor)) <= MAX_GLIBC, f"{tag}: at most {MAX_GLIBC} is allowed")


def check_repository(sdist: Path) -> None:
    """Checks that the line `repository` in the workspace's Cargo.toml sets the link of PyPI's page
    and the address of every published crate."""
    folder = OUT / "repository"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as files:
        files.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    manifest = unpacked / "Cargo.toml"
    text, count = re.subn(
        r'^repository = ".*"$', f'repository = "{ADDRESS}"', manifest.read_text("utf-8"), flags=re.M
    )
    expect(count == 1, "Cargo.toml: expected one line `repository`")
    manifest.write_text(text, "utf-8")
    info = ["pep517", "write-dist-info", "--metadata-directory", folder / "info"]
    run("-m", "maturin", *info, "--interpreter", sys.executable, cwd=unpacked)
    (written,) = folder.glob("info/*/METADATA")
    urls = email.message_from_bytes(written.read_bytes()).get_all("Project-URL")
    expect(urls == [f"Source Code, {ADDRESS}"], f"Project-URL: got {urls}")
    cargo = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    output = subprocess.run(cargo, cwd=unpacked, check=True, capture_output=True).stdout
    crates = [crate for crate in json.loads(output)["packages"] if crate["publish"] != []]
    for crate in crates:
        expect(crate["repository"] == ADDRESS, f"{crate['name']}: expected repository.workspace")
    names = ", ".join(crate["name"] for crate in crates)
    print(f"-- `repository` in Cargo.toml sets the link Source Code of PyPI's page, and of {names}")
    if not workspace()["repository"]:
        print("-- `repository` is empty: registries refuse that, so set it before uploading")
    shutil.rmtree(folder)


def newer_pythons() -> list[str]:
    """Returns the interpreters on this machine that are newer than this one and can load abi3."""
    names = [f"python3.{minor}" for minor in range(sys.version_info.minor + 1, 30)]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    paths = [shutil.which(name) for name in names]
    paths += sorted(str(path) for path in root.glob("versions/3.*/bin/python"))
    found: dict[int, str] = {}
    for path in filter(None, paths):
        answer = subprocess.run([path, "-c", VERSION], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            continue
        minor, is_free_threaded = map(int, answer.stdout.split())
        if minor > sys.version_info.minor and not is_free_threaded:
            found.setdefault(minor, path)
    return [found[minor] for minor in sorted(found)]


def runs_alone(file: Path, python: str, tests: bool = False) -> None:
    """Installs a file into a new environment, which gets NumPy as its only dependency, and runs the
    command and the example of the package's page there. With `tests`, also the smoke tests."""
    print(f"-- {file.name} with {python}")
    fresh, target = OUT / "fresh", OUT / "fresh-target"
    shutil.rmtree(fresh, ignore_errors=True)
    subprocess.run([python, "-m", "venv", fresh], check=True)
    own = str(fresh / "bin/python")
    pip = ["-m", "pip", "-q", "--disable-pip-version-check", "install"]
    # A source distribution is compiled, in a folder with a new name each time. The wheel is proof
    # that the release build works, so the fastest profile is enough here.
    env = {"CARGO_TARGET_DIR": str(target), "MATURIN_PEP517_ARGS": "--profile dev"}
    run(*pip, file, python=own, **env)
    shutil.rmtree(target, ignore_errors=True)
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    run("-c", FRESH, python=own, cwd=fresh)
    run("-c", re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], python=own, cwd=fresh)
    subprocess.run([fresh / "bin/edbatch", "--version"], check=True)
    if tests:
        run(*pip, "hypothesis", "pytest", python=own)
        run("-m", "pytest", "-q", "-m", "smoke", "-p", "no:cacheprovider", python=own, cwd=PACKAGE)


def run(*words: str | Path, python: str = sys.executable, cwd: Path = ROOT, **env: str) -> None:
    status = subprocess.run([python, *words], cwd=cwd, env=os.environ | env, check=False).returncode
    shown = " ".join(str(word) for word in words if "\n" not in str(word))
    expect(status == 0, f"`{python} {shown}` failed")


def expect(is_right: bool, message: str) -> None:
    if not is_right:
        sys.exit(message)


def note_skip(reason: str) -> None:
    print(f"-- skipped: {reason}")
    if file := os.environ.get("EDBATCH_SKIPS"):
        with open(file, "a", encoding="utf-8") as skips:
            skips.write(f"cargo xtask ci, distributions\t{reason}\n")


def pyproject() -> dict:
    return tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def workspace() -> dict:
    return tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments not in (["all"], ["wheel"]):
        sys.exit(f"expected all or wheel, got {arguments}")
    main(arguments[0])
