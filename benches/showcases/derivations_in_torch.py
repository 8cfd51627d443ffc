"""Replays a derivation in PyTorch, beside the example `derivations` of the crate edbatch.

    cargo build --release -p edbatch --example derivations
    python benches/showcases/derivations_in_torch.py [--waves 64 256] [FILE]

A wave is some clauses that are scored before the next ones are derived. PyTorch computes a wave
level by level: clauses of a level read earlier waves and earlier levels. All indices are made
before the clock starts; what a session does to find them is within its time. The scores are
compared first, then laps of both alternate, on one thread each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples"
BUNDLED = ROOT / "crates/edbatch/examples/derivations/family.tsv"


def read(path):
    """The rules, four numbers and parents of clauses. Rules are numbered as they first appear."""
    rules, names, numbers, parents = [], {}, [], []
    for line in Path(path).read_text().splitlines():
        rule, earlier, four = line.split("\t")[:3]
        rules.append(names.setdefault(rule, len(names)))
        numbers.append([float(number) for number in four.split()])
        parents.append([int(number) for number in earlier.split(",") if number])
    return rules, torch.tensor(numbers) / 10, parents


def tensors(folder):
    """The tensors of a folder that the Rust program writes; see `network.json` there."""
    data = (Path(folder) / "weights.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:end]).items():
        if name != "__metadata__":
            begin, stop = (end + offset for offset in entry["data_offsets"])
            array = np.frombuffer(data[begin:stop], "<f4").reshape(entry["shape"])
            found[name] = torch.tensor(array)
    return found


class Weights:
    def __init__(self, folder):
        found = tensors(folder)
        self.rules, self.none = found["rules"], found["none"]
        self.w, self.u = found["w"].T.contiguous(), found["u"].T.contiguous()
        # Both products as one: [sum, max] by this matrix.
        self.parents = torch.cat([self.w, self.u])
        self.numbers, self.out = found["v"].T.contiguous(), found["out"].T.contiguous()


class Replay:
    """The indices of all waves and levels, and one tensor for the states of all clauses.

    Clauses of a wave are ordered by level, so that a level is a slice. The last two rows are the
    initial value, which is the parent of clauses without parents, and zeros.
    """

    def __init__(self, derivation, wave, weights):
        rules, numbers, parents = derivation
        count, self.weights = len(rules), weights
        self.none, self.zero = count, count + 1
        self.row, self.waves = [0] * count, []
        for begin in range(0, count, wave):
            end = min(begin + wave, count)
            level = {}
            for clause in range(begin, end):
                level[clause] = 1 + max((level.get(p, -1) for p in parents[clause]), default=-1)
            order = sorted(level, key=level.get)
            for at, clause in enumerate(order, begin):
                self.row[clause] = at
            steps, at = [], begin
            for number in range(max(level.values()) + 1):
                of = [parents[clause] for clause in order if level[clause] == number]
                steps.append((at - begin, at - begin + len(of), *self.indices(of)))
                at += len(of)
            of_rules = torch.tensor([rules[clause] for clause in order])
            self.waves.append((begin, end, of_rules, numbers[order], steps))
        self.states = torch.zeros(count + 2, len(weights.none))
        self.states[self.none] = weights.none
        self.reads = torch.empty(wave, self.weights.parents.shape[0])
        self.scores = torch.empty(count, 1)

    def indices(self, of):
        """The rows of all first parents, then of all second ones, and those for the maximum.

        A clause of one parent adds zeros to it, and takes the maximum of it and itself.
        """
        if max(map(len, of)) > 2:
            sys.exit("expected clauses of at most two parents")
        rows = [[self.row[parent] for parent in parents] or [self.none] for parents in of]
        first = [parents[0] for parents in rows]
        second = [parents[1] if len(parents) == 2 else self.zero for parents in rows]
        other = [parents[-1] for parents in rows]
        both = torch.tensor(first + second)
        return both, None if other == second else torch.tensor(other)

    def plain(self):
        """A replay as a model's author writes it: the cell's equations, level by level."""
        weights, states = self.weights, self.states
        for begin, end, rules, numbers, steps in self.waves:
            for start, stop, both, other in steps:
                own = weights.rules.index_select(0, rules[start:stop])
                own = own + numbers[start:stop] @ weights.numbers
                first, second = states.index_select(0, both).chunk(2)
                sums = first + second
                if other is not None:
                    second = states.index_select(0, other)
                most = torch.maximum(first, second)
                h = torch.tanh(own + sums @ weights.w + most @ weights.u)
                states[begin + start : begin + stop] = h
            self.scores[begin:end] = states[begin:end] @ weights.out
        return self.scores

    def tuned(self):
        """A replay with few operations a level: one product, and results written in place."""
        weights, states, scores = self.weights, self.states, self.scores
        width = states.shape[1]
        for begin, end, rules, numbers, steps in self.waves:
            own = torch.addmm(weights.rules.index_select(0, rules), numbers, weights.numbers)
            wave = states[begin:end]
            for start, stop, both, other in steps:
                first, second = states.index_select(0, both).view(2, stop - start, width)
                reads = self.reads[: stop - start]
                torch.add(first, second, out=reads[:, :width])
                second = second if other is None else states.index_select(0, other)
                torch.maximum(first, second, out=reads[:, width:])
                level = torch.addmm(own[start:stop], reads, weights.parents)
                torch.tanh(level, out=wave[start:stop])
            # The prover reads the scores of a wave before it derives the next one.
            torch.mm(wave, weights.out, out=scores[begin:end])
        return scores

    def in_order(self, run):
        return run()[:, 0][torch.tensor(self.row)].clone()


def difference(folder, replay):
    """The largest difference of a score to those that the Rust program wrote to the folder."""
    ours = torch.from_numpy(np.fromfile(Path(folder) / "scores.f32", "<f4"))
    theirs = [replay.in_order(run) for run in (replay.plain, replay.tuned)]
    return max((ours - scores).abs().max().item() for scores in theirs)


class Session:
    """A Rust program, which measures a lap for each line that it reads."""

    def __init__(self, program, *arguments):
        command = [program, "--laps", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "ready\n":
            sys.exit("the Rust program did not start")

    def lap(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def seconds(run):
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def measure(options, derivation, width, wave):
    with tempfile.TemporaryDirectory() as folder:
        session = Session(options.program, folder, width, wave, options.file)
        replay = Replay(derivation, wave, Weights(folder))
        differs = difference(folder, replay)
        laps = [
            (seconds(replay.plain), seconds(replay.tuned), session.lap())
            for _ in range(options.laps + 1)
        ]
        session.end()
    to_micro = 1e6 / len(derivation[0])
    plain, tuned, ours = (statistics.median(lap) * to_micro for lap in zip(*laps[1:], strict=True))
    levels = sum(len(steps) for *_, steps in replay.waves) / len(replay.waves)
    print(
        f"| {width} | {wave} | {levels:.1f} | {plain:.2f} | {tuned:.2f} | {ours:.2f} "
        f"| {plain / ours:.1f}, {tuned / ours:.1f} | {differs:.0e} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    file = os.environ.get("EDBATCH_DERIVATIONS", str(BUNDLED))
    parser.add_argument("file", nargs="?", default=file, help="as derive.py writes it")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--waves", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--laps", type=int, default=15)
    parser.add_argument("--program", default=str(EXAMPLES / "derivations"))
    parser.add_argument("--difference", help="only compare with the scores of this folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    derivation = read(options.file)
    with torch.inference_mode():
        if options.difference:
            wave, weights = options.waves[0], Weights(options.difference)
            print(difference(options.difference, Replay(derivation, wave, weights)))
            return
        print(f"{len(derivation[0])} clauses, medians of {options.laps} laps, us a clause\n")
        print("| H | wave | levels a wave | plain | tuned | session | ratios | difference |")
        print("|---|---|---|---|---|---|---|---|")
        for width in options.widths:
            for wave in options.waves:
                measure(options, derivation, width, wave)


if __name__ == "__main__":
    main()
