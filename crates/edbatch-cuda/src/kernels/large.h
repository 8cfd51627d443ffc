// Products of many rows with packed weights. A block computes tiles of 64 columns and of 64 or 16
// rows; a thread computes four columns of four rows or of one. The rows and the weights of a few
// terms at a time pass through a ring of stages in shared memory. On tensor cores (`tensor.h`), a
// warp computes four tiles of 16 columns and 8 rows, or one, and the depth is whole steps.
#pragma once
#include "small.h"
#include "tile.h"

// The rows of a tile of 64 columns, and the most stages of a ring.
enum : u32 { LARGE_TILE = 64, MAX_STAGES = 4 };

template <u32 R_> struct LargeSizes {
    static constexpr u32 G = 4, R = R_, WIDTH = 64, ACROSS = WIDTH / G;
    static constexpr u32 ROW_GROUPS = THREADS / ACROSS, MAX_ROWS_OF_TILE = ROW_GROUPS * R;
    // The words of a stage: rows, then weights [words / 4][WIDTH][4]. Pairs of floats of eight rows
    // are in different banks if rows are eight floats further apart than the banks.
    static constexpr u32 APART = OF_WORD == 2 ? STAGE_TERMS + 8 : (u32)STAGE_APART;
    static constexpr u32 WEIGHTS = MAX_ROWS_OF_TILE * APART, WORDS = STAGE_TERMS / OF_WORD;
    static constexpr u32 STAGE = WEIGHTS + WORDS * WIDTH;
};
static_assert(LargeSizes<4>::MAX_ROWS_OF_TILE == LARGE_TILE, "");
static_assert(LargeSizes<1>::MAX_ROWS_OF_TILE == TILE, "");
static_assert(2 * LargeSizes<4>::STAGE <= ROWS, "there is room for two stages");

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

#ifdef TENSOR

// A thread's sums, and the first column and row of the tiles of its warp.
template <u32 R> struct LargeSums {
    static constexpr u32 EACH = R == 1 ? 1 : 2, ACROSS = 4 / EACH;
    TensorSums of[EACH][EACH];
    static DEVICE u32 column(u32 t) { return t / 32 % ACROSS * EACH * 16; }
    static DEVICE u32 row(u32 t) { return t / 32 / ACROSS * EACH * 8; }

    DEVICE void clear() {
#pragma unroll
        for (u32 i = 0; i < EACH * EACH * 4; ++i) of[i / 4 / EACH][i / 4 % EACH].of[i % 4] = 0.0f;
    }
};

// Adds the terms of a stage.
template <u32 R>
DEVICE void add_stage(LargeSums<R>& sums, const Job& j, u32 t, u32 terms, const float* stage) {
    using S = LargeSizes<R>;
    u32 column = LargeSums<R>::column(t), row = LargeSums<R>::row(t);
    // True for all threads of a warp or for none.
    if (row >= j.count) return;
    const float* w = stage + S::WEIGHTS + 4 * column;
    auto add = [&](u32 first) {
#pragma unroll
        for (u32 k = first; k < first + STAGE_TERMS / 2; k += STEP)
            add_step<false>(sums.of, t % 32, w + k / OF_WORD * S::WIDTH, S::WIDTH,
                            stage + row * S::APART + k, S::APART, j.count - row);
    };
    add(0);
    if (terms == STAGE_TERMS) add(STAGE_TERMS / 2);
}

// Stores the sums of a thread.
template <u32 R>
DEVICE void finish_large(const Block& block, const Job& j, LargeSums<R>& sums, u32 t,
                         const Columns& columns, u32 first, Own out, Rows before) {
    constexpr u32 EACH = LargeSums<R>::EACH;
#pragma unroll
    for (u32 i = 0; i < EACH * EACH * 2; ++i) {
        u32 c = i / 2 / EACH, r = i / 2 % EACH, n = i % 2 * 2, lane = t % 32;
        u32 q = first + LargeSums<R>::column(t) + 16 * c + TensorSums::column(lane, n);
        u32 row = LargeSums<R>::row(t) + 8 * r + TensorSums::row(lane, n);
        if (q >= columns.count || row >= j.count) continue;
        Sums own;
        own.of[0] = sums.of[c][r].of[n], own.of[1] = sums.of[c][r].of[n + 1];
        finish<2>(block, j, own, columns.number(q), row, 1, out, before);
    }
}

