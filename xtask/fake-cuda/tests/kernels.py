# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernels of run.py. Every kernel is `k`, given all buffers and then numbers."""
import math
import struct

HEAD = r"""
typedef unsigned int u32; typedef unsigned long long u64;
#define TID threadIdx.x
static __device__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ void fetch16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place(to)), "l"(from) : "memory"); }
static __device__ void fetch4(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(place(to)), "l"(from) : "memory"); }
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#define WAIT_ALL asm volatile("cp.async.wait_all;" ::: "memory")
#define SYNC(id, n) asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory")
#define ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(n) : "memory")
static __device__ void put(u32* p, u32 x) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory"); }
static __device__ u32 get(const u32* p) { u32 x; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }
static __device__ u32 acquire(const u32* p) { u32 x; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }
static __device__ void release(u32* p, u32 x) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory"); }
"""


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def bits(x):
    return struct.unpack("I", struct.pack("f", x))[0]


def tf32(x):
    return struct.unpack("f", struct.pack("I", (bits(x) + 0x1000) & 0xffffe000))[0]


def same(got, want):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            return f"[{i}] is {a}, not {b}"


N = 0xffffffff
TESTS = {}


def test(name, **what):
    if "threads" in what:
        what["launches"] = [{k: what.pop(k) for k in ("threads", "blocks", "shared", "numbers", "cooperative") if k in what}]
    TESTS[name] = what


def wrong(name, of, finding, mutate=(), **what):
    TESTS[name] = {**TESTS[of], "finding": finding, "mutate": list(mutate), **what}


# ---- device functions, local memory

CALLS = r"""
struct Row { float a[6]; int n; };
__noinline__ float sum(const float* p, int n, Row s) { float x = s.a[n]; for (int i = 0; i < n; ++i) x += p[i]; return x; }
__noinline__ Row twice(float* own, int n) { Row s; for (int i = 0; i < 6; ++i) s.a[i] = own[i] * 2; s.n = n; return s; }
__noinline__ void fill(float* own, const float* in, int n) { for (int i = 0; i < 8; ++i) own[(i + n) & 7] = in[i]; }
extern "C" __global__ void k(float* out, const float* in) {
    float own[8];
    int n = TID % 6;
    fill(own, in, n);
    Row s = twice(own, n);
    out[TID] = sum(in, n, s) + (float)s.n;
}
"""


def calls(out, data):
    for t in range(len(out)):
        n = t % 6
        own = [0] * 8
        for i in range(8):
            own[(i + n) & 7] = data[i]
        want = own[n] * 2 + sum(data[:n]) + n
        if out[t] != want:
            return f"[{t}] is {out[t]}, not {want}"


test("calls", source=CALLS, buffers=[("f", [0.0] * 64), ("f", [float(2 ** i) for i in range(8)])], threads=64, check=calls)

LOCAL = r"""
__noinline__ float* leak(float* keep, int n) { float own[4]; for (int i = 0; i < 4; ++i) own[(i + n) & 3] = (float)i; float* p = own; asm volatile("" : "+l"(p) :: "memory"); keep[0] = own[n & 3]; return p; }
extern "C" __global__ void k(float* out, u32 which) {
    float own[8];
    for (int i = 0; i < 8 - (which == 1); ++i) own[(i + which) & 7] = i;
    float* p = own + (which == 2 ? 9 : which & 7);
    asm volatile("" : "+l"(p) :: "memory");
    if (which == 3) p = leak(out, TID);
    if (which == 1) p = own;
    out[TID] = p[0];
}
"""
test("local", source=LOCAL, buffers=[("f", [7.0] * 32)], threads=32, numbers=[0], check=lambda out: same(out, [0.0] * 32))
for number, name, finding in ((1, "local, unwritten", "A VALUE THAT NOBODY WROTE IS STORED"),
                              (2, "local, out of bounds", "LOCAL MEMORY OF NO VARIABLE"),
                              (3, "local, of a function that has returned", "OF A FUNCTION THAT HAS RETURNED")):
    wrong(name, "local", finding, launches=[{"threads": 32, "numbers": [number]}])
