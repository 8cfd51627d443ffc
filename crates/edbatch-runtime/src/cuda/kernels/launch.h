// How a launch begins. It follows a source that defines
//
//     DEVICE void wave(Block& block, const Arguments& a)
//
// which carries out the block's jobs of wave `a.wave`.
#pragma once
#include "block.h"

#ifdef __CUDACC_RTC__

// Room for two blocks on a processor: one computes while the other waits for its rows. Without that
// number the compiler would rather spill than let there be fewer than four.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
wave_kernel(const __grid_constant__ Arguments a) {
    __shared__ alignas(16) float shared[SHARED];
    Block block{shared, blockIdx.x, gridDim.x, nullptr, 0};
    wave(block, a);
}

#else

#include <vector>

// All blocks, one after the other in a shuffled order. None finds what another left in shared
// memory.
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
