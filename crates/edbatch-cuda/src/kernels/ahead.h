// What a block loads ahead of a wave: so that no load of its first job depends on another load. A
// job with more than `NEAR` operands is read from the list instead, except for its starts.
// The command list does not change after it is copied, so this is safe across barriers; except for
// the starts of rows that are looked up, in the wave before a job or earlier. `find_rows` loads
// those.
//
// While a block runs wave w, it loads the entry of wave w + 3, the jobs of wave w + 2, and the
// starts of the rows of its first tile of wave w + 1. It stores them in shared memory at the end.
#pragma once
#include "job.h"

// An entry of the command list: a wave. `tiles` is true if it has unit tiles alone, which publish
// all that they store.
struct Wave {
    u32 first_job, jobs, first_copy, copies;
    bool tiles;
};
enum : u32 { TILES_ONLY = 0x80000000u, RING = 5, BIG_RING };

// The most rows of a tile whose starts are loaded ahead.
enum : u32 { MOST_AHEAD = FOUND / NEAR };

// The jobs of a wave that are loaded ahead, and the words of each that are: the near operands'.
enum : u32 { JOBS = 3, JOB = 16 };

// The places in `Block::ahead`. First come the starts of a tile that are not loaded ahead; then
// four entries in turn, the jobs of three waves, and the starts and the share of two.
enum : u32 {
    ENTRIES = NEAR * UNIT_TILE,
    AHEAD_JOBS = ENTRIES + 4 * 4,
    STARTS = AHEAD_JOBS + 3 * JOBS * JOB,
    SHARES = STARTS + 2 * FOUND,
};
enum : u32 { SHARE = 8 };
static_assert(SHARES + 2 * SHARE <= AHEAD && AHEAD % 4 == 0, "all of it fits");

// The words of a phase in the placement: the first block of a group that has a slice of its units,
// the number of slices, the place of its weights, the stages of a ring (or the rows of a chunk on
// tensor cores, in eights), the rows of each shape, and
// from `CHOICES` on the shape of the first tile for each number of rows, eight to a word
// (`place.rs`).
enum : u32 { PLACE = 48, SHAPE_ROWS = 4, CHOICES = 16, CHOSEN = 256 };

// The calls of a job that each group of a team has.
DEVICE u32 calls_of_group(const TeamBlock& block, const u32* job) {
    u32 groups = block.blocks / block.slices;
    return (job[1] + groups - 1) / groups;
}

// The shape of the first of the unit tiles of a phase that have `rows` rows.
DEVICE u32 shape_of(const TeamBlock& block, u32 phase, u32 rows) {
    u32 known = rows < CHOSEN ? rows : CHOSEN - 1;
    return block.places[PLACE * phase + CHOICES + known / 8] >> known % 8 * 4 & 15;
}

// A block's n-th unit tile of a job, or none and the number of them in `count`. The groups of a
// team divide the calls, and the blocks of a group the units.
DEVICE Share unit_share(const TeamBlock& block, const u32* job, u32 n) {
    const u32* place = block.places + PLACE * job[0];
    u32 each = calls_of_group(block, job), first = block.index / block.slices * each;
    u32 slice = block.index % block.slices - place[0];
    u32 left = first < job[1] && slice < place[1] ? job[1] - first : 0, before = 0;
    left = left < each ? left : each;
#pragma unroll 1
    while (left > 0) {
        u32 shape = shape_of(block, job[0], left), most = place[SHAPE_ROWS + shape - 1];
        u32 count = left < most ? left : most;
        if (before++ == n) return {0, first, count, slice, place[1], shape, most};
        first += count, left -= count;
    }
    return {NONE, 0, before, 0, 0, 0, 0};
}

// A block's part of the command list, in shared memory and in the list.
struct Ahead {
    const Arguments& a;
    TeamBlock block;
    // The number of waves, and of the words of a job.
    u32 waves, words;

