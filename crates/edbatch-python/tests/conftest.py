"""Counts skipped tests for `cargo xtask ci`, in the file that EDBATCH_SKIPS names. Skips traced
modules with versions of PyTorch that cannot trace them."""

import importlib.metadata
import os

import pytest

TRACED = ("test_trace", "test_graphs_traced", "from-pytorch.md", "test_a_model_in_levels")


def pytest_collection_modifyitems(items):
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 6):
        for item in items:
            if any(name in item.nodeid for name in TRACED):
                item.add_marker(pytest.mark.skip(reason="traced modules need torch 2.6"))


def note_skip(report):
    file = os.environ.get("EDBATCH_SKIPS")
    if report.skipped and file:
        reason = report.longrepr[2].removeprefix("Skipped: ")
        with open(file, "a", encoding="utf-8") as skips:
            skips.write(f"python {report.nodeid}\t{reason}\n")


def pytest_runtest_logreport(report):
    note_skip(report)


def pytest_collectreport(report):
    note_skip(report)
