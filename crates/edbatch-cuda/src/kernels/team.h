// The kernel of teams: each team runs a whole plan. The source before this header defines
//
//     DEVICE void run_job(TeamBlock block, const Arguments& a, Job j, u32 shape)
//     DEVICE void load_weights(TeamBlock block, const Arguments& a)
//     const float* missing_row(TeamBlock block, Job j), on the host
//
// The first runs a tile of a job for a slice of its units, as a unit tile of a shape unless that is
// 0. The second loads the block's resident weights. The third returns a float that a unit tile
// reads and that is not written yet, or null.
//
// A plan runs in sections. In the first section each block copies its share of the command list to
// device memory, and loads its weights; every following section is a wave. Before a wave is a
// barrier, unless its tiles wait for each row, and all that was stored since the last barrier has
// been published.
//
// A launch may be one of a step of training (`stage.h`). If the launch before it did not end well,
// it does nothing.
#pragma once
#include "ahead.h"
#include "copies.h"
#include "stage.h"

// One of the two barriers that a team uses in turn. They are in different sectors of the cache: a
// block that still waits at one does not delay arrivals at the next.
struct alignas(64) TeamBarrier {
    Barrier barrier;
};

// The end of a plan, in host memory (`Ticket` of `device.rs`).
struct Ticket {
    // The launch number, when the plan has ended.
    u32 number, padding;
    // The time when the team's first block began and when the last one ended, in nanoseconds.
    u64 began, ended;
    // The cycle of its SM when the first block began and when it ended, and the time of its end.
    u64 cycle_began, cycle_ended, first_ended;

    DEVICE void begin() { began = nanoseconds(), cycle_began = cycles(); }
    DEVICE void end_first() { cycle_ended = cycles(), first_ended = nanoseconds(); }
};

// A plan for a team (`TeamPart` of `device.rs`).
struct Part {
    // The first section fills `a.commands`. The limit names the first of the two barriers.
    Arguments a;
    // The command list in host memory, aligned to 16 bytes; its length is a multiple of four words.
    const u32* host_commands;
    Ticket* ticket;
    // Floats that the launch clears: those that the previous plan wrote, in another arena, for the
    // next plan; or the own arena, before the first wave.
    float* cleared;
    u32 clear;
    u32 words, waves, number, job;

    // Barrier n of the launch, and its count when all blocks have arrived.
    DEVICE Barrier& barrier(u32 n) const { return ((TeamBarrier*)a.limit.barrier)[n % 2].barrier; }
    DEVICE u64 all(u32 n, u32 blocks) const { return (u64)blocks * (n / 2 + 1); }
};

enum : u32 { MAX_PARTS = 32 };

struct TeamArguments {
    const u32* places;
    // The number of blocks of a team and of a group, and of floats of shared memory of a block: of
    // resident weights, and after them. Then, 1 if a barrier comes before every wave.
    u32 blocks, slices, resident, room, barriers;
    Part parts[MAX_PARTS];
    // The state of the step that the launch belongs to, or null, and its number in the step.
    Stage* stage;
    u64 launch;

    DEVICE bool is_skipped() const { return stage != nullptr && !stage->is_before(launch); }
};

// Where a block is in its plan.
struct Progress {
    // The next section, and the number of barriers that the block has passed.
    u32 section, passed;
    // True if all that was stored since the last barrier has been published.
    bool published;
};

// A plan of training has the whole arena of its part, which is cleared before the first wave. Other
// plans use two arenas in turn, and the first wave clears the one for the next plan.
#ifdef TRAINED
constexpr u32 CLEARING = 0;
#else
constexpr u32 CLEARING = 1;
#endif