    DEVICE Wave wave(u32 number) const {
        const u32* own = block.ahead() + ENTRIES + number % 4 * 4;
        bool tiles = own[1] & TILES_ONLY;
        return {own[0], own[1] & ~TILES_ONLY, own[2], own[3], tiles};
    }
    // The starts of the rows of the block's first tile.
    DEVICE u32* starts(u32 number) const {
        return block.ahead() + STARTS + number % 2 * FOUND;
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
        const u32* own = block.ahead() + SHARES + number % 2 * SHARE;
        return {own[0], own[1], own[2], own[3], own[4], own[5], own[6]};
    }

    // True if the tiles of a wave load each row as soon as it is written, so that no barrier is
    // needed before the wave if all that it reads has been published.
    DEVICE bool polls(u32 number) const {
        Wave own = wave(number);
        bool all = own.tiles;
#pragma unroll 1
        for (u32 i = 0; i < own.jobs && all; ++i) {
            const u32* job = near(number, i);
            u32 shape = shape_of(block, job[0], calls_of_group(block, job));
            all = shape - RING > BIG_RING - RING;
        }
        return all;
    }

    // The n-th share of a wave that this block has.
    DEVICE Share share(u32 number, u32 n) const;

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
        if (n < 2 || t >= FOUND + SHARE) return 0;
        Share own = share(n - 2, 0);
        if (t >= FOUND) {
            u32 words[SHARE] = {own.job, own.first, own.count, own.slice, own.slices, own.shape,
                                own.most, 0};
            u32 word = 0;
#pragma unroll
            for (u32 i = 0; i < SHARE; ++i) word = t - FOUND == i ? words[i] : word;
            return word;
        }
        if (own.job == NONE || own.most > MOST_AHEAD) return 0;
        Job j = job(n - 2, own, block.ahead());
        u32 operand = t / own.most, r = t % own.most;
        bool known = operand < j.ahead() && operand < j.found() && r < j.count;
        return known ? row(j, operand, j.first + r) : 0;
    }
    DEVICE void store(u32 t, u32 n, u32 word) const {
        u32* to = block.ahead();
        if (t < 4) to[ENTRIES + n % 4 * 4 + t] = word;
        t -= 4;
        if (n >= 1 && t < JOBS * JOB) to[AHEAD_JOBS + (n - 1) % 3 * (JOBS * JOB) + t] = word;
        t -= JOBS * JOB;
        if (n < 2) return;
        if (t < FOUND) to[STARTS + n % 2 * FOUND + t] = word;
        t -= FOUND;
        if (t < SHARE) to[SHARES + n % 2 * SHARE + t] = word;
    }

    // The block's n-th tile of a wave, counted from 1.
    DEVICE Job tile(u32 number, Share share, u32 n) const {
        bool known = n == 1 && share.most <= MOST_AHEAD;
        return job(number, share, known ? starts(number) : block.ahead());
    }
    DEVICE Job job(u32 number, Share share, u32* starts) const {
        return Job(a, near(number, share.job), share, starts);
    }
};
static_assert(4 + JOBS * JOB + FOUND + SHARE <= THREADS, "a word a thread");

// The n-th share of a wave that this block has.
CALLED Share share_of(Ahead ahead, u32 number, u32 n) {
    const TeamBlock& block = ahead.block;
    u32 jobs = ahead.wave(number).jobs, before = 0;
#pragma unroll 1
    for (u32 i = 0; i < jobs; ++i) {
        const u32* job = ahead.near(number, i);
        u32 slices = job[4], own;
        if (slices == 0) {
            Share share = unit_share(block, job, n);
            if (share.job != NONE) return share.job = i, share;
            own = share.count;
        } else {
            u32 tile = job[6], all = (job[1] + tile - 1) / tile * slices;
            u32 next = (block.index + block.blocks - before % block.blocks) % block.blocks;
            own = next < all ? (all - next + block.blocks - 1) / block.blocks : 0;
            next += n * block.blocks;
            u32 first = next / slices * tile, left = job[1] - first;
            if (n < own)
                return {i, first, left < tile ? left : tile, next % slices, slices, 0, tile};
            before += all;
        }
        n -= own;
    }
    return {NONE, 0, 0, 0, 0, 0, 0};
}
DEVICE Share Ahead::share(u32 number, u32 n) const { return share_of(*this, number, n); }
