// Products of many rows with packed weights. A block computes tiles of 64 columns and of 64 or 16
// rows; a thread computes four columns of four rows or of one. The rows and the weights of a few
// terms at a time pass through a ring of stages in shared memory.
#pragma once
#include "small.h"
#include "tile.h"

// The rows of a tile of 64 columns, and the most stages of a ring.
enum : u32 { LARGE_TILE = 64, MAX_STAGES = 4 };

template <u32 R_> struct LargeSizes {
    static constexpr u32 G = 4, R = R_, WIDTH = 64, ACROSS = WIDTH / G;
    static constexpr u32 ROW_GROUPS = THREADS / ACROSS, MAX_ROWS_OF_TILE = ROW_GROUPS * R;
    // The floats of a stage: rows, then weights [terms / 4][WIDTH][4].
    static constexpr u32 WEIGHTS = MAX_ROWS_OF_TILE * STAGE_APART;
    static constexpr u32 STAGE = WEIGHTS + STAGE_TERMS * WIDTH;
};
static_assert(LargeSizes<4>::MAX_ROWS_OF_TILE == LARGE_TILE, "");
static_assert(LargeSizes<1>::MAX_ROWS_OF_TILE == TILE, "");
static_assert(2 * LargeSizes<4>::STAGE <= ROWS, "there is room for two stages");

template <u32 R> struct LargeSums {
    float of[R][4];
};

// Calls add(t, terms, stage) for each stage of `depth` terms, once fetch(t, from, terms, stage) has
// loaded it. All threads must call it.
template <class S, class Fetch, class Add>
DEVICE void each_stage(const Block& block, u32 depth, Fetch fetch, Add add) {
    u32 count = (depth + STAGE_TERMS - 1) / STAGE_TERMS, most = block.room / S::STAGE;
    u32 stages = most < MAX_STAGES ? most : (u32)MAX_STAGES;
    auto terms = [=](u32 n) {
        u32 left = depth - n * STAGE_TERMS;
        return left < STAGE_TERMS ? left : (u32)STAGE_TERMS;
    };
    auto stage = [&](u32 n) { return block.shared() + n % stages * S::STAGE; };
    auto begin = [&](u32 t, u32 n) {
        if (n < count) fetch(t, n * STAGE_TERMS, terms(n), stage(n));
        block.commit(t);
    };
    block.unordered([&](u32 t) {
#pragma unroll 1
        for (u32 n = 0; n < stages - 1; ++n) begin(t, n);
    });
#pragma unroll 1
    for (u32 n = 0; n < count; ++n) {
        block.arrived(stages - 2);
        block.unordered([&](u32 t) {
            begin(t, n + stages - 1);
            add(t, terms(n), (const float*)stage(n));
        });
    }
}

// Adds four terms. `x` is a thread's first row, and `w` its first column.
template <class S>
DEVICE void add_four(float (&sums)[S::R][S::G], const float* x, const float* w) {
    float a[S::R][4], b[S::G][4];
#pragma unroll
    for (u32 g = 0; g < S::G; ++g) load(b[g], w + 4 * g * S::ACROSS);
#pragma unroll
    for (u32 r = 0; r < S::R; ++r) load(a[r], x + r * S::ROW_GROUPS * STAGE_APART);
#pragma unroll
    for (u32 k = 0; k < 4; ++k)
#pragma unroll
        for (u32 r = 0; r < S::R; ++r)
#pragma unroll
            for (u32 g = 0; g < S::G; ++g) sums[r][g] = fma_(a[r][k], b[g][k], sums[r][g]);
}

// Computes 64 columns of a slice, from column `first` on, of all rows of a tile.
template <u32 R>
DEVICE void large_tile(const Block& block, const Job& j, Rows x, const Columns& columns, u32 first,
                       Own out, Rows before) {
    using S = LargeSizes<R>;
    PerThread<LargeSums<R>> sums;
    block.unordered([&](u32 t) {
#pragma unroll
        for (u32 i = 0; i < R * 4; ++i) sums[t].of[i / 4][i % 4] = 0.0f;
    });
    auto fetch = [&](u32 t, u32 from, u32 terms, float* stage) {
#pragma unroll 2
        for (u32 i = t; i < j.count * (STAGE_TERMS / 4); i += THREADS) {
            u32 r = i / (STAGE_TERMS / 4), k = i % (STAGE_TERMS / 4) * 4;
            if (k < terms) block.fetch(t, stage + r * STAGE_APART + k, x.row(j, r) + from + k);
        }
        // A thread copies the weights of one column.
        u32 q = first + t % S::WIDTH;
        if (q >= columns.count) return;
        const float* fours = columns.from(q, from);
#pragma unroll
        for (u32 k = t / S::WIDTH; k < STAGE_TERMS / 4; k += THREADS / S::WIDTH)
            if (4 * k < terms)
                block.fetch(t, stage + S::WEIGHTS + 4 * (k * S::WIDTH + t % S::WIDTH),
                            fours + (u64)k * columns.step());
    };
    each_stage<S>(block, columns.stack.depth, fetch, [&](u32 t, u32 terms, const float* stage) {
        Lane lane = lane_of<S>(t);
        if (lane.first >= j.count) return;
        const float* a = stage + lane.row * STAGE_APART;
        const float* w = stage + S::WEIGHTS + 4 * lane.column;
        if (terms == STAGE_TERMS) {
#pragma unroll
            for (u32 k = 0; k < STAGE_TERMS; k += 4)
                add_four<S>(sums[t].of, a + k, w + k * S::WIDTH);
        } else {
#pragma unroll 1
            for (u32 k = 0; k < terms; k += 4) add_four<S>(sums[t].of, a + k, w + k * S::WIDTH);
        }
    });
    block.superstep([&](u32 t) {
        Lane lane = lane_of<S>(t);
#pragma unroll
        for (u32 g = 0; g < 4; ++g) {
            u32 q = first + lane.column + g * S::ACROSS;
            if (q >= columns.count || lane.row >= j.count) continue;
            Sums own;
#pragma unroll
            for (u32 r = 0; r < R; ++r) own.of[r] = sums[t].of[r][g];
            finish<R>(block, j, own, columns.number(q), lane.row, S::ROW_GROUPS, out, before);
        }
    });
}

// Like `small`, for tiles of up to 64 rows. The depth is a multiple of four, and so are the places
// of the rows.
CALLED void large(Block block, Job j, Rows x, Stack stack, Own out, Rows before) {
    Columns columns(stack, Units(stack.units, j), j.a.weights);
#pragma unroll 1
    for (u32 first = 0; first < columns.count; first += LargeSizes<1>::WIDTH) {
        if (j.most > TILE) large_tile<4>(block, j, x, columns, first, out, before);
        else large_tile<1>(block, j, x, columns, first, out, before);
    }
}
