"""The reader of circuits in `benches/showcases`, its generator and its labels."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "benches/showcases"))

import aiger  # noqa: E402

# out = not (a and not b)
TEXT = b"aag 3 2 0 1 1\n2\n4\n7\n6 2 5\ni0 a\nc\na comment\n"
BINARY = b"aig 3 2 0 1 1\n7\n\x01\x03i0 a\nc\na comment\n"


def binary_of(aig):
    """Writes the binary format."""
    text = "".join(f"{literal}\n" for literal in aig.outputs.tolist())
    inputs, ands = len(aig.inputs), len(aig.ands)
    data = bytearray(f"aig {inputs + ands} {inputs} 0 {len(aig.outputs)} {ands}\n{text}".encode())
    for left, *read in aig.ands.tolist():
        first, second = sorted(read, reverse=True)
        for number in (left - first, first - second):
            while number > 127:
                data.append(number & 127 | 128)
                number >>= 7
            data.append(number)
    return bytes(data)


def text_of(aig, reverse=False):
    """Writes the text format, whose gates may be in any order."""
    inputs, ands = len(aig.inputs), len(aig.ands)
    header = [[f"aag {inputs + ands} {inputs} 0 {len(aig.outputs)} {ands}"]]
    gates = aig.ands.tolist()[:: -1 if reverse else 1]
    lines = [*header, *aig.inputs[:, None].tolist(), *aig.outputs[:, None].tolist(), *gates]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines).encode()


def graph_of(data):
    return aiger.graph(aiger.parse(data))


@pytest.mark.smoke
@pytest.mark.parametrize("data", [TEXT, BINARY])
def test_small_file(data):
    kinds, edges, ptr = graph_of(data)
    # The inputs a and b, the gate, then the inverses of b and of the gate.
    assert kinds.tolist() == [aiger.INPUT, aiger.INPUT, aiger.AND, aiger.NOT, aiger.NOT]
    assert sorted(zip(*edges.tolist())) == [(0, 2), (1, 3), (2, 4), (3, 2)]
    assert ptr.tolist() == [0, 5]
    assert aiger.levels(5, edges).tolist() == [0, 0, 2, 1, 3]


def test_formats_give_the_same_graph():
    aig = aiger.generate(seed=3, inputs=200, ands=3_000, window=1_500)
    expected = aiger.graph(aig)
    for data in (binary_of(aig), text_of(aig)):
        kinds, edges, _ = graph_of(data)
        assert np.array_equal(kinds, expected.kinds)
        assert sorted(zip(*edges.tolist())) == sorted(zip(*expected.edges.tolist()))
    labels = [aiger.labels(each, patterns=64) for each in (expected, graph_of(text_of(aig, True)))]
    assert np.array_equal(np.sort(labels[0]), np.sort(labels[1]))


MALFORMED = [
    (b"", "header: expected aig or aag and M I L O A"),
    (b"aig 3 2 0 1\n", "header: expected aig or aag"),
    (b"aig 3 2 0 1 -1\n", "header: expected aig or aag"),
    (b"aig 4 2 1 1 1\n", "expected no latches, got 1: combinational circuits only"),
    (b"aig 3 2 0 1 1 1\n", r"expected outputs alone, got properties \[1\]"),
    (b"aig 4 2 0 1 1\n7\n\x01\x03", r"M is 4, but I \+ L \+ A is 3"),
    (b"aag 2 2 0 1 1\n", r"M is 2, but I \+ L \+ A is 3"),
    (b"aig 99999999999 99999999999 0 0 0\n", "at most 67108864 variables"),
    (BINARY[:16], "ands: expected 2 numbers, got 0: truncated"),
    (b"aig 3 2 0 2 1\n7\n", "expected 2 lines after the header, got 1: truncated"),
    (b"aig 4 2 0 1 2\n7\n\x01\x03\x81", "ands: expected 4 numbers, got 2: truncated"),
    (b"aig 3 2 0 1 1\n7\n\x01\x03\x02\x02", "symbols or a comment after 1 ANDs"),
    (b"aig 3 2 0 1 1\n7\n\x00\x03", "descending order"),
    (b"aig 3 2 0 1 1\n7\n\x01\x06", "descending order"),
    (b"aig 3 2 0 1 1\n7\n\x80\x80\x80\x80\x80\x01\x01", "at most 5 bytes"),
    (b"aig 3 2 0 1 1\n7\n\x01\x05", "an AND reads a constant"),
    (b"aig 3 2 0 1 1\n8\n\x01\x03", "literal 8 is read, but it is no input and no AND"),
    (b"aag 3 2 0 1 1\n2\n4\n7\n6 2\n", "line 5: expected 3 numbers"),
    (b"aag 3 2 0 1 1\n2\n4\nx\n6 2 5\n", "line 4: expected 1 numbers"),
    (b"aag 3 2 0 1 1\n2\n4\n7\n", "expected 4 lines after the header, got 3: truncated"),
    (b"aag 3 2 0 1 1\n2\n5\n7\n6 2 4\n", "expected even literals"),
    (b"aag 3 2 0 1 1\n2\n4\n7\n4 2 4\n", "literal 4 is defined twice"),
    (b"aag 9 2 0 1 1\n2\n4\n7\n6 2 12\n", "literal 12 is read"),
    (b"aag 0 0 0 1 0\n9\n", "literal 8 is read"),
]


@pytest.mark.parametrize(("data", "text"), MALFORMED)
def test_malformed_files_are_errors(data, text, tmp_path):
    path = tmp_path / "circuit.aig"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=text) as error:
        aiger.read(path)
    assert str(path) in str(error.value)


def test_truncated_and_changed_files_never_fail_otherwise():
    aig = aiger.generate(seed=4, inputs=6, ands=40, window=20)
    rng = np.random.default_rng(1)
    errors = 0
    for data in (binary_of(aig), text_of(aig)):
        cuts = [data[:end] for end in range(len(data))]
        for _ in range(300):
            changed = bytearray(data)
            changed[rng.integers(0, len(data))] = rng.integers(0, 256)
            cuts.append(bytes(changed))
        for cut in cuts:
            try:
                kinds, edges, _ = graph_of(cut)
                assert edges.size == 0 or edges.max() < len(kinds)
            except ValueError:
                errors += 1
    assert errors > 500


def test_cycle_is_an_error():
    circuit = graph_of(b"aag 3 1 0 1 2\n2\n4\n4 2 6\n6 2 4\n")
    with pytest.raises(ValueError, match="cycle"):
        aiger.labels(circuit)


def test_labels_are_shares_of_ones():
    circuit = graph_of(TEXT)
    share = aiger.labels(circuit, seed=1, patterns=16_384)
    np.testing.assert_allclose(share, [0.5, 0.5, 0.25, 0.5, 0.75], atol=0.02)
    assert share[2] + share[4] == 1 and share[1] + share[3] == 1
    assert np.array_equal(share, aiger.labels(circuit, seed=1))
    assert not np.array_equal(share, aiger.labels(circuit, seed=2))


def test_labels_are_those_of_a_plain_simulation():
    circuit = aiger.graph(aiger.generate(seed=5, inputs=5, ands=60, window=20))
    rng = np.random.default_rng(7)
    inputs = int((circuit.kinds == aiger.INPUT).sum())
    words = rng.integers(0, 2**64, (inputs, 2), np.uint64).tolist()
    below = [[] for _ in circuit.kinds]
    for source, target in circuit.edges.T.tolist():
        below[target].append(source)
    order = np.argsort(aiger.levels(len(below), circuit.edges), kind="stable").tolist()
    ones = np.zeros(len(circuit.kinds))
    for pattern in range(128):
        bits = [0] * len(below)
        for node in order:
            read = [bits[source] for source in below[node]]
            if circuit.kinds[node] == aiger.INPUT:
                bits[node] = words[node][pattern // 64] >> pattern % 64 & 1
            else:
                bits[node] = 1 - read[0] if circuit.kinds[node] == aiger.NOT else read[0] & read[1]
        ones += bits
    assert np.array_equal(ones / 128, aiger.labels(circuit, seed=7, patterns=128))


def test_cones_are_small_and_keep_their_gates():
    aig = aiger.generate(seed=6, ands=3_000)
    for root in (0, 5, 1_500, 2_999):
        kinds, edges, _ = aiger.cone(aig, root, limit=500)
        assert len(kinds) <= 500
        reads = np.bincount(edges[1], minlength=len(kinds))
        assert (reads == np.array([0, 2, 1])[kinds]).all()
        read = np.bincount(edges[0], minlength=len(kinds))
        assert (read == 0).sum() == 1, "only the root is not read"
