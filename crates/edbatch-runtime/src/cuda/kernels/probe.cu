// What a device takes for launches, meetings, copies and multiplications: a launch does as much of
// each as its arguments say (`measure.rs`).
#include "meet.h"

struct ProbeArguments {
    // One for each team and one for all blocks, 256 bytes apart.
    Meeting* meetings;
    const float4* from;
    float4* to;
    // A float of each thread, if there are chains.
    float* ends;
    // Where the number of the launch is written, in the host's memory, when all is done.
    u32* done;
    u64 patience;
    // Copied; terms of each chain; meetings of each team.
    u32 fours, terms, rounds;
    // Blocks of a team, and the number of the launch, counted from 1.
    u32 blocks, number;
};

// Side by side in a thread; independent of each other.
enum : u32 { CHAINS = 8 };

// Loads that a thread has under way.
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

    const u32 apart = 256 / sizeof(Meeting);
    Meeting& team = a.meetings[apart * (blockIdx.x / a.blocks)];
    u64 all = (a.number - 1) * (u64)a.rounds * a.blocks;
    for (u32 round = 0; round < a.rounds; ++round) {
        all += a.blocks;
        __syncthreads();
        bool on = threadIdx.x != 0 || meet(team, all, a.patience);
        if (!__syncthreads_and(on)) return;
    }

    // As a plan ends: the host sees what the blocks wrote for it before it sees that it is done.
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        Meeting& end = a.meetings[apart * (gridDim.x / a.blocks)];
        if (end.arrive() + 1 == a.number * (u64)gridDim.x) {
            __threadfence_system();
            *(volatile u32*)a.done = a.number;
        }
    }
}
