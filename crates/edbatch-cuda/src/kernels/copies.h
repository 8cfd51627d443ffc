// Copies of values into and out of the arena: `CopyJob` of `command_list.rs`. A source that defines
// `LOSSES` also has the jobs of losses.
#pragma once
#include "barrier.h"
#include "outputs.h"
#ifdef LOSSES
#include "loss.h"
#endif

enum : u32 {
    GIVEN = 0xffffffffu - 8, INITIAL, STORED, OUTPUT, STORE, ARG_MAX, LOOK_UP, LOSS, LOSS_SUM
};

// The line of the store that a job names: 16 floats.
DEVICE float* line(const Arguments& a, const u32* job) { return a.store + 16ull * job[1]; }

// True if a job copies elements.
DEVICE bool copies_elements(const u32* job) { return job[0] < ARG_MAX; }

// Copies element `i` of such a job.
DEVICE void copy_element(const Arguments& a, const u32* job, u32 i) {
    switch (job[0]) {
    case GIVEN: put(a.arena + job[2] + i, a.given[job[1] + i]); break;
    case INITIAL: put(a.arena + job[2] + i, fresh(a.masters + job[1] + i)); break;
    case STORED: put(a.arena + job[2] + i, fresh(line(a, job) + i)); break;
    case OUTPUT: a.outputs[job[2] + i] = fresh(a.arena + job[1] + i); break;
    case STORE: line(a, job)[i] = fresh(a.arena + job[2] + i); break;
    }
}

// Set in the index of an argmax if an element is not finite: `NOT_FINITE` of `command_list.rs`.
constexpr u32 NOT_FINITE = 0x80000000u;

CALLED void arg_max_job(Block block, Arguments a, const u32* job) {
    const u32* pieces = a.commands + job[1];
    u32 width = 0;
    for (u32 p = 0; p < job[2]; ++p) width += pieces[2 * p + 1];
    auto from = [&](u32 i) {
        u32 p = 0;
        for (; i >= pieces[2 * p + 1]; ++p) i -= pieces[2 * p + 1];
        return fresh(a.arena + pieces[2 * p] + i);
    };
    arg_max(block, from, width, [&](u32 i, u32 finite) {
        // A barrier comes before the wave that reads the word, as this one has copies.
        if (job[0] == LOOK_UP) ((u32*)a.commands)[job[3]] = pieces[-2] + pieces[-1] * i;
        else a.indices[job[3]] = finite ? i : i | NOT_FINITE;
    });
}

// Runs `count` copies from word `first` on, on all blocks of a team. Rows are short, so each warp
// copies a row.
CALLED void copy_jobs(TeamBlock block, Arguments a, u32 first, u32 count) {
    block.superstep([&](u32 t) {
        u32 warp = block.index * (THREADS / 32) + t / 32;
        for (u32 i = warp; i < count; i += THREADS / 32 * block.blocks) {
            const u32* own = a.commands + first + 4 * i;
#ifdef LOSSES
            if (own[0] == LOSS && own[3] <= NARROW) narrow_losses(a, own, t % 32);
#endif
            if (!copies_elements(own)) continue;
            for (u32 i = t % 32; i < own[3]; i += 32) copy_element(a, own, i);
        }
    });
#pragma unroll 1
    for (u32 i = block.index; i < count; i += block.blocks) {
        const u32* own = a.commands + first + 4 * i;
        if (own[0] == ARG_MAX || own[0] == LOOK_UP) arg_max_job(block, a, own);
#ifdef LOSSES
        if (own[0] == LOSS && own[3] > NARROW) wide_losses(block, a, own);
        if (own[0] == LOSS_SUM) sum_losses(block, a, own);
#endif
    }
}
