// Thread blocks that run in supersteps, as in Valiant's bulk-synchronous model.
//
// Within a superstep no thread reads what another thread writes, and a barrier ends each superstep.
// The same text compiles for a device and for the host, where a superstep is a loop over the
// threads in a shuffled order: a result that depends on the order has different bits each time.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// The number of threads of a block.
enum : u32 { THREADS = 256 };

// Words of shared memory of a block: of what is loaded ahead (`ahead.h`), and at least of the rows
// of a tile. Between them are the resident weights (`tile.h`).
enum : u32 { AHEAD = 944, ROWS = 2 * (64 * 36 + 32 * 64) };

// The end of a block's patience (`barrier.h`): a flag that is set when a block has waited longer
// than the timeout, in nanoseconds.
struct Barrier;
struct Limit {
    Barrier* barrier;
    u64 timeout;
    inline bool is_over(u64& began) const;
};

// The state of a step of training (`stage.h`).
struct Stage;

// The arguments of a launch (`device.rs`), with pointers of the device.
struct Arguments {
    const u32* commands;
    float* arena;
    const float* weights;
    const float* folded;
    const float* given;
    float* store;
    float* outputs;
    u32* indices;
    // The trained parameters; of other programs, the sums that blocks keep here while their tiles
    // go on (`ring.h`).
    union {
        const float* masters;
        float* parked;
    };
    Stage* stage;
    Limit limit;
};

// A number as a type.
template <u32 N> struct Number {
    static constexpr u32 value = N;
};

#ifdef __CUDACC_RTC__

#define DEVICE __device__ __forceinline__

// Functions that are compiled once, however often they are called. Without them the whole program
// is one function, and compile time grows faster than its length. They take blocks and jobs by
// value, in registers.
#define CALLED static __device__ __noinline__

// The shared memory of a block.
extern __shared__ float4 block_memory[];

// State of a thread that outlives a superstep, in registers.
template <class T> struct PerThread {
    T own;
    DEVICE T& operator[](u32) { return own; }
    // Returns f(state) of the thread whose number differs in the bits `lanes`. All threads of a
    // warp must call it.
    template <class F> DEVICE float other(u32, u32 lanes, F f) {
        return __shfl_xor_sync(0xffffffffu, f(own), lanes);
    }
};

