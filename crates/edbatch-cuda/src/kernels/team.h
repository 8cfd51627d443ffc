// The kernel of teams: each team runs a whole plan. The source before this header defines
//
//     DEVICE void run_job(Block block, const Arguments& a, const u32* job, u32 slice, u32 slices)
//     DEVICE void load_weights(Block block, const Arguments& a)
//
// The first runs a job, a copy or a phase for a slice of its units. The second loads the block's
// resident weights.
//
// A plan runs in sections with a barrier after each. In the first section each block copies its
// share of the command list to device memory, and loads its weights; every following section is a
// wave.
#pragma once
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
    u32 words, waves, number;

    // The barrier after a section, and its count when all blocks have arrived.
    DEVICE Barrier& barrier(u32 section) const { return barriers[section % 2].barrier; }
    DEVICE u64 all(u32 section, u32 blocks) const {
        return base[section % 2] + (u64)blocks * (section / 2 + 1);
    }
};

enum : u32 { MAX_PARTS = 32 };

struct TeamArguments {
    const u32* places;
    // The number of blocks of a team.
    u32 blocks;
    Part parts[MAX_PARTS];
};

DEVICE void section(Block block, const Part& part, u32 number) {
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
    u32 at = a.commands[number], end = a.commands[number + 1];
    if (at < end && a.commands[at] >= GIVEN) return copy_jobs(block, a, at, end);
    // First the jobs that all blocks divide by columns, then the jobs that are for one block each.
    bool single = false;
    while (at < end) {
        const u32* job = a.commands + at;
        u32 slice = job[4], slices = job[5];
        if (slices == 0) {
            const u32* place = block.places + 2 * job[0];
            slice = block.index - place[0];
            slices = place[1];
            at += 6;
            if (slice >= slices) continue;
        } else if (!single) {
            single = true;
            at += 6 * block.index;
            continue;
        } else {
            at += 6 * block.blocks;
        }
        run_job(block, a, job, slice, slices);
    }
}

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(THREADS, 1)
plan_kernel(const __grid_constant__ TeamArguments t) {
    const Part& part = t.parts[blockIdx.x / t.blocks];
    Block block{blockIdx.x % t.blocks, t.blocks, t.places};
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

#include <vector>

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
    std::vector<Team> states(teams, Team{0, 0});
    std::vector<Block> all;
    std::vector<u32> ready;
    for (u32 i = 0; i < teams * blocks; ++i) {
        float* own = shared[i * (size_t)fours].x;
        all.push_back(Block{i % blocks, blocks, t->places, own, &shuffle});
        if (i != absent) ready.push_back(i);
    }
    while (!ready.empty()) {
        std::swap(ready[shuffle.below((u32)ready.size())], ready.back());
        u32 index = ready.back(), team = index / blocks;
        ready.pop_back();
        const Part& part = t->parts[team];
        Team& state = states[team];
        // Shared memory outside of resident weights does not outlive a section.
        for (u32 i = 0; i < SHARED; ++i) all[index].memory[i] = nan;
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
