#!/usr/bin/env python3
"""Runs `edbatch infer` over the shards of a corpus, as tasks of a Ray cluster.

    python run_shards.py --shards 64 --output-dir /shared/out /shared/model /shared/corpus/*.gz

Requires only `pip install ray`. `edbatch`, the model, the inputs and the output folder must have the
same paths on all nodes. The output may also be an object store, such as s3://bucket/out, which
requires pyarrow. A task runs one shard on one core. Ray runs a task again if its worker or node is
lost, and nodes that join take waiting shards. Completed shards are skipped, so the same command
resumes after an interruption. Results do not depend on which node runs a shard, or how often. The
output of each shard is in OUTPUT_DIR/logs.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import ray


def die_with_parent():
    """Ends the command when the worker that started it is killed (Linux)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


# Tasks of lost workers and nodes run again, without a limit.
@ray.remote(max_retries=-1)
def run_shard(words, name, output_dir):
    """Runs one shard. Returns its exit code and the last line of its output."""
    if "://" not in output_dir:
        return run_in_folder(words, name, output_dir)
    with tempfile.TemporaryDirectory() as folder:
        copy(output_dir, folder, [f"{name}.jsonl", f"{name}.done"])
        code, said = run_in_folder(words, name, folder)
        # Copy the mark after the part. Objects appear when they are complete.
        copy(folder, output_dir, [f"{name}.jsonl", f"{name}.done", f"logs/{name}.log"])
    return code, said


def run_in_folder(words, name, folder):
    """Runs the command with this output folder, and appends its output to a log there."""
    logs = pathlib.Path(folder, "logs")
    logs.mkdir(parents=True, exist_ok=True)
    with open(logs / f"{name}.log", "a", encoding="utf-8") as log:
        log.write(f"started by process {os.getpid()} on {os.uname().nodename}\n")
        log.flush()
        done = subprocess.run(
            [*words, "--output-dir", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            preexec_fn=die_with_parent if sys.platform == "linux" else None,
        )
        log.write(done.stderr)
    last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return done.returncode, last[0]


def copy(source, target, names):
    """Copies the files that exist between a folder and an object store."""
    from pyarrow import fs  # Only for object stores.

    def resolve(place):
        return fs.FileSystem.from_uri(place) if "://" in place else (fs.LocalFileSystem(), place)

    (here, source), (there, target) = resolve(source), resolve(target)
    for name in names:
        file, copied = f"{source}/{name}", f"{target}/{name}"
        if here.get_file_info(file).is_file:
            fs.copy_files(file, copied, source_filesystem=here, destination_filesystem=there)


class Run:
    """Running shards, and the results of the others."""

    def __init__(self, options):
        self.options = options
        self.shard_of = {}
        self.attempts = [0] * options.shards
        self.done = 0
        self.failed = []

    def start(self, shard):
        """Starts the task of a shard."""
        options = self.options
        words = [options.edbatch, "infer", options.model]
        words += ["--input", *options.inputs] if options.inputs else []
        words += ["--shard", f"{shard}/{options.shards}"]
        words += ["--threads", str(options.cpus), "--on-error", "record", *options.infer]
        on_cores = run_shard.options(num_cpus=options.cpus)
        task = on_cores.remote(words, f"part-{shard:05}", options.output_dir)
        self.shard_of[task] = shard
        self.attempts[shard] += 1

    def take(self, task):
        """Handles the result of a task. A failed shard is retried a few times."""
        shard = self.shard_of.pop(task)
        try:
            code, said = ray.get(task)
        except ray.exceptions.RayError as error:
            code, said = 1, f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        if code == 0:
            self.done += 1
        # Do not retry after wrong usage.
        elif code != 2 and self.attempts[shard] < self.options.attempts:
            self.start(shard)
        else:
            self.failed.append(shard)
        nodes = sum(node["Alive"] for node in ray.nodes())
        progress = f"{self.done}/{self.options.shards} done, {len(self.failed)} failed"
        print(f"[{progress}, {nodes} nodes] {said}", flush=True)

    def finish(self):
        """Waits for all shards. Returns true if all are done."""
        while self.shard_of:
            ready, _ = ray.wait(list(self.shard_of), num_returns=1, timeout=60)
            if not ready:
                print(f"[{self.done}/{self.options.shards} done] {time.ctime()}", flush=True)
            for task in ready:
                self.take(task)
        for shard in sorted(self.failed):
            print(f"shard {shard} failed; see its log", file=sys.stderr)
        return not self.failed


def parse(arguments=None):
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("inputs", nargs="*", help="files of inputs, plain or .gz")
    parser.add_argument("--shards", type=int, required=True, help="number of shards")
    parser.add_argument("--output-dir", required=True, help="folder, or URI of an object store")
    parser.add_argument("--edbatch", default="edbatch", help="the command, on every node")
    parser.add_argument("--cpus", type=int, default=1, help="cores and threads per shard")
    parser.add_argument("--attempts", type=int, default=3, help="attempts per shard")
    parser.add_argument("--infer", action="append", default=[], help="an argument for infer")
    options = parser.parse_args(arguments)
    options.model = os.path.abspath(options.model)
    if "://" not in options.output_dir:
        options.output_dir = os.path.abspath(options.output_dir)
    options.inputs = [os.path.abspath(path) for path in options.inputs]
    return options


def main(arguments=None):
    """Runs all shards on the current cluster. Returns the exit code."""
    options = parse(arguments)
    if not ray.is_initialized():
        ray.init(address="auto")
    run = Run(options)
    for shard in range(options.shards):
        run.start(shard)
    return 0 if run.finish() else 1


if __name__ == "__main__":
    sys.exit(main())
