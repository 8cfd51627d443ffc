// A kernel whose blocks wait for no other block, so that any number of them can run. The source
// before this header defines
//
//     struct Work, the arguments, which begin with `Stage* stage; u64 launch; Result* result;`
//     DEVICE void run_block(const Block& block, const Work& work, u32 index)
//     DEVICE void end_work(const Block& block, const Work& work), by the last block that ends
//
// The last launch of a step has a result, which it tells the host, also if a launch before it did
// not end well.
#pragma once
#include "stage.h"

DEVICE void tell(const Work& work) {
    if (work.result != nullptr) work.result->tell(*work.stage, work.launch);
}

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(THREADS)
grid_kernel(const __grid_constant__ Work work) {
    Stage& stage = *work.stage;
    if (!stage.is_before(work.launch)) {
        if (blockIdx.x + threadIdx.x == 0) tell(work);
        return;
    }
    Block block{0, 0};
    run_block(block, work, blockIdx.x);
    __syncthreads();
    bool is_last = threadIdx.x == 0 && stage.arrive() + 1 == gridDim.x;
    if (!__syncthreads_or(is_last)) return;
    end_work(block, work);
    __syncthreads();
    if (threadIdx.x > 0) return;
    stage.end(work.launch);
    tell(work);
}

#else

// Runs the blocks in a shuffled order. Block `absent`, if it exists, never ends.
extern "C" void grid_kernel(const Work* work, u32 blocks, u32 bytes, u32 seed, u32 absent) {
    struct alignas(16) Four {
        float x[4];
    };
    Stage& stage = *work->stage;
    if (!stage.is_before(work->launch)) return tell(*work);
    Shuffle shuffle{seed};
    std::vector<u32> order(blocks), numbers(AHEAD);
    shuffle.shuffle(order.data(), blocks);
    const float nan = from_bits(0x7fc00000u);
    auto with_block = [&](auto run) {
        std::vector<Four> shared(bytes / sizeof(Four), Four{{nan, nan, nan, nan}});
        Copies copies;
        run(Block{0, 0, shared[0].x, numbers.data(), &shuffle, &copies});
    };
    for (u32 index : order) {
        if (index == absent) continue;
        with_block([&](const Block& block) { run_block(block, *work, index); });
        if (stage.arrive() + 1 < blocks) continue;
        with_block([&](const Block& block) { end_work(block, *work); });
        stage.end(work->launch);
        tell(*work);
    }
}

#endif
