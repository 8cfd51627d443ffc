#!/usr/bin/env python3
"""Tests run_shards.py on a local Ray cluster that loses a worker and a node.

    python check_cluster.py --edbatch PATH --folder EMPTY_FOLDER --shards 64 MODEL INPUT...

The cluster is a head without cores and two nodes of one core. The test kills a worker that runs a
shard by SIGKILL, later removes a node that runs one, and adds another node. At the end all marks must
exist, there must be no partial file, and the SHA-256 of the lines must be that of one process.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import ray
from ray.cluster_utils import Cluster

import run_shards


def disturb(cluster, nodes, folder, shards):
    """Kills a worker, then removes a node and adds another, while shards run."""
    wait_for_marks(folder, shards // 8)
    worker = wait_for_worker(nodes[0])
    os.kill(worker, signal.SIGKILL)
    wait_for_marks(folder, shards // 3)
    # Without this, the workers of the removed node would keep running for a while.
    os.kill(wait_for_worker(nodes[1]), signal.SIGKILL)
    cluster.remove_node(nodes[1], allow_graceful=False)
    wait_for_marks(folder, shards // 2)
    cluster.add_node(num_cpus=1)
    return f"worker {worker} was killed, a node removed, a node added"


def wait_for_marks(folder, count):
    """Waits until `count` shards are done."""
    while len(list(folder.glob("part-*.done"))) < count:
        time.sleep(0.002)


def wait_for_worker(node):
    """Returns a process of the node that runs a shard."""
    while True:
        for worker in workers(node):
            return worker
        time.sleep(0.002)


def workers(node):
    """Returns the processes of a node that run a shard."""
    processes = dict(each_process())
    raylets = {info.process.pid for info in node.all_processes["raylet"]}
    runs = {parent for parent, title in processes.values() if b"\0--shard\0" in title}
    return [run for run in runs if processes.get(run, (None, b""))[0] in raylets]


def each_process():
    """Yields all processes: pid, parent pid and command line."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes()
            status = (folder / "status").read_text()
        except OSError:
            continue
        parent = next(line for line in status.splitlines() if line.startswith("PPid:"))
        yield int(folder.name), (int(parent.split()[1]), title)


def sha256_of(words):
    """Returns the hash and the number of lines of a command's standard output."""
    output = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
    return hashlib.sha256(output).hexdigest(), output.count(b"\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--edbatch", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--shards", type=int, default=64)
    options = parser.parse_args()
    folder = pathlib.Path(options.folder)

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    words = ["--shards", str(options.shards), "--output-dir", str(folder)]
    words += ["--edbatch", options.edbatch, options.model, *options.inputs]
    # Only the main thread can add nodes.
    with concurrent.futures.ThreadPoolExecutor() as others:
        run = others.submit(run_shards.main, words)
        deeds = disturb(cluster, nodes, folder, options.shards)
        code = run.result()
    ray.shutdown()
    cluster.shutdown()

    assert code == 0, "all shards are done"
    began = sum(
        log.read_text().count("started by process") for log in (folder / "logs").glob("part-*.log")
    )
    assert began > options.shards, "no shard was run again"
    check = subprocess.run(
        [options.edbatch, "shards", "check", str(folder)],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout
    marks = {path.name for path in folder.glob("part-*.done")}
    assert marks == {f"part-{shard:05}.done" for shard in range(options.shards)}, marks
    partial = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert not partial, partial
    one = sha256_of([options.edbatch, "infer", options.model, "--input", *options.inputs])
    cat = sha256_of([options.edbatch, "shards", "cat", str(folder)])
    assert one == cat, f"one process: {one}, shards: {cat}"
    print(check.strip())
    print(f"{deeds}; {began - options.shards} tasks were run again")
    print(f"SHA-256 of {cat[1]} lines, by one process and by shards: {cat[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