test("calls itself", ptx=""".version 8.0
.target sm_90
.address_size 64
.func (.param .b32 r) f(.param .b32 p)
{
 .reg .b32 %r<2>;
 ld.param.b32 %r0, [p];
 { .param .b32 a; st.param.b32 [a], %r0; .param .b32 b; call (b), f, (a); ld.param.b32 %r1, [b]; }
 st.param.b32 [r], %r1;
 ret;
}
.visible .entry k(.param .u64 o)
{
 .reg .b32 %r<2>;
 { .param .b32 a; st.param.b32 [a], 1; .param .b32 b; call (b), f, (a); ld.param.b32 %r1, [b]; }
 ret;
}
""", buffers=[("f", [0.0])], threads=32, finding="calls itself")

# ---- processors

test("processors", source=CALLS, buffers=TESTS["calls"]["buffers"], threads=64, environment={"FAKE_CUDA_SMS": "12"}, processors=12, seeds=1)

# ---- asynchronous copies

RING = r"""
extern "C" __global__ void k(float* out, const float* in, u32 rounds) {
    __shared__ __align__(16) float ring[3][128];
    float x = 0;
    for (u32 i = 0; i < 2; ++i) { if (TID < 32) fetch16(&ring[i][4 * TID], in + 128 * i + 4 * TID); COMMIT; }
    for (u32 i = 0; i < rounds; ++i) {
        WAIT(1);
        __syncthreads();
        if (i + 2 < rounds && TID < 32) fetch16(&ring[(i + 2) % 3][4 * TID], in + 128 * (i + 2) + 4 * TID);
        COMMIT;
        for (u32 j = 0; j < 128; j += 64) x += ring[i % 3][(TID + j + 1) % 128];
    }
    out[TID] = x;
}
"""


def ring(out, data):
    return same(out, [sum(data[128 * i + (t + j + 1) % 128] for i in range(8) for j in (0, 64)) for t in range(64)])


test("copies", source=RING, buffers=[("f", [0.0] * 64), ("f", [float(i % 1021) for i in range(1024)])], threads=64, numbers=[8], check=ring)
wrong("copies, a group too few", "copies", "SHARED MEMORY IS READ WHILE A COPY", [("cp.async.wait_group 1", "cp.async.wait_group 2")], least=6)
wrong("copies, no barrier", "copies", "RACE in shared memory", [("bar.sync", "//")], least=6)
wrong("copies, no wait", "copies", "SHARED MEMORY IS READ WHILE A COPY", [("cp.async.wait_group", "//")], least=6)
wrong("copies, no commit", "copies", "WHILE A COPY", [("cp.async.commit_group", "//")], least=6)

COPY4 = r"""
extern "C" __global__ void k(u32* out, u32* in, u32 change) {
    __shared__ u32 a[64];
    fetch4(a + TID, in + TID);
    COMMIT;
    if (change == 1) in[TID] = 77;
    if (change == 2) a[TID] = 3;
    WAIT_ALL;
    __syncthreads();
    if (change == 3 && TID == 0) in[9] = 1;
    out[TID] = a[63 - TID];
}
"""
test("copies of 4", source=COPY4, buffers=[("I", [0] * 64), ("I", list(range(64)))], threads=64, numbers=[0], check=lambda out, d: same(out, list(range(63, -1, -1))))
wrong("copies, source changed", "copies of 4", "THE SOURCE OF A COPY CHANGES", launches=[{"threads": 64, "numbers": [1]}], least=6)
wrong("copies, source changed, values", "copies of 4", "wrong values", launches=[{"threads": 64, "numbers": [1]}], least=6)
wrong("copies, overwritten", "copies of 4", "SHARED MEMORY IS WRITTEN WHILE A COPY", launches=[{"threads": 64, "numbers": [2]}], least=6)
test("copies, source changed after the barrier", source=COPY4, buffers=TESTS["copies of 4"]["buffers"], threads=64, numbers=[3])

