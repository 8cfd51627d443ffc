// The probe kernel, for measuring launches, barriers, copies and multiply-adds. `measure.rs`
// chooses how many of each a launch executes.
#include "barrier.h"

struct ProbeArguments {
    // One barrier for each team and one for all blocks, 256 bytes apart.
    Barrier* barriers;
    const float4* from;
    float4* to;
    // The sum of each thread's chains of multiply-adds, if there are any.
    float* ends;
    // The word of host memory that receives the launch number at the end.
    u32* done;
    u64 timeout;
    // The number of groups of four floats to copy, of terms of each chain, of barriers of each
    // team.
    u32 fours, terms, rounds;
    // Blocks of a team; the launch number, from 1.
    u32 blocks, number;
};

// Independent chains of a thread.
enum : u32 { CHAINS = 8 };

// Loads in flight per thread.
enum : u32 { LOADS = 4 };

extern "C" __global__ void __launch_bounds__(THREADS)
probe_kernel(const __grid_constant__ ProbeArguments a) {
    u32 threads = gridDim.x * THREADS, thread = blockIdx.x * THREADS + threadIdx.x;
    for (u64 first = thread; first < a.fours; first += LOADS * (u64)threads) {
        float4 four[LOADS];
#pragma unroll
        for (u32 n = 0; n < LOADS; ++n)
            if (first + n * (u64)threads < a.fours) four[n] = a.from[first + n * (u64)threads];
#pragma unroll
        for (u32 n = 0; n < LOADS; ++n)
            if (first + n * (u64)threads < a.fours) a.to[first + n * (u64)threads] = four[n];
    }

    if (a.terms > 0) {
        float x[CHAINS];
#pragma unroll
        for (u32 c = 0; c < CHAINS; ++c) x[c] = (float)c;
#pragma unroll 16
        for (u32 term = 0; term < a.terms; ++term)
#pragma unroll
            for (u32 c = 0; c < CHAINS; ++c) x[c] = fma_(x[c], 1.0f - 1.0f / 4096.0f, 0.5f);
        float sum = 0.0f;
#pragma unroll
        for (u32 c = 0; c < CHAINS; ++c) sum = add(sum, x[c]);
        a.ends[thread] = sum;
    }

    const u32 apart = 256 / sizeof(Barrier);
    Barrier& team = a.barriers[apart * (blockIdx.x / a.blocks)];
    u64 all = (a.number - 1) * (u64)a.rounds * a.blocks;
    for (u32 round = 0; round < a.rounds; ++round) {
        all += a.blocks;
        __syncthreads();
        bool on = threadIdx.x != 0 || arrive_and_wait(team, all, Limit{&team, a.timeout});
        if (!__syncthreads_and(on)) return;
    }

    // Like the end of a plan: the host sees all outputs before it sees the launch number.
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        Barrier& end = a.barriers[apart * (gridDim.x / a.blocks)];
        if (end.arrive_at_end() + 1 == a.number * (u64)gridDim.x) {
            __threadfence_system();
            *(volatile u32*)a.done = a.number;
        }
    }
}
