"""Checks the text of an exception, and the line that raised it."""

import contextlib
import linecache
import traceback

import pytest


@contextlib.contextmanager
def raises(kind, *texts):
    """Expects an exception whose last frame in a test file is a line with the mark `HERE`."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    frames = traceback.extract_tb(caught.value.__traceback__)
    last = [frame for frame in frames if "/tests/test_" in frame.filename][-1]
    line = linecache.getline(last.filename, last.lineno)
    assert "HERE" in line, f"raised at {line!r}"