MISALIGNED = COPY4.replace("fetch4(a + TID, in + TID)", "fetch16(a + TID % 60, in + TID % 60 + change)").replace("u32 a[64]", "__align__(16) u32 a[64]")
wrong("copies, misaligned", "copies of 4", "MISALIGNED", source=MISALIGNED, least=6)
wrong("copies, out of shared memory", "copies of 4", "OUT OF SHARED MEMORY", source=COPY4.replace("fetch4(a + TID", "fetch4(a + TID + 1"), least=6)
wrong("copies, from nowhere", "copies of 4", "OUT OF MEMORY'S BOUNDS", source=COPY4.replace("in + TID)", "in + TID + 1)"), least=6)

# ---- named barriers

HALVES = r"""
extern "C" __global__ void k(u32* out, u32* in, u32 rounds) {
    __shared__ u32 ring[2][64];
    if (TID < 64) {
        for (u32 i = 0; i < rounds; ++i) {
            if (i >= 2) SYNC(3 + i % 2, 128);
            ring[i % 2][TID] = in[64 * i + TID];
            ARRIVE(1 + i % 2, 128);
        }
    } else {
        u32 x = 0;
        for (u32 i = 0; i < rounds; ++i) {
            SYNC(1 + i % 2, 128);
            x += ring[i % 2][127 - TID];
            SYNC(5, 64);
            if (i + 2 < rounds) ARRIVE(3 + i % 2, 128);
        }
        out[TID - 64] = x;
    }
}
"""
test("named barriers", source=HALVES, buffers=[("I", [0] * 64), ("I", list(range(640)))], threads=128, numbers=[10],
     check=lambda out, d: same(out, [sum(64 * i + 63 - t for i in range(10)) for t in range(64)]))
wrong("named barriers, no arrival", "named barriers", "DEADLOCK", [("bar.arrive", "//")], least=6)
wrong("named barriers, no wait for room", "named barriers", "COMES TWICE TO A BARRIER", source=HALVES.replace("if (i >= 2) SYNC(3 + i % 2, 128);", "").replace("if (i + 2 < rounds) ARRIVE(3 + i % 2, 128);", ""), least=6)
wrong("named barriers, arrives before it writes", "named barriers", "RACE in shared memory",
      source=HALVES.replace("ring[i % 2][TID] = in[64 * i + TID];\n            ARRIVE(1 + i % 2, 128);", "ARRIVE(1 + i % 2, 128);\n            ring[i % 2][TID] = in[64 * i + TID];"), least=6)
wrong("named barriers, wrong count", "named barriers", "WITH TWO COUNTS", source=HALVES.replace("SYNC(1 + i % 2, 128)", "SYNC(1 + i % 2, 96)"), least=6)
wrong("named barriers, lanes apart", "named barriers", "DEADLOCK", source=HALVES.replace("SYNC(5, 64)", "if (TID != 70) SYNC(5, 64)"), least=6)

# ---- strong accesses

POLL = r"""
extern "C" __global__ void k(u32* rows, u32* out, u32* count, u32 blocks) {
    u32 b = blockIdx.x;
    for (u32 round = 0; round < 4; ++round) {
        u32 x = 1;
        if (round) {
            u32* p = rows + 32 * (blocks * (round - 1) + (b + 1) % blocks) + (TID & ~3u);
            u32 v[4];
            do asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(p) : "memory");
            while (v[0] == ~0u || v[1] == ~0u || v[2] == ~0u || v[3] == ~0u);
            x = v[0] + v[1] + v[2] + v[3];
        }
        put(rows + 32 * (blocks * round + b) + TID, x);
    }
    __syncthreads();
    if (TID == 0) { release(count, 1); while (acquire(count) < blocks) ; }
    __syncthreads();
    out[32 * b + TID] = rows[32 * (blocks * 3 + (b + 2) % blocks) + TID];
}
"""
test("strong accesses", source=POLL, buffers=[("I", [N] * (32 * 4 * 6)), ("I", [0] * 192), ("I", [0])], threads=32, blocks=6, numbers=[6], cooperative=True,
     check=lambda r, out, c: same(out, [64] * 192))
