// The kernel of teams: each team runs a whole plan. The source before this header defines
//
//     DEVICE void run_job(TeamBlock block, const Arguments& a, Job j, u32 shape)
//     DEVICE void load_weights(TeamBlock block, const Arguments& a)
//
// The first runs a tile of a job for a slice of its units, as a unit tile of a shape unless that is
// 0. The second loads the block's resident weights.
//
// A plan runs in sections with a barrier after each. In the first section each block copies its
// share of the command list to device memory, and loads its weights; every following section is a
// wave.
#pragma once
#include "ahead.h"
#include "copies.h"
#include "barrier.h"

// One of the two barriers that a team uses in turn. They are in different sectors of the cache: a
// block that still waits at one does not delay arrivals at the next.
struct alignas(64) TeamBarrier {
    Barrier barrier;
};

// A plan for a team (`TeamPart` of `device.rs`).
struct Part {
    // The first section fills `a.commands`.
    Arguments a;
    // The command list in host memory, aligned to 16 bytes; its length is a multiple of four words.
    const u32* host_commands;
    TeamBarrier* barriers;
    // The word of host memory that receives the launch number at the end.
    u32* done;
    // The counts of the barriers before the launch.
    u64 base[2];
    u64 timeout;
    u32 words, waves, number, job;

    // The barrier after a section, and its count when all blocks have arrived.
    DEVICE Barrier& barrier(u32 section) const { return barriers[section % 2].barrier; }
    DEVICE u64 all(u32 section, u32 blocks) const {
        return base[section % 2] + (u64)blocks * (section / 2 + 1);
    }
};

enum : u32 { MAX_PARTS = 32 };

struct TeamArguments {
    const u32* places;
    // The number of blocks of a team and of a group, and of floats of shared memory of a block: of
    // resident weights, and after them.
    u32 blocks, slices, resident, room;
    Part parts[MAX_PARTS];
};

DEVICE void section(TeamBlock block, const Part& part, u32 number) {
    const Arguments& a = part.a;
    if (number == 0) {
        block.superstep([&](u32 t) {
            u32 step = 4 * THREADS * block.blocks;
#pragma unroll 1
            for (u32 i = 4 * (block.index * THREADS + t); i < part.words; i += step)
                store4((float*)a.commands + i, load4((const float*)part.host_commands + i));
        });
        return load_weights(block, a);
    }
    u32 wave = number - 1;
    Ahead ahead{a, block, part.waves, part.job};
    PerThread<u32> loaded;
    // Before the first wave: all that it needs, and what others begin with.
#pragma unroll 1
    for (u32 n = wave == 0 ? 0 : wave + 3; n < wave + 3; ++n)
        block.superstep([&](u32 t) { ahead.store(t, n, ahead.load(t, n)); });
    block.unordered([&](u32 t) { loaded[t] = ahead.load(t, wave + 3); });
    Share share = ahead.first_share(wave);
#pragma unroll 1
    for (u32 n = 1; share.job != NONE; ++n) {
        bool known = n == 1 && share.most <= MOST_AHEAD;
        Job j = ahead.job(wave, share, known ? ahead.starts(wave) : block.ahead());
        run_job(block, a, j, share.shape);
        share = ahead.share(wave, n);
    }
    Wave own = ahead.wave(wave);
    if (own.copies > 0) copy_jobs(block, a, own.first_copy, own.copies);
    block.superstep([&](u32 t) { ahead.store(t, wave + 3, loaded[t]); });
}

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(THREADS, 1)
plan_kernel(const __grid_constant__ TeamArguments t) {
    const Part& part = t.parts[blockIdx.x / t.blocks];
    TeamBlock block{{t.resident, t.room}, blockIdx.x % t.blocks, t.blocks, t.slices, t.places};
    for (u32 number = 0;; ++number) {
        // Ends with the barrier of a superstep, so that thread 0 arrives after all writes.
        section(block, part, number);
        if (number == part.waves) break;
        bool on = threadIdx.x != 0 || arrive_and_wait(part.barrier(number),
                                                      part.all(number, t.blocks), part.timeout);
        if (!__syncthreads_and(on)) return;
    }
    if (threadIdx.x == 0) {
        // The host sees the outputs of all blocks before it sees the launch number.
        __threadfence_system();
        if (part.barrier(part.waves).arrive() + 1 == part.all(part.waves, t.blocks)) {
            __threadfence_system();
            *(volatile u32*)part.done = part.number;
        }
    }
}

#else

// Interleaves all teams: repeatedly chooses a random block that does not wait at a barrier, and
// runs its next section. Block `absent`, if it exists, never runs.
extern "C" void plan_kernel(const TeamArguments* t, u32 teams, u32 bytes, u32 seed, u32 absent) {
    struct alignas(16) Four {
        float x[4];
    };
    struct Team {
        u32 section, arrived;
    };
    Shuffle shuffle{seed};
    u32 blocks = t->blocks, fours = bytes / sizeof(Four);
    const float nan = from_bits(0x7fc00000u);
    std::vector<Four> shared(teams * blocks * (size_t)fours, Four{{nan, nan, nan, nan}});
    std::vector<u32> numbers(teams * blocks * (size_t)AHEAD);
    std::vector<Copies> copies(teams * blocks);
    std::vector<Team> states(teams, Team{0, 0});
    std::vector<TeamBlock> all;
    std::vector<u32> ready;
    for (u32 i = 0; i < teams * blocks; ++i) {
        float* own = shared[i * (size_t)fours].x;
        Block block{t->resident, t->room, own, &numbers[i * AHEAD], &shuffle, &copies[i]};
        all.push_back(TeamBlock{block, i % blocks, blocks, t->slices, t->places});
        if (i != absent) ready.push_back(i);
    }
    while (!ready.empty()) {
        std::swap(ready[shuffle.below((u32)ready.size())], ready.back());
        u32 index = ready.back(), team = index / blocks;
        ready.pop_back();
        const Part& part = t->parts[team];
        Team& state = states[team];
        // The rows of tiles do not outlive a section.
        for (u32 i = t->resident; i < 4 * fours; ++i) all[index].memory[i] = nan;
        section(all[index], part, state.section);
        Barrier& barrier = part.barrier(state.section);
        barrier.arrive();
        if (++state.arrived < blocks) continue;
        // Blocks of a real device wait until the barrier has this count.
        if (barrier.arrived() != part.all(state.section, blocks)) continue;
        state = Team{state.section + 1, 0};
        if (state.section > part.waves)
            // Other host threads may poll it at the same time.
            __atomic_store_n(part.done, part.number, __ATOMIC_RELEASE);
        else
            for (u32 i = 0; i < blocks; ++i)
                if (team * blocks + i != absent) ready.push_back(team * blocks + i);
    }
    for (u32 team = 0; team < teams; ++team)
        if (states[team].section <= t->parts[team].waves)
            t->parts[team].barrier(0).set_timed_out();
}

#endif