// Returns x, which the compiler knows nothing about. It keeps what follows from a known value, for
// all supersteps of all phases, in registers.
DEVICE u32 opaque(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

struct Block {
    // The number of floats of resident weights, and of those after them.
    u32 resident, room;

    DEVICE u32* ahead() const { return (u32*)block_memory; }
    DEVICE float* weights() const { return (float*)block_memory + AHEAD; }
    DEVICE float* shared() const { return weights() + resident; }

    // Runs `f(thread)` on all threads, without a barrier.
    template <class F> DEVICE void unordered(F f) const { f(opaque(threadIdx.x)); }

    // Runs `f(thread)` on all threads, with a barrier at the end.
    template <class F> DEVICE void superstep(F f) const {
        unordered(f);
        __syncthreads();
    }

    // Begins to copy four floats to shared memory.
    DEVICE void fetch(u32, float* to, const float* from) const {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     : : "r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
    }
    // Ends a group of a thread's copies.
    DEVICE void commit(u32) const { asm volatile("cp.async.commit_group;" : : : "memory"); }
    // Waits until each thread's groups have arrived, except for the last `groups` <= 3, with a
    // barrier at the end.
    DEVICE void arrived(u32 groups) const {
        if (groups == 0) asm volatile("cp.async.wait_group 0;" : : : "memory");
        else if (groups == 1) asm volatile("cp.async.wait_group 1;" : : : "memory");
        else if (groups == 2) asm volatile("cp.async.wait_group 2;" : : : "memory");
        else asm volatile("cp.async.wait_group 3;" : : : "memory");
        __syncthreads();
    }
};

// Each operation is rounded separately, whatever the compiler's options.
DEVICE float fma_(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
DEVICE float div_(float a, float b) { return __fdiv_rn(a, b); }
DEVICE float sqrt_(float x) { return __fsqrt_rn(x); }
DEVICE u32 bits(float x) { return __float_as_uint(x); }
DEVICE float from_bits(u32 x) { return __uint_as_float(x); }

// Four floats at a multiple of 16 bytes, in shared memory or in memory that no kernel writes.
DEVICE float4 load4(const float* from) { return *(const float4*)from; }
DEVICE void store4(float* to, float4 four) { *(float4*)to = four; }
DEVICE void store2(float* to, float x, float y) { *(float2*)to = {x, y}; }
DEVICE float4 constant4(const float* from) { return __ldg((const float4*)from); }

// One, two or four floats of shared memory, aligned to their size.
template <u32 N> DEVICE void load(float (&to)[N], const float* from) {
    static_assert(N == 1 || N == 2 || N == 4, "");
    if constexpr (N == 4) {
        float4 x = *(const float4*)from;
        to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    } else if constexpr (N == 2) {
        float2 x = *(const float2*)from;
        to[0] = x.x, to[1] = x.y;
    } else to[0] = *from;
}

// The compiler moves no load across this, so that loads before it are under way at the same time.
DEVICE void end_of_loads() { asm volatile("" : : : "memory"); }

// Loads values that another block may store at the same time with `publish`, and stores one.
DEVICE float seen(const float* from) {
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}
DEVICE float4 seen4(const float* from) {
    float4 x;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "l"(from) : "memory");
    return x;
}
DEVICE void store_seen(float* to, float x) {
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" : : "l"(to), "f"(x) : "memory");
}

// Loads a value that another block may have written in an earlier launch or wave. The barrier of a
// team orders plain loads too. The compiler may move and group them, but not `__ldcg`.
DEVICE float fresh(const float* from) {
    // A function's argument could point to shared memory as far as the compiler knows.
    __builtin_assume(__isGlobal(from));
    return *from;
}

#else

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#define DEVICE inline
#define CALLED static

// State that outlives a superstep, in an array with an element for each thread.
template <class T> struct PerThread {
    T all[THREADS];
    T& operator[](u32 thread) { return all[thread]; }
    template <class F> float other(u32 thread, u32 lanes, F f) { return f(all[thread ^ lanes]); }
};

inline u32 opaque(u32 x) { return x; }

// Random orders of threads or blocks.
struct Shuffle {
    uint64_t state;

    u32 below(u32 limit) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (u32)((state >> 32) * limit >> 32);
    }

    void shuffle(u32* order, u32 count) {
        for (u32 i = 0; i < count; ++i) order[i] = i;
        for (u32 i = count; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    }
};

// The copies of a block that have not arrived yet, by thread.
struct Copies {
    struct Copy {
        float* to;
        const float* from;
        u32 group;
    };
    std::vector<Copy> of[THREADS];
    u32 groups[THREADS] = {};
};

struct Block {
    u32 resident, room;
    float* memory;
    u32* numbers;
    Shuffle* shuffle;
    Copies* copies;

    u32* ahead() const { return numbers; }
    float* weights() const { return memory; }
    float* shared() const { return memory + resident; }

    template <class F> void unordered(F f) const { superstep(f); }

    template <class F> void superstep(F f) const {
        u32 order[THREADS];
        shuffle->shuffle(order, THREADS);
        for (u32 thread : order) f(thread);
    }

    // A copy arrives at once or when it is waited for. Until then its destination holds NaN.
    void fetch(u32 thread, float* to, const float* from) const {
        if ((uintptr_t)to % 16 || (uintptr_t)from % 16) __builtin_trap();
        if (shuffle->below(2)) return (void)memcpy(to, from, 16);
        memset(to, 0xff, 16);
        copies->of[thread].push_back({to, from, copies->groups[thread]});
    }
    void commit(u32 thread) const { ++copies->groups[thread]; }
    void arrived(u32 groups) const {
        for (u32 thread = 0; thread < THREADS; ++thread) {
            std::vector<Copies::Copy> late;
            for (Copies::Copy own : copies->of[thread]) {
                if (own.group + groups >= copies->groups[thread]) late.push_back(own);
                else memcpy(own.to, own.from, 16);
            }
            copies->of[thread].swap(late);
        }
    }
};

struct float4 {
    float x, y, z, w;
};

DEVICE float fma_(float a, float b, float c) { return std::fma(a, b, c); }
DEVICE float add(float a, float b) { return a + b; }
DEVICE float sub(float a, float b) { return a - b; }
DEVICE float mul(float a, float b) { return a * b; }
DEVICE float div_(float a, float b) { return a / b; }
DEVICE float sqrt_(float x) { return std::sqrt(x); }

DEVICE u32 bits(float x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE float from_bits(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// A device faults if the address is not a multiple of 16 bytes, and so does the host.
DEVICE float4 load4(const float* from) {
    if ((uintptr_t)from % sizeof(float4)) __builtin_trap();
    float4 four;
    memcpy(&four, from, sizeof four);
    return four;
}
DEVICE float4 constant4(const float* from) { return load4(from); }

DEVICE void store4(float* to, float4 four) {
    if ((uintptr_t)to % sizeof(float4)) __builtin_trap();
    memcpy(to, &four, sizeof four);
}
DEVICE void store2(float* to, float x, float y) { to[0] = x, to[1] = y; }

template <u32 N> void load(float (&to)[N], const float* from) {
    if ((uintptr_t)from % sizeof to) __builtin_trap();
    memcpy(to, from, sizeof to);
}

DEVICE void end_of_loads() {}

DEVICE float fresh(const float* from) { return *from; }
DEVICE float seen(const float* from) { return *from; }
DEVICE float4 seen4(const float* from) { return load4(from); }
DEVICE void store_seen(float* to, float x) { *to = x; }

#endif

// The bits of a float of the arena that has not been written since the arena was cleared. They are
// a NaN, which is stored with other bits. So a reader that needs no barrier loads a float again
// until it has other bits than these.
enum : u32 { NOT_WRITTEN = 0xffffffffu };
DEVICE bool is_written(float x) { return bits(x) != NOT_WRITTEN; }
DEVICE bool is_written(float4 x) {
    return is_written(x.x) && is_written(x.y) && is_written(x.z) && is_written(x.w);
}
DEVICE float storable(float x) { return is_written(x) ? x : from_bits(0x7fffffffu); }

// Stores a float in the arena, for readers after a barrier, or for any reader.
DEVICE void put(float* to, float x) { *to = storable(x); }
DEVICE void publish(float* to, float x) { store_seen(to, storable(x)); }

// A block of a team. Functions that are called often take only what they need.
struct TeamBlock : Block {
    // The number of blocks of the team and of a group.
    u32 index, blocks, slices;
    // The placement of the team.
    const u32* places;
};
