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

// Words of shared memory of a block: of the rows of a tile (`small.h`), of what is loaded ahead
// (`ahead.h`), and of both. Resident weights follow.
enum : u32 { ROWS = 16 * (512 + 4), AHEAD = 552, SHARED = ROWS + AHEAD };

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
};

struct Block {
    u32 index, blocks;
    // The placement of a team.
    const u32* places;

    DEVICE float* shared() const { return (float*)block_memory; }
    DEVICE u32* ahead() const { return (u32*)block_memory + ROWS; }

    // Runs `f(thread)` on all threads, without a barrier.
    template <class F> DEVICE void unordered(F f) const { f(threadIdx.x); }

    // Runs `f(thread)` on all threads, with a barrier at the end. The compiler must not know that
    // the thread is the same in all supersteps: it would keep what follows from it, for all
    // supersteps of all phases, in registers.
    template <class F> DEVICE void superstep(F f) const {
        u32 thread = threadIdx.x;
        asm volatile("" : "+r"(thread));
        f(thread);
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
DEVICE float4 constant4(const float* from) { return __ldg((const float4*)from); }

// The compiler moves no load across this, so that loads before it are under way at the same time.
DEVICE void end_of_loads() { asm volatile("" : : : "memory"); }

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

#define DEVICE inline
#define CALLED static

// State that outlives a superstep, in an array with an element for each thread.
template <class T> struct PerThread {
    T all[THREADS];
    T& operator[](u32 thread) { return all[thread]; }
};

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

struct Block {
    u32 index, blocks;
    const u32* places;
    float* memory;
    u32* numbers;
    Shuffle* shuffle;

    float* shared() const { return memory; }
    u32* ahead() const { return numbers; }

    template <class F> void unordered(F f) const { superstep(f); }

    template <class F> void superstep(F f) const {
        u32 order[THREADS];
        shuffle->shuffle(order, THREADS);
        for (u32 thread : order) f(thread);
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

DEVICE void end_of_loads() {}

DEVICE float fresh(const float* from) { return *from; }

#endif