wrong("strong accesses, a weak store", "strong accesses", "RACE", [("st.relaxed.gpu.global.u32", "st.weak.global.u32")], least=6)
wrong("strong accesses, a weak load", "strong accesses", "RACE", [("ld.relaxed.gpu.global.v4.u32", "ld.global.v4.u32")], least=6)
wrong("strong accesses, nothing released", "strong accesses", "RACE", [("red.release", "red.relaxed")], least=6)
wrong("strong accesses, nothing acquired", "strong accesses", "RACE", [("ld.acquire", "ld.relaxed")], least=6)
wrong("strong accesses, a row never written", "strong accesses", "DEADLOCK: ALL BLOCKS WAIT", source=POLL.replace("put(rows", "if (b != 3 || round != 1) put(rows"), least=6)

MESSAGE = r"""
extern "C" __global__ void k(u32* data, u32* flag, u32* out, u32 which) {
    if (blockIdx.x == 0) {
        data[0] = 5;
        if (which & 1) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        put(flag, 1);
    } else {
        while (get(flag) == 0) ;
        if (which & 2) asm volatile("fence.acq_rel.gpu;" ::: "memory");
        out[0] = data[0];
    }
}
"""
test("fences", source=MESSAGE, buffers=[("I", [0]), ("I", [0]), ("I", [0])], threads=1, blocks=2, cooperative=True, numbers=[3], check=lambda d, f, o: same(o, [5]))
for n in (0, 1, 2):
    wrong(f"fences, {('none', 'one alone', 'the other alone')[n]}", "fences", "RACE", launches=[{"threads": 1, "blocks": 2, "cooperative": True, "numbers": [n]}], least=6)
OLD = r"""
extern "C" __global__ void k(u32* a, u32* b, u32* out, u32 times) {
    for (u32 i = 1; i <= times; ++i)
        if (blockIdx.x == 0) { put(a, i); put(b, i); __syncwarp(); get(a); }
        else { u32 y = get(b), x = get(a); if (x < y) out[0] = 1; __syncthreads(); }
}
"""
test("older values", source=OLD, buffers=[("I", [0]), ("I", [0]), ("I", [0])], threads=1, blocks=2, cooperative=True, numbers=[200], finding="wrong values",
     check=lambda a, b, o: same(o, [0]))

# ---- warps

WARP = r"""
extern "C" __global__ void k(u32* out, const u32* in, u32 which) {
    u32 x = in[TID], l = TID & 31;
    out[TID] = __shfl_xor_sync(~0u, x, 5);
    out[64 + TID] = __shfl_up_sync(~0u, x, 3);
    out[128 + TID] = __shfl_down_sync(~0u, x, 2, 8);
    out[192 + TID] = __shfl_sync(~0u, x, 9, 16);
    out[256 + TID] = __ballot_sync(~0u, x & 1);
    out[320 + TID] = __any_sync(~0u, x == 3) + 2 * __all_sync(~0u, x < 64);
    out[384 + TID] = __activemask();
    u32 y = 0;
    if (l < 16) y = __shfl_xor_sync(which == 1 ? ~0u : 0xffffu, x, 1);
    if (which == 2 && l < 16) y = __shfl_sync(0xffffu, x, 20);
    out[448 + TID] = y;
    __shared__ u32 a[64];
    a[TID] = x;
    if (which != 3) __syncwarp();
    out[512 + TID] = a[TID ^ 1];
}
"""