#else

template <u32 R> struct LargeSums {
    float of[R][4];

    DEVICE void clear() {
#pragma unroll
        for (u32 i = 0; i < R * 4; ++i) of[i / 4][i % 4] = 0.0f;
    }
};

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

// Adds the terms of a stage.
template <u32 R>
DEVICE void add_stage(LargeSums<R>& sums, const Job& j, u32 t, u32 terms, const float* stage) {
    using S = LargeSizes<R>;
    Lane lane = lane_of<S>(t);
    if (lane.first >= j.count) return;
    const float* a = stage + lane.row * STAGE_APART;
    const float* w = stage + S::WEIGHTS + 4 * lane.column;
    if (terms == STAGE_TERMS) {
#pragma unroll
        for (u32 k = 0; k < STAGE_TERMS; k += 4) add_four<S>(sums.of, a + k, w + k * S::WIDTH);
    } else {
#pragma unroll 1
        for (u32 k = 0; k < terms; k += 4) add_four<S>(sums.of, a + k, w + k * S::WIDTH);
    }
}

// Stores the sums of a thread.
template <u32 R>
DEVICE void finish_large(const Block& block, const Job& j, LargeSums<R>& sums, u32 t,
                         const Columns& columns, u32 first, Own out, Rows before) {
    using S = LargeSizes<R>;
    Lane lane = lane_of<S>(t);
#pragma unroll
    for (u32 g = 0; g < 4; ++g) {
        u32 q = first + lane.column + g * S::ACROSS;
        if (q >= columns.count || lane.row >= j.count) continue;
        Sums own;
#pragma unroll
        for (u32 r = 0; r < R; ++r) own.of[r] = sums.of[r][g];
        finish<R>(block, j, own, columns.number(q), lane.row, S::ROW_GROUPS, out, before);
    }
}

#endif

// Computes 64 columns of a slice, from column `first` on, of all rows of a tile.
template <u32 R>
DEVICE void large_tile(const Block& block, const Job& j, Rows x, const Columns& columns, u32 first,
                       Own out, Rows before) {
    using S = LargeSizes<R>;
    PerThread<LargeSums<R>> sums;
    block.unordered([&](u32 t) { sums[t].clear(); });
    auto fetch = [&](u32 t, u32 from, u32 terms, float* stage) {
#pragma unroll 2
        for (u32 i = t; i < j.count * (STAGE_TERMS / 4); i += THREADS) {
            u32 r = i / (STAGE_TERMS / 4), k = i % (STAGE_TERMS / 4) * 4;
            if (k < terms) block.fetch(t, stage + r * S::APART + k, x.row(j, r) + from + k);
        }
        // A thread copies the weights of one column. On tensor cores, other columns of a tile are
        // copies of the last one: what else is in shared memory may not be rounded.
        u32 q = first + t % S::WIDTH;
#ifdef TENSOR
        q = q < columns.count ? q : columns.count - 1;
#else
        if (q >= columns.count) return;
#endif
        const float* fours = columns.from(q, from / OF_WORD);
#pragma unroll
        for (u32 k = t / S::WIDTH; k < S::WORDS / 4; k += THREADS / S::WIDTH)
            if (4 * k < terms / OF_WORD)
                block.fetch(t, stage + S::WEIGHTS + 4 * (k * S::WIDTH + t % S::WIDTH),
                            fours + (u64)k * columns.step());
    };
    each_stage<S>(block, columns.stack.depth, fetch, [&](u32 t, u32 terms, const float* stage) {
        add_stage<R>(sums[t], j, t, terms, stage);
    });
    block.superstep([&](u32 t) {
        finish_large<R>(block, j, sums[t], t, columns, first, out, before);
    });
}

// Like `small`, for tiles of up to 64 rows. The depth is a multiple of four, or of 16 on tensor
// cores, and the places of the rows are multiples of four.
CALLED void large(Block block, Job j, Rows x, Stack stack, Own out, Rows before) {
    Columns columns(stack, Units(stack.units, j), j.a.weights);
#pragma unroll 1
    for (u32 first = 0; first < columns.count; first += LargeSizes<1>::WIDTH) {
        if (j.most > TILE) large_tile<4>(block, j, x, columns, first, out, before);
        else large_tile<1>(block, j, x, columns, first, out, before);
    }
}
