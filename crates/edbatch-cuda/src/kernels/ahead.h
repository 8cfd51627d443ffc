// What a block loads ahead of a wave: so that no load of its first job depends on another load. A
// job with more than `NEAR` operands is read from the list instead, except for its starts.
// The command list does not change after it is copied, so this is safe across barriers.
//
// While a block runs wave w, it loads the entry of wave w + 3, the jobs of wave w + 2, and the
// starts of the rows of its first tile of wave w + 1. It stores them in shared memory at the end.
#pragma once
#include "job.h"

// An entry of the command list: a wave.
struct Wave {
    u32 first_job, jobs, first_copy, copies;
};

// A block's share of a wave: a tile of a job, and a slice of its units; or none.
struct Share {
    u32 job, tile, slice, slices;
};
enum : u32 { NONE = 0xffffffffu };

// The jobs of a wave that are loaded ahead, and the words of each that are: the near operands'.
enum : u32 { JOBS = 3, JOB = 16 };

// The places in `Block::ahead`. First come the starts of a tile that are not loaded ahead; then
// four entries in turn, the jobs of three waves, and the starts and the share of two.
enum : u32 {
    ENTRIES = FOUND * TILE,
    AHEAD_JOBS = ENTRIES + 4 * 4,
    STARTS = AHEAD_JOBS + 3 * JOBS * JOB,
    SHARES = STARTS + 2 * FOUND * TILE,
};
static_assert(SHARES + 2 * 4 <= AHEAD, "all of it fits");

// A block's part of the command list, in shared memory and in the list.
struct Ahead {
    const Arguments& a;
    const Block& block;
    // The number of waves, and of the words of a job.
    u32 waves, words;

    DEVICE Wave wave(u32 number) const {
        const u32* own = block.ahead() + ENTRIES + number % 4 * 4;
        return {own[0], own[1], own[2], own[3]};
    }
    // The starts of the rows of the block's first tile.
    DEVICE u32* starts(u32 number) const {
        return block.ahead() + STARTS + number % 2 * (FOUND * TILE);
    }
    // The words of a job in the list.
    DEVICE const u32* all(u32 number, u32 job) const {
        return a.commands + wave(number).first_job + job * words;
    }
    // The words of a job: those loaded ahead if it is one of the first and has few operands.
    DEVICE const u32* near(u32 number, u32 job) const {
        const u32* own = block.ahead() + AHEAD_JOBS + (number % 3 * JOBS + job) * JOB;
        return job < JOBS && own[5] <= NEAR ? own : all(number, job);
    }
    DEVICE Share first_share(u32 number) const {
        const u32* own = block.ahead() + SHARES + number % 2 * 4;
        return {own[0], own[1], own[2], own[3]};
    }

    // The n-th share of a wave that this block has. First come the tiles of jobs whose units all
    // blocks divide, then the others, which are for one block each.
    DEVICE Share share(u32 number, u32 n) const {
        u32 jobs = wave(number).jobs, before = 0;
#pragma unroll 1
        for (u32 i = 0; i < jobs; ++i) {
            const u32* job = near(number, i);
            u32 tiles = (job[1] + TILE - 1) / TILE, slices = job[4], own, slice;
            if (slices == 0) {
                const u32* place = block.places + 2 * job[0];
                slice = block.index - place[0], slices = place[1];
                own = slice < slices ? tiles : 0;
                if (n < own) return {i, n, slice, slices};
            } else {
                u32 all = tiles * slices;
                u32 next = (block.index + block.blocks - before % block.blocks) % block.blocks;
                own = next < all ? (all - next + block.blocks - 1) / block.blocks : 0;
                next += n * block.blocks;
                if (n < own) return {i, next / slices, next % slices, slices};
                before += all;
            }
            n -= own;
        }
        return {NONE, 0, 0, 0};
    }

    // The word that a thread loads for wave `n` - 3, of the entry of wave `n`, of a job of the wave
    // before, or of the share of the wave before that. Later `store` puts it in its place.
    DEVICE u32 load(u32 t, u32 n) const {
        if (t < 4) return n < waves ? a.commands[4 * (n + 1) + t] : 0;
        t -= 4;
        if (t < JOBS * JOB) {
            u32 job = t / JOB;
            bool has = n >= 1 && job < wave(n - 1).jobs;
            return has ? all(n - 1, job)[t % JOB] : 0;
        }
        t -= JOBS * JOB;
        if (n < 2 || t >= FOUND * TILE + 4) return 0;
        Share own = share(n - 2, 0);
        if (t >= FOUND * TILE) {
            t -= FOUND * TILE;
            return t == 0 ? own.job : t == 1 ? own.tile : t == 2 ? own.slice : own.slices;
        }
        if (own.job == NONE) return 0;
        Job j = job(n - 2, own, block.ahead());
        u32 operand = t / TILE, r = t % TILE;
        return operand < j.operands() && r < j.count ? row(j, operand, j.first + r) : 0;
    }
    DEVICE void store(u32 t, u32 n, u32 word) const {
        u32* to = block.ahead();
        if (t < 4) to[ENTRIES + n % 4 * 4 + t] = word;
        t -= 4;
        if (n >= 1 && t < JOBS * JOB) to[AHEAD_JOBS + (n - 1) % 3 * (JOBS * JOB) + t] = word;
        t -= JOBS * JOB;
        if (n < 2) return;
        if (t < FOUND * TILE) to[STARTS + n % 2 * (FOUND * TILE) + t] = word;
        t -= FOUND * TILE;
        if (t < 4) to[SHARES + n % 2 * 4 + t] = word;
    }

    DEVICE Job job(u32 number, Share share, u32* starts) const {
        return Job(a, near(number, share.job), share.tile, share.slice, share.slices, starts);
    }
};
static_assert(4 + JOBS * JOB + FOUND * TILE + 4 <= THREADS, "a word a thread");
