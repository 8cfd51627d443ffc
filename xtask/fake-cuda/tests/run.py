#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of the fake driver itself: small kernels, right ones and wrong ones.

    run.py FOLDER NVRTC [NAME…]

FOLDER is where build.sh has put the libraries; NVRTC the real libnvrtc.so.13. A right kernel must
give the right values without a finding, for several seeds; of a wrong one the finding must be made
for at least one of the seeds. With NAMEs, only the tests whose names begin so.
"""
import concurrent.futures
import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))
from kernels import HEAD, TESTS


def compile(nvrtc, source):
    folder = os.path.dirname(nvrtc)
    for name in os.listdir(folder):
        if re.match(r"libnvrtc-builtins\.so", name):
            ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
    library, program, size = ctypes.CDLL(nvrtc), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    options = [b"--gpu-architecture=compute_90", b"--fmad=false", b"-default-device"]
    result = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if result:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def one(folder, nvrtc, test, ptx_file):
    """In a process of its own: runs a test's kernels and compares what they give."""
    cu = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))

    def call(name, *args):
        code = getattr(cu, name)(*args)
        if code:
            print(name, "gives", code)
            sys.stdout.flush()
            sys.exit(3)

    context, stream, module = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    processors = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(processors), 16, 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    image = "//FAKE-CUBIN elf=1 registers=40\n" + open(ptx_file).read()
    modules = []
    for _ in range(test.get("modules", 1)):
        module = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image.encode()))
        modules.append(module)
    buffers = []
    for given in test["buffers"]:
        data = struct.pack("%d%s" % (len(given[1]), given[0]), *given[1])
        at = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(len(data)))
        call("cuMemcpyHtoDAsync_v2", at, data, ctypes.c_size_t(len(data)), stream)
        call("cuStreamSynchronize", stream)
        buffers.append((at, given[0], len(given[1]), len(data)))
    for n, launch in enumerate(test["launches"]):
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), modules[n % len(modules)], launch.get("name", "k").encode())
        shared = launch.get("shared", 0)
        if shared:
            call("cuFuncSetAttribute", function, 8, shared)
        values = [buffers[i][0] for i in range(len(buffers))] + [ctypes.c_uint32(x) for x in launch.get("numbers", [])]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        kind = "cuLaunchCooperativeKernel" if launch.get("cooperative") else "cuLaunchKernel"
        args = [function, launch.get("blocks", 1), 1, 1, launch["threads"], 1, 1, shared, stream, pointers]
        call(kind, *args, *([] if launch.get("cooperative") else [None]))
    call("cuStreamSynchronize", stream)
    back = []
    for at, kind, count, size in buffers:
        data = ctypes.create_string_buffer(size)
        call("cuMemcpyDtoHAsync_v2", data, at, ctypes.c_size_t(size), stream)
        call("cuStreamSynchronize", stream)
        back.append(struct.unpack("%d%s" % (count, kind), data.raw))
    if "processors" in test and processors.value != test["processors"]:
        print("processors", processors.value)
        sys.exit(4)
    problem = test["check"](*back) if "check" in test else None
    if problem:
        print("wrong:", problem)
        sys.stdout.flush()
        sys.exit(4)
    sys.exit(0)


def check(folder, nvrtc, temporary, name, test, text):
    """Runs a test with all seeds. Returns the lines to print, the first of which begins with `ok` or `BAD`."""
    problems = []
    for a, b in test.get("mutate", []):
        if a not in text:
            problems.append(f"`{a}` does not occur")
        text = text.replace(a, b)
    missing = bool(problems)
    path, log = os.path.join(temporary, "k.ptx"), os.path.join(temporary, "log")
    open(path, "w").write(text)
    wanted, found = test.get("finding"), 0
    seeds = range(1, test.get("seeds", 6) + 1)
    for seed in seeds:
        if os.path.exists(log):
            os.remove(log)
        env = dict(os.environ, FAKE_CUDA_LOG=log, FAKE_CUDA_SEED=str(seed), **test.get("environment", {}))
        try:
            ran = subprocess.run([sys.executable, __file__, folder, nvrtc, "--one", name, path], env=env,
                                 capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            problems.append(f"seed {seed}: takes more than 60 s")
            continue
        findings = [l for l in open(log) if l.startswith("FINDING")] if os.path.exists(log) else ["FINDING no log\n"]
        if wanted is None:
            if findings or ran.returncode:
                problems.append(f"seed {seed}: exit {ran.returncode} {ran.stdout.strip()} {''.join(findings[:2])}{ran.stderr[-300:] if ran.returncode not in (0, 3, 4) else ''}")
        elif any(wanted in l for l in findings):
            found += 1
        elif wanted == "wrong values" and ran.returncode == 4:
            found += 1
        else:
            problems.append(f"seed {seed}: exit {ran.returncode} {ran.stdout.strip()} {''.join(findings[:2])}")
    good = not missing and (not problems if wanted is None else found >= test.get("least", 1))
    lines = [f"{'ok ' if good else 'BAD'} {name}" + ("" if wanted is None else f": found for {found} of {len(seeds)} seeds")]
    return lines if good else lines + ["    " + problem for problem in problems[:3]]


def main():
    folder, nvrtc, only = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    if only and only[0] == "--one":
        one(folder, nvrtc, TESTS[only[1]], only[2])
    chosen = {name: test for name, test in TESTS.items() if not only or any(name.startswith(o) for o in only)}
    sources = {test["source"] for test in chosen.values() if test.get("ptx") is None}
    compiled = {source: compile(nvrtc, HEAD + source) for source in sources}

    def run(named):
        name, test = named
        text = test.get("ptx")
        with tempfile.TemporaryDirectory() as temporary:
            return check(folder, nvrtc, temporary, name, test, compiled[test["source"]] if text is None else text)

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for lines in threads.map(run, chosen.items()):
            print("\n".join(lines), flush=True)
            bad += lines[0].startswith("BAD")
    print(f"{len(chosen)} tests, {bad} bad")
    sys.exit(bad > 0)


main()