// Runs the next section of a block.
DEVICE void section(TeamBlock block, const Part& part, Progress& at) {
    const Arguments& a = part.a;
    u32 number = at.section++;
    auto clear = [&](u32 t) {
        const float not_written = from_bits(NOT_WRITTEN);
        float4 four{not_written, not_written, not_written, not_written};
        u32 step = 4 * THREADS * block.blocks;
#pragma unroll 1
        for (u32 i = 4 * (block.index * THREADS + t); i < part.clear; i += step)
            store4(part.cleared + i, four);
    };
    if (number == 0) {
        block.superstep([&](u32 t) {
            u32 step = 4 * THREADS * block.blocks;
#pragma unroll 1
            for (u32 i = 4 * (block.index * THREADS + t); i < part.words; i += step)
                store4((float*)a.commands + i, load4((const float*)part.host_commands + i));
        });
        if (CLEARING == 0) block.superstep(clear);
        at.published = false;
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
        // A unit tile ends without a barrier.
        if (n > 1) block.superstep([](u32) {});
        run_job(block, a, ahead.tile(wave, share, n), share.shape);
        share = ahead.share(wave, n);
    }
    Wave own = ahead.wave(wave);
    if (own.copies > 0) copy_jobs(block, a, own.first_copy, own.copies);
    if (wave == 0 && CLEARING == 1) block.unordered(clear);
    at.published = at.published && own.tiles;
    // Its barrier ends the section. It replaces nothing that is read before it in the next one, so
    // that one may begin without a barrier.
    block.superstep([&](u32 t) { ahead.store(t, wave + 3, loaded[t]); });
}

// True if a barrier comes before the next section of a block, a wave.
DEVICE bool needs_barrier(const TeamArguments& t, TeamBlock block, const Part& part,
                          const Progress& at) {
    if (t.barriers || !at.published) return true;
    return !Ahead{part.a, block, part.waves, part.job}.polls(at.section - 1);
}

#ifdef __CUDACC_RTC__