def warp(out, x):
    bad = None
    for t in range(64):
        l, w = t % 32, t // 32 * 32
        want = [x[t ^ 5], x[t - 3] if l >= 3 else x[t], x[t + 2] if l % 8 < 6 else x[t], x[w + l // 16 * 16 + 9],
                sum((x[w + i] & 1) << i for i in range(32)), (3 in x[w:w + 32]) + 2 * all(v < 64 for v in x[w:w + 32]), N,
                x[t ^ 1] if l < 16 else 0, x[t ^ 1]]
        bad = bad or same([out[64 * i + t] for i in range(9)], want)
    return bad


test("warps", source=WARP, buffers=[("I", [0] * 576), ("I", [(i * 37 + 3) % 91 for i in range(64)])], threads=64, numbers=[0], check=warp)
for n, name, finding in ((1, "a mask of lanes that do not come", "A WARP COMES APART"), (2, "a lane that takes no part", "A VALUE OF A LANE THAT TAKES NO PART"),
                         (3, "no __syncwarp", "RACE in shared memory")):
    wrong("warps, " + name, "warps", finding, launches=[{"threads": 64, "numbers": [n]}], least=6)

TENSOR = r"""
extern "C" __global__ void k(float* out, const float* a, const float* b, u32 which) {
    // A of 16 x 16 and B of 8 x 16 (by columns), as bf16 in shared memory, rows of 16 bytes apart.
    __shared__ __align__(16) u32 A[16 * 8], B[8 * 8];
    for (u32 i = TID; i < 128; i += 32) { u32 x; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(a[2 * i + 1]), "f"(a[2 * i])); A[i] = x; }
    for (u32 i = TID; i < 64; i += 32) { u32 x; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(b[2 * i + 1]), "f"(b[2 * i])); B[i] = x; }
    if (which != 1) __syncthreads();
    u32 r[4], q[2];
    float c[4] = {1, 2, 3, 4};
    u32 at = place(A) + (TID % 16) * 32 + TID / 16 * 16, bt = place(B) + (TID % 8) * 32 + TID / 8 % 2 * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(bt) : "memory");
    if (which != 2 || TID < 31)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(q[0]), "r"(q[1]));
    u32 g = TID / 4, i = TID % 4;
    out[8 * g + 2 * i] = c[0]; out[8 * g + 2 * i + 1] = c[1]; out[8 * (g + 8) + 2 * i] = c[2]; out[8 * (g + 8) + 2 * i + 1] = c[3];
}
"""
AS = [float((i * 7) % 23 - 11) for i in range(256)]
BS = [float((i * 5) % 19 - 9) for i in range(128)]
test("bf16 tiles", source=TENSOR, buffers=[("f", [0.0] * 128), ("f", AS), ("f", BS)], threads=32, numbers=[0],
     check=lambda out, a, b: same(out, [sum(a[16 * m + k] * b[16 * n + k] for k in range(16)) + [1, 2, 3, 4][n % 2 + (m >= 8) * 2] for m in range(16) for n in range(8)]))
wrong("bf16 tiles, no barrier", "bf16 tiles", "RACE in shared memory", launches=[{"threads": 32, "numbers": [1]}], least=6)
wrong("bf16 tiles, a lane missing", "bf16 tiles", "A WARP COMES APART AT TENSOR CORES", launches=[{"threads": 32, "numbers": [2]}], least=6)

TF32 = r"""
extern "C" __global__ void k(float* out, const float* a, const float* b, u32 which) {
    u32 g = TID / 4, i = TID % 4, r[6];
    float v[6] = {a[8 * g + i], a[8 * (g + 8) + i], a[8 * g + i + 4], a[8 * (g + 8) + i + 4], b[8 * g + i], b[8 * g + i + 4]};
    for (int n = 0; n < 6; ++n) { if (which) r[n] = __float_as_uint(v[n]); else asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r[n]) : "f"(v[n])); }
    float c[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]));
    out[8 * g + 2 * i] = c[0]; out[8 * g + 2 * i + 1] = c[1]; out[8 * (g + 8) + 2 * i] = c[2]; out[8 * (g + 8) + 2 * i + 1] = c[3];
}
"""
test("tf32 tiles", source=TF32, buffers=[("f", [0.0] * 128), ("f", [x + 2.0 ** -13 for x in AS[:128]]), ("f", BS[:64])], threads=32, numbers=[0],
     check=lambda out, a, b: same(out, [f32(sum(tf32(a[8 * m + k]) * b[8 * n + k] for k in range(8))) for m in range(16) for n in range(8)]))
wrong("tf32 tiles, not rounded", "tf32 tiles", "IS NOT ROUNDED", buffers=[("f", [0.0] * 128), ("f", [f32(x + 0.001) for x in AS[:128]]), ("f", BS[:64])],
      launches=[{"threads": 32, "numbers": [1]}], least=6)

FLUSHED = r"""
extern "C" __global__ void k(float* out, const float* in) {
    asm("mul.rn.ftz.f32 %0, %1, 0f3F800000;" : "=f"(out[TID]) : "f"(in[TID]));
    out[4 + TID] = in[TID] * 1.0f;
}
"""
test("flushed products", source=FLUSHED, buffers=[("f", [9.0] * 8), ("f", [2.0 ** -127, -(2.0 ** -140), 2.0 ** -126, -3.0])], threads=4,
     check=lambda o, x: None if [str(y) for y in o] == ["0.0", "-0.0"] + [str(y) for y in x[2:] + x] else str(o))

APPROXIMATE = r"""
extern "C" __global__ void k(float* out, const float* in) {
    float x = in[TID], y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); out[TID] = y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); out[4 + TID] = y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); out[8 + TID] = y;
}
"""
test("approximations", source=APPROXIMATE, buffers=[("f", [0.0] * 12), ("f", [0.5, 2.0, -3.0, 8.0])], threads=4,
     check=lambda o, x: next((f"{a} {b}" for a, b in zip(o, [2 ** v for v in x] + [1 / v for v in x] + [math.tanh(v) for v in x]) if abs(a - b) > 1e-6 * abs(b)), None))

# ---- doubles, launches

DOUBLE = r"""
extern "C" __global__ void k(double* out, const double* in, u32* least) {
    double a = in[0], b = in[1];
    out[0] = a + b; out[1] = a - b; out[2] = a * b; out[3] = a / b; out[4] = sqrt(a); out[5] = fma(a, b, -a);
    out[6] = (double)(float)a; out[7] = (double)(u32)b; out[8] = (double)(int)-b; out[9] = (double)(u64)(b * 1e15);
    out[10] = a > b ? 1 : 2; out[11] = fabs(-a); out[12] = fmin(a, b); out[13] = 1.0 / a; out[14] = (double)(u32)-3.0; out[15] = (double)(int)1e300;
    atomicMin(least, (u32)b); atomicMin(least, 9u);
}
"""


def doubles(out, v, least):
    from fractions import Fraction as F
    a, b = v
    return same(list(out) + list(least), [a + b, a - b, a * b, a / b, math.sqrt(a), float(F(a) * F(b) - F(a)), f32(a), float(int(b)), float(-int(b)),
                                          float(int(b * 1e15)), 1.0 if a > b else 2.0, a, min(a, b), 1 / a, 0.0, 2147483647.0, 6])


test("doubles", source=DOUBLE, buffers=[("d", [0.0] * 16), ("d", [1 / 3, 6.7]), ("I", [50])], threads=1, check=doubles)
ORDER = r"""
extern "C" __global__ void k(u32* a, u32 n) { a[TID + 1] = a[TID + 1] * 3 + n; if (TID == 0) atomicMin(a, n); }
extern "C" __global__ void team(u32* a, u32 n) { if (blockIdx.x == 0) a[TID + 1] = a[TID + 1] * 5 + n; }
"""
test("launches in order, of two modules", source=ORDER, modules=2, buffers=[("I", [9] + [1] * 8)],
     launches=[{"threads": 8, "numbers": [4]}, {"name": "team", "blocks": 4, "threads": 8, "cooperative": True, "numbers": [2]}, {"threads": 8, "numbers": [7]}],
     check=lambda a: same(a, [4] + [((1 * 3 + 4) * 5 + 2) * 3 + 7] * 8))
wrong("launches, a team too large", "launches in order, of two modules", "of which", launches=[{"name": "team", "blocks": 9000, "threads": 8, "cooperative": True, "numbers": [2]}], least=6)

SHARED_ATOMICS = r"""
extern "C" __global__ void k(u32* out) {
    __shared__ u32 a[2];
    if (TID < 2) a[TID] = TID ? ~0u : 0;
    __syncthreads();
    atomicAdd(a, TID); atomicMin(a + 1, 100 - TID);
    __syncthreads();
    out[TID] = a[TID & 1];
}
"""
test("atomics of shared memory", source=SHARED_ATOMICS, buffers=[("I", [0] * 64)], threads=64, check=lambda o: same(o, [2016, 37] * 32))
wrong("atomics of shared memory, no barrier", "atomics of shared memory", "RACE in shared memory", [("bar.sync", "//")], least=6)

# ---- barriers in shared memory

MBARRIER = r"""
static __device__ void wait(u64* m, u32 parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" :: "r"(place(m)), "r"(parity) : "memory");
}
static __device__ void arrive(u64* m) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(place(m)) : "memory"); }
extern "C" __global__ void k(u32* out, u32* in, u32 rounds) {
    __shared__ u32 ring[2][64];
    __shared__ u64 full[2], empty[2];
    if (TID < 2) {
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(place(full + TID)) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(place(empty + TID)) : "memory");
    }
    __syncthreads();
    if (TID < 64) {
        for (u32 i = 0; i < rounds; ++i) {
            if (i >= 2) wait(empty + i % 2, i / 2 - 1 & 1);
            fetch4(&ring[i % 2][TID], in + 64 * i + TID);
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(place(full + i % 2)) : "memory");
        }
    } else {
        u32 x = 0;
        for (u32 i = 0; i < rounds; ++i) {
            wait(full + i % 2, i / 2 & 1);
            x += ring[i % 2][127 - TID];
            arrive(empty + i % 2);
        }
        out[TID - 64] = x;
    }
}
"""
test("mbarriers", source=MBARRIER, buffers=[("I", [0] * 64), ("I", list(range(640)))], threads=128, numbers=[10], check=TESTS["named barriers"]["check"])
wrong("mbarriers, no wait for room", "mbarriers", "in shared memory", source=MBARRIER.replace("if (i >= 2) wait(empty + i % 2, i / 2 - 1 & 1);", ""), least=6)
wrong("mbarriers, no arrival", "mbarriers", "DEADLOCK", [("mbarrier.arrive.shared", "//")], least=6)
wrong("mbarriers, a wrong phase", "mbarriers", "SHARED MEMORY IS READ WHILE A COPY", source=MBARRIER.replace("wait(full + i % 2, i / 2 & 1)", "wait(full + i % 2, i / 2 + 1 & 1)"), least=1)
wrong("mbarriers, not initialised before", "mbarriers", "MBARRIER THAT WAS NOT INITIALISED", [("mbarrier.init", "//")], least=6)

# ---- this and that

VARIOUS = r"""
extern __shared__ __align__(16) u32 behind[];
extern "C" __global__ void k(u32* out, const u32* in, u32 which) {
    __shared__ u32 before[64];
    before[TID] = TID; behind[TID] = 100 + TID;
    if (which == 0 || TID != 5) __syncthreads();
    u32 a = __syncthreads_count(TID % 3 == 0), b = __syncthreads_or(TID == 9), c = __syncthreads_and(TID < 63);
    out[TID] = before[63 - TID] * 1000 + behind[63 - TID] + (a << 24) + (b ? 1u << 20 : 0) + (c ? 1u << 21 : 0);
    __syncthreads();
    u32 size = TID % 2 ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(place(before + TID)), "l"(in + TID), "r"(size) : "memory");
    WAIT_ALL;
    __syncthreads();
    out[64 + TID] = before[TID ^ 3];
}
"""
test("various", source=VARIOUS, buffers=[("I", [0] * 128), ("I", [7 + i for i in range(64)])], threads=64, shared=256, numbers=[0],
     check=lambda o, d: same(o, [(63 - t) * 1000 + 163 - t + (22 << 24) + (1 << 20) for t in range(64)] + [d[t ^ 3] if (t ^ 3) % 2 else 0 for t in range(64)]))
wrong("various, a thread that leaves a barrier out", "various", "BARRIERS OF DIFFERENT KINDS", launches=[{"threads": 64, "shared": 256, "numbers": [1]}], least=6)
wrong("various, memory that the launch was not given", "various", "OUT OF SHARED MEMORY", launches=[{"threads": 64, "shared": 128, "numbers": [0]}], least=6)
CLOCKS = r"""
static __device__ u64 nanoseconds() { u64 x; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(x) :: "memory"); return x; }
static __device__ u64 cycles() { u64 x; asm volatile("mov.u64 %0, %%clock64;" : "=l"(x) :: "memory"); return x; }
extern "C" __global__ void k(u64* out, float* in) {
    u64 ns = nanoseconds(), cycle = cycles();
    float x = in[TID];
    for (int i = 0; i < 1000; ++i) x = __fmaf_rn(x, 0.5f, 1.0f);
    in[TID] = x;
    __syncthreads();
    out[2 * TID] = nanoseconds() - ns;
    out[2 * TID + 1] = cycles() - cycle;
}
"""
test("clocks", source=CLOCKS, buffers=[("Q", [0] * 8), ("f", [0.0] * 4)], threads=4,
     check=lambda out, x: next((f"[{i}] is {t}" for i, t in enumerate(out) if not 0 < t < 10 ** 6), None))
wrong("clocks, one that stands still", "clocks", "wrong values", [("%globaltimer", "0")])
JUMPS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o)
{
 .reg .b32 %r<4>;
 .reg .b64 %rd<4>;
 ld.param.u64 %rd1, [o];
 mov.u32 %r1, %tid.x;
 mul.wide.u32 %rd2, %r1, 4;
 add.u64 %rd3, %rd1, %rd2;
 rem.u32 %r2, %r1, 3;
$table: .branchtargets $A, $B, $C;
 brx.idx %r2, $table;
$A:
 mov.u32 %r3, 10;
 bra.uni $END;
$B:
 mov.u32 %r3, 20;
 bra.uni $END;
$C:
 brev.b32 %r3, %r1;
$END:
 st.global.u32 [%rd3], %r3;
 ret;
}
"""
test("jumps by tables", ptx=JUMPS, buffers=[("I", [0] * 32)], threads=32,
     check=lambda o: same(o, [10 if t % 3 == 0 else 20 if t % 3 == 1 else int(f"{t:032b}"[::-1], 2) for t in range(32)]))
wrong("jumps behind a table", "jumps by tables", "A JUMP BEHIND ITS TABLE", ptx=JUMPS.replace("rem.u32 %r2, %r1, 3", "rem.u32 %r2, %r1, 4"), least=6)
for name, line in (("a call by pointer", "call (%r1), %rd1, (%r2), proto;"), ("an instruction nobody knows", "wgmma.fence.sync.aligned;"),
                   ("a division that is not exact", "div.approx.f32 %r1, %r1, %r1;"), ("a strong access of a block's scope", "ld.relaxed.cta.u32 %r1, [%rd1];")):
    wrong("refused: " + name, "jumps by tables", "cuModuleLoadData", ptx=JUMPS.replace(" ret;", " " + line + " ret;"), least=6)
