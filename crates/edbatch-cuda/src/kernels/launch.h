// The kernel that runs one wave. The source before this header defines
//
//     DEVICE void wave(Block& block, const Arguments& a)
//
// which runs the block's jobs of wave `a.wave`.
#pragma once
#include "block.h"

#ifdef __CUDACC_RTC__

// Two blocks per SM: one computes while the other waits for its rows. Without the 2, the compiler
// would spill registers to fit four blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
wave_kernel(const __grid_constant__ Arguments a) {
    __shared__ alignas(16) float shared[SHARED];
    Block block{shared, blockIdx.x, gridDim.x, nullptr, 0};
    wave(block, a);
}

#else

#include <vector>

// Runs all blocks one after the other, in a shuffled order. Shared memory does not outlive a block.
extern "C" void wave_kernel(const Arguments* a, u32 blocks, u32 seed) {
    Shuffle shuffle{seed};
    std::vector<u32> order(blocks);
    shuffle.shuffle(order.data(), blocks);
    alignas(16) static thread_local float shared[SHARED];
    for (u32 index : order) {
        for (float& x : shared) x = from_bits(0x7fc00000u);
        Block block{shared, index, blocks, &shuffle, nullptr, 0};
        wave(block, *a);
    }
}

#endif
