// How a launch of teams begins: each team carries a whole plan out, on its own. It follows a source
// that defines `carry_out`, as `waves.h` has it.
//
// A plan is carried out in sections, after each of which the blocks of the team meet: first each
// takes its share of the tape to the device, then there is one a wave.
#pragma once
#include "copies.h"
#include "meet.h"

// A plan, of a launch (`device.rs`).
struct Part {
    // Its tape is filled by the first section.
    Arguments a;
    // The tape in the host's memory, from a multiple of 16 bytes: its words are a multiple of four.
    const u32* tape;
    Meeting* meeting;
    // Where the number of the launch is written, in the host's memory, when all is done.
    u32* done;
    // What the meeting had counted before.
    u64 base;
    u64 patience;
    u32 words, waves, number;
};

enum : u32 { MOST_PARTS = 32 };

struct TeamArguments {
    const u32* places;
    // Blocks of a team.
    u32 blocks;
    Part parts[MOST_PARTS];
};

DEVICE void section(Block& block, const Part& part, u32 number) {
    const Arguments& a = part.a;
    if (number == 0) {
        block.superstep([&](u32 t) {
            u32 step = 4 * THREADS * block.blocks;
            for (u32 i = 4 * (block.index * THREADS + t); i < part.words; i += step)
                store4((float*)a.tape + i, load4((const float*)part.tape + i));
        });
        return;
    }
    u32 at = a.tape[number], end = a.tape[number + 1];
    if (at < end && a.tape[at] >= GIVEN) return copy_jobs(block, a, at, end);
    // First those that blocks divide by their columns, then those that each is for one block.
    bool single = false;
    while (at < end) {
        const u32* job = a.tape + at;
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
        carry_out(block, a, job, slice, slices);
    }
}

#ifdef __CUDACC_RTC__

extern "C" __global__ void __launch_bounds__(THREADS, 1)
plan_kernel(const __grid_constant__ TeamArguments t) {
    extern __shared__ float4 shared[];
    const Part& part = t.parts[blockIdx.x / t.blocks];
    Block block{(float*)shared, blockIdx.x % t.blocks, t.blocks, t.places, 0};
    u64 all = part.base;
    for (u32 number = 0; number < part.waves; ++number) {
        section(block, part, number);
        all += t.blocks;
        __syncthreads();
        bool on = threadIdx.x != 0 || meet(*part.meeting, all, part.patience);
        if (!__syncthreads_and(on)) return;
    }
    section(block, part, part.waves);
    all += t.blocks;
    __syncthreads();
    if (threadIdx.x == 0) {
        // The host sees all that the blocks wrote for it before it sees that it is done.
        __threadfence_system();
        if (part.meeting->arrive() + 1 == all) {
            __threadfence_system();
            *(volatile u32*)part.done = part.number;
        }
    }
}

#else

#include <vector>

// All teams side by side: of the blocks that wait for nobody a random one takes its next section.
// Block `absent`, if there is one, never does.
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
        all.push_back(Block{own, i % blocks, blocks, &shuffle, t->places, 0});
        if (i != absent) ready.push_back(i);
    }
    while (!ready.empty()) {
        std::swap(ready[shuffle.below((u32)ready.size())], ready.back());
        u32 index = ready.back(), team = index / blocks;
        ready.pop_back();
        const Part& part = t->parts[team];
        Team& state = states[team];
        // Of one section the next one finds nothing in shared memory but kept weights.
        for (u32 i = 0; i < SHARED; ++i) all[index].shared[i] = nan;
        section(all[index], part, state.section);
        part.meeting->arrive();
        if (++state.arrived < blocks) continue;
        state = Team{state.section + 1, 0};
        // What a device would wait for, or not wait for.
        if (part.meeting->arrived() != part.base + (u64)blocks * state.section) continue;
        if (state.section > part.waves)
            // The host's threads read it meanwhile.
            __atomic_store_n(part.done, part.number, __ATOMIC_RELEASE);
        else
            for (u32 i = 0; i < blocks; ++i)
                if (team * blocks + i != absent) ready.push_back(team * blocks + i);
    }
    for (u32 team = 0; team < teams; ++team)
        if (states[team].section <= t->parts[team].waves) t->parts[team].meeting->set_late();
}

#endif