// Counts a team after all writes of its blocks. The last team of a launch ends it.
CALLED void end_team(Stage* stage, u32 blocks) {
    if ((stage->arrive() + 1) * blocks == gridDim.x) stage->end(stage->done + 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
plan_kernel(const __grid_constant__ TeamArguments t) {
    if (t.is_skipped()) return;
    const Part& part = t.parts[blockIdx.x / t.blocks];
    TeamBlock block{{t.resident, t.room}, blockIdx.x % t.blocks, t.blocks, t.slices, t.places};
    bool is_first = block.index == 0 && threadIdx.x == 0;
    if (is_first) part.ticket->begin();
    Progress at{0, 0, true};
#pragma unroll 1
    while (at.section <= part.waves) {
        if (at.section > 0 && needs_barrier(t, block, part, at)) {
            u64 all = part.all(at.passed, t.blocks);
            bool on = threadIdx.x != 0 ||
                      arrive_and_wait(part.barrier(at.passed), all, part.a.limit);
            if (!__syncthreads_and(on)) return;
            ++at.passed, at.published = true;
        }
        // Ends with the barrier of a superstep, so that thread 0 arrives after all writes.
        section(block, part, at);
    }
    if (is_first) part.ticket->end_first();
    if (threadIdx.x == 0) {
        // The host sees the outputs of all blocks before it sees the launch number.
        __threadfence_system();
        Barrier& last = part.barrier(at.passed);
        bool is_last = last.arrive_at_end() + 1 == part.all(at.passed, t.blocks);
        if (is_last && !part.a.limit.barrier->has_timed_out()) {
            part.barrier(0).count = part.barrier(1).count = 0;
            part.ticket->ended = nanoseconds();
            __threadfence_system();
            *(volatile u32*)&part.ticket->number = part.number;
            if (t.stage != nullptr) end_team(t.stage, t.blocks);
        }
    }
}

#else

// The first float that a wave of a block reads and that is not written yet, or null.
inline const float* missing(TeamBlock block, const Part& part, u32 wave) {
    Ahead ahead{part.a, block, part.waves, part.job};
    Share share = ahead.first_share(wave);
    for (u32 n = 1; share.job != NONE; ++n) {
        const float* found = missing_row(block, ahead.tile(wave, share, n));
        if (found != nullptr) return found;
        share = ahead.share(wave, n);
    }
    return nullptr;
}

// Interleaves all blocks: repeatedly chooses a random block that does not wait at a barrier or for
// a row, and runs its next section. Block `absent`, if it exists, never runs. Returns 0; or, if a
// block waits for a float that no block writes, its wave + 1 and its place in the arena.
extern "C" u64 plan_kernel(const TeamArguments* t, u32 teams, u32 bytes, u32 seed, u32 absent) {
    struct alignas(16) Four {
        float x[4];
    };
    struct State : Progress {
        bool has_arrived;
    };
    if (t->is_skipped()) return 0;
    Shuffle shuffle{seed};
    u32 blocks = t->blocks, fours = bytes / sizeof(Four);
    const float nan = from_bits(0x7fc00000u);
    std::vector<Four> shared(teams * blocks * (size_t)fours, Four{{nan, nan, nan, nan}});
    std::vector<u32> numbers(teams * blocks * (size_t)AHEAD);
    std::vector<Copies> copies(teams * blocks);
    std::vector<State> states(teams * blocks, State{{0, 0, true}, false});
    std::vector<TeamBlock> all;
    std::vector<u32> running, left(teams, blocks);
    u64 waits_for = 0;
    for (u32 i = 0; i < teams * blocks; ++i) {
        float* own = shared[i * (size_t)fours].x;
        Block block{t->resident, t->room, own, &numbers[i * AHEAD], &shuffle, &copies[i]};
        all.push_back(TeamBlock{block, i % blocks, blocks, t->slices, t->places});
        if (i != absent) running.push_back(i);
    }
    auto can_go_on = [&](u32 i) {
        const Part& part = t->parts[i / blocks];
        State& at = states[i];
        if (at.section == 0) return true;
        if (needs_barrier(*t, all[i], part, at)) {
            Barrier& barrier = part.barrier(at.passed);
            if (!at.has_arrived) barrier.arrive();
            at.has_arrived = true;
            // Blocks of a real device wait until the barrier has this count.
            if (barrier.arrived() != part.all(at.passed, blocks)) return false;
            ++at.passed, at.published = true, at.has_arrived = false;
            return true;
        }
        const float* found = missing(all[i], part, at.section - 1);
        if (found != nullptr) waits_for = (u64)at.section << 32 | (u32)(found - part.a.arena);
        return found == nullptr;
    };
    for (u32 team = 0; team < teams; ++team) t->parts[team].ticket->begin();
    while (!running.empty()) {
        u32 first = shuffle.below((u32)running.size()), n = 0;
        waits_for = 0;
        while (n < running.size() && !can_go_on(running[(first + n) % running.size()])) ++n;
        if (n == running.size()) break;
        u32& chosen = running[(first + n) % running.size()];
        u32 index = chosen, team = index / blocks;
        const Part& part = t->parts[team];
        State& at = states[index];
        // The rows of tiles do not outlive a section.
        for (u32 i = t->resident; i < 4 * fours; ++i) all[index].memory[i] = nan;
        section(all[index], part, at);
        if (at.section <= part.waves) continue;
        chosen = running.back();
        running.pop_back();
        part.barrier(at.passed).arrive();
        if (--left[team] > 0) continue;
        if (part.a.limit.barrier->has_timed_out()) continue;
        part.barrier(0).count = part.barrier(1).count = 0;
        part.ticket->end_first();
        part.ticket->ended = nanoseconds();
        // Other host threads may poll it at the same time.
        __atomic_store_n(&part.ticket->number, part.number, __ATOMIC_RELEASE);
        if (t->stage != nullptr && t->stage->arrive() + 1 == teams) t->stage->end(t->launch);
    }
    for (u32 team = 0; team < teams; ++team)
        if (left[team] > 0) t->parts[team].barrier(0).set_timed_out();
    return waits_for;
}

#endif
