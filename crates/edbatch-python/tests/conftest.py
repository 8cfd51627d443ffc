"""Counts skipped tests for `cargo xtask ci`, in the file that EDBATCH_SKIPS names."""

import os


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
