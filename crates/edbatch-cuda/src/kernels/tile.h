// Unit tiles: phases of products and element-wise steps whose weights stay in shared memory.
//
// A thread owns neighbouring columns of a unit block, so the sums of all gates of a unit, for some
// of the tile's rows. The element-wise steps run on these sums, in registers. The source has a
// struct T for each kind of phase (`source/tiles.rs`):
//
//     UNITS                          the units of the phase
//     BLOCK                          the units of a unit block, 8 or 16
//     PRODUCTS, COLUMNS              the products, and their most columns for each unit: 1, 2 or 4
//     columns(p)                     the columns of product p: COLUMNS, or 1 of 2
//     end(p), DEPTH                  the end of product p's terms in a row of all products' terms
//     CONSTANTS                      the number of parameters that the steps read
//     READS                          a bit for each operand whose rows are read
//     from(j, r, k)                  the place of elements k..k + 4 of row r, or null
//     REDUCES, reduce(j, r, k, to)   1 if some are not in memory, and stores the words of these
//     Row, load(j, r, u)             what else the steps read of a row and a unit
//     WAITS, is_written(x)           1 if there is any, and true if it was written when loaded
//     finish(s, x, c, j, r, u)       the steps; s has the sums, c the constants of the unit block
//     each_read(j, r, f)             calls f(from, count) for all that is read of row r
//
// Tiles whose rows are whole in shared memory need no barrier before their wave: they load each row
// until it is written (`NOT_WRITTEN`).
//
// The weights of each product are packed [terms][BLOCK][columns(p)] for a unit block, followed by
// constants, [CONSTANTS][BLOCK]. Gates of a weight are together, so that sums and weights are in
// different banks of registers.
#pragma once
#include "ahead.h"
#include "steps.h"

// The threads that compute a tile whose rows are whole in shared memory.
enum : u32 { COMPUTING = 128 };

// The terms of a stage of a ring, and the distance of its rows.
enum : u32 { STAGE_TERMS = 32, STAGE_APART = STAGE_TERMS + 4 };

// The first term of product p, and where its weights begin in a unit block.
template <class T> constexpr u32 begin_of(u32 p) { return p == 0 ? 0 : T::end(p - 1); }
template <class T> constexpr u32 weights_of(u32 p) {
    return p == 0 ? 0
                  : weights_of<T>(p - 1) +
                        (T::end(p - 1) - begin_of<T>(p - 1)) / OF_WORD * T::BLOCK *
                            T::columns(p - 1);
}

// The sizes of a shape: a thread has G columns of R rows, ROW_GROUPS rows apart.
template <class T, u32 G_, u32 R_, u32 THREADS_> struct Sizes {
    static constexpr u32 G = G_, R = R_, WIDTH = T::BLOCK * T::COLUMNS, ACROSS = WIDTH / G;
    static constexpr u32 ROW_GROUPS = THREADS_ / ACROSS, MAX_ROWS_OF_TILE = ROW_GROUPS * R;
    // The units of a thread. Two threads share a unit with four columns if they have two each.
    static constexpr u32 EACH = G > T::COLUMNS ? G / T::COLUMNS : 1;
    static constexpr bool SHARED_UNIT = G < T::COLUMNS;
    static constexpr u32 WEIGHTS = weights_of<T>(T::PRODUCTS);
    static constexpr u32 SIZE = WEIGHTS + T::CONSTANTS * T::BLOCK;
    // The rows whose other values are loaded at a time after the products.
    static constexpr u32 BATCH = 64 / (EACH * sizeof(typename T::Row)) + 1;
    // True if other values are loaded before the products.
    static constexpr bool EARLY = R * EACH * sizeof(typename T::Row) <= 64;
};

// The sums of a thread and what else it has loaded.
template <class T, class S> struct TileSums {
    float of[T::PRODUCTS][S::R][S::G];
    typename T::Row values[S::R][S::EACH];
};

// A thread's first column, in G columns, its first row, and the first row of its warp. The address
// of weights is independent of bit 0 of the lane, and the address of rows of bit 1: so a load of four
// floats takes half the time.
struct Lane {
    u32 column, row, first;
};
template <class S> DEVICE Lane lane_of(u32 t) {
    constexpr u32 ROWS_OF_WARP = S::G >= 4 ? 4 : 2, MOST = 32 / ROWS_OF_WARP;
    constexpr u32 ACROSS = S::ACROSS < MOST ? S::ACROSS : MOST, WARPS = S::ACROSS / ACROSS;
    u32 l = t % 32, warp = t / 32;
    u32 column = S::G >= 4 ? (l >> 1 & 1) + (l >> 3) * 2 : l >> 1;
    u32 row = S::G >= 4 ? (l & 1) + (l >> 2 & 1) * 2 : l & 1;
    u32 first = warp / WARPS * (32 / ACROSS);
    return {column % ACROSS + warp % WARPS * ACROSS, first + row + column / ACROSS * ROWS_OF_WARP,
            first};
}

// A product in a shape: the columns of a thread, and of a unit block.
template <class T, class S, u32 P> struct Product {
    static constexpr u32 G = S::G * T::columns(P) / T::COLUMNS, WIDTH = T::BLOCK * T::columns(P);
    static constexpr u32 START = weights_of<T>(P), LOADED = G < 4 ? G : 4;
    // The weights of a thread for the first term.
    static DEVICE const float* weights(const float* all, Lane lane) {
        return all + START + lane.column * LOADED;
    }
    // Loads a thread's weights for a term.
    static DEVICE void load_weights(float (&to)[G], const float* from) {
#pragma unroll
        for (u32 g = 0; g < G; g += LOADED) load((float(&)[LOADED])to[g], from + g * S::ACROSS);
    }
};

// Adds four terms of a product. `x` is a thread's first row, and rows are APART floats apart.
template <class P, class S, u32 APART>
DEVICE void add_terms(float (&sums)[S::R][S::G], const float* x, const float* w) {
    float a[S::R][4], b[4][P::G];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) P::load_weights(b[k], w + k * P::WIDTH);
#pragma unroll
    for (u32 r = 0; r < S::R; ++r) load(a[r], x + r * APART);
#pragma unroll
    for (u32 k = 0; k < 4; ++k)
#pragma unroll
        for (u32 r = 0; r < S::R; ++r)
#pragma unroll
            for (u32 g = 0; g < P::G; ++g) sums[r][g] = fma_(a[r][k], b[k][g], sums[r][g]);
}

template <class T, class S> DEVICE void clear(TileSums<T, S>& sums) {
#pragma unroll
    for (u32 p = 0; p < T::PRODUCTS; ++p)
#pragma unroll
        for (u32 r = 0; r < S::R; ++r)
#pragma unroll
            for (u32 g = 0; g < S::G; ++g) sums.of[p][r][g] = 0.0f;
}

// Adds the terms of product P and of all later ones. Thin tiles add the terms of two products of
// the same depth at a time: their chains are independent.
template <class T, class S, u32 P = 0>
DEVICE void multiply_all(TileSums<T, S>& sums, const float* x, const float* weights, Lane lane) {
    constexpr u32 APART = S::ROW_GROUPS * (T::DEPTH + 4);
    constexpr u32 BEGIN = begin_of<T>(P), TERMS = T::end(P) - BEGIN;
    constexpr u32 NEXT = P + 1 < T::PRODUCTS ? P + 1 : P;
    constexpr bool TOGETHER = NEXT > P && S::R * S::G <= 4 && T::end(NEXT) == T::end(P) + TERMS;
    using First = Product<T, S, P>;
    using Second = Product<T, S, NEXT>;
    const float* w = First::weights(weights, lane);
    // If both have the same columns, a pointer and its constant distance from `w` for the compiler.
    const float* next = w + (Second::START - First::START);
    if constexpr (Second::G != First::G) next = Second::weights(weights, lane);
    x += BEGIN;
#pragma unroll(STAGE_TERMS / 4)
    for (u32 k = 0; k < TERMS; k += 4) {
        add_terms<First, S, APART>(sums.of[P], x + k, w + k * First::WIDTH);
        if constexpr (TOGETHER)
            add_terms<Second, S, APART>(sums.of[NEXT], x + k + TERMS, next + k * Second::WIDTH);
    }
    x -= BEGIN;
    constexpr u32 LATER = NEXT + (TOGETHER ? 1 : 0);
    if constexpr (LATER > P && LATER < T::PRODUCTS)
        multiply_all<T, S, LATER>(sums, x, weights, lane);
}

// Loads the other values of a thread's rows.
template <class T, class S>
DEVICE void load_values(const Job& j, TileSums<T, S>& sums, Lane lane, u32 unit, u32 from = 0,
                        u32 to = S::R) {
#pragma unroll
    for (u32 i = from; i < to; ++i) {
        u32 r = lane.row + i * S::ROW_GROUPS;
        // The last row once more has no effect, and needs no branch.
        r = r < j.count ? r : j.count - 1;
#pragma unroll
        for (u32 e = 0; e < S::EACH; ++e) sums.values[i][e] = T::load(j, r, unit + e);
    }
    end_of_loads();
}

// The first unit of a thread in a unit block.
template <class T, class S> DEVICE u32 unit_of(Lane lane) {
    return lane.column * S::G / T::COLUMNS;
}

// Runs the element-wise steps of a thread's rows.
template <class T, class S, bool LOADED>
DEVICE void finish_rows(const Job& j, PerThread<TileSums<T, S>>& sums, u32 t, Lane lane,
                        u32 unit_block, const float* constants) {
    u32 own = unit_of<T, S>(lane), half = lane.column % 2;
#pragma unroll
    for (u32 i = 0; i < S::R; ++i) {
        if (!LOADED && i % S::BATCH == 0)
            load_values<T, S>(j, sums[t], lane, unit_block * T::BLOCK + own, i,
                              i + S::BATCH < S::R ? i + S::BATCH : S::R);
        u32 r = lane.row + i * S::ROW_GROUPS;
#pragma unroll
        for (u32 e = 0; e < S::EACH; ++e) {
            float s[T::PRODUCTS][T::COLUMNS];
#pragma unroll
            for (u32 p = 0; p < T::PRODUCTS; ++p)
#pragma unroll
                for (u32 c = 0; c < T::COLUMNS; ++c) {
                    if constexpr (S::SHARED_UNIT) {
                        auto of = [=](TileSums<T, S>& all) { return all.of[p][i][c % S::G]; };
                        float mine = of(sums[t]), its = sums.other(t, 2, of);
                        s[p][c] = c / S::G == half ? mine : its;
                    } else if (c < T::columns(p))
                        s[p][c] = sums[t].of[p][i][e * T::columns(p) + c];
                }
            if (r >= j.count || (S::SHARED_UNIT && half != i % 2)) continue;
            T::finish(s, sums[t].values[i][e], constants + own + e, j, r,
                      unit_block * T::BLOCK + own + e);
        }
    }
}

// The unit blocks of a block, and their weights.
template <class T> struct UnitBlocks {
    Units own;
    const float* weights;
    DEVICE UnitBlocks(const TeamBlock& block, const Job& j)
        : own(T::UNITS / T::BLOCK, j),
          weights(block.weights() + block.places[PLACE * j.phase() + 2]) {}
};

// Waits until the other values of some units are written, of `count` rows from row `first` on.
template <class T>
DEVICE void await_values(const Job& j, const Units& units, u32 t, u32 first, u32 count) {
    u32 all = T::WAITS ? count * units.count : 0;
#pragma unroll 1
    for (u32 i = t; i < all; i += THREADS) {
        Wait wait(j.a.limit);
        u32 r = first + i / units.count, u = units.first + i % units.count;
        while (!T::is_written(T::load(j, r, u)) && wait.goes_on()) {}
    }
}

// Loads a thread's share of the rows of a tile as soon as they are written, up to eight fours of
// floats at a time, and waits until the other values of some units are written.
template <class T>
DEVICE void gather(const Block& block, const Job& j, const Units& units, u32 t) {
    constexpr u32 APART = T::DEPTH + 4, FOURS = T::DEPTH / 4, AT_ONCE = 8;
    u32 all = j.count * FOURS;
#pragma unroll 1
    for (u32 first = t; first < all; first += AT_ONCE * THREADS) {
        float4 x[AT_ONCE];
        Wait wait(j.a.limit);
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 n = 0; n < AT_ONCE; ++n) {
                u32 i = first + n * THREADS;
                const float* from = i < all ? T::from(j, i / FOURS, i % FOURS * 4) : nullptr;
                if (from != nullptr) x[n] = seen4(from);
                else x[n] = {0.0f, 0.0f, 0.0f, 0.0f};
            }
#pragma unroll
            for (u32 n = 0; n < AT_ONCE; ++n) missing = missing || !is_written(x[n]);
        } while (missing && wait.goes_on());
#pragma unroll
        for (u32 n = 0; n < AT_ONCE; ++n) {
            u32 i = first + n * THREADS, r = i / FOURS, k = i % FOURS * 4;
            if (i >= all) break;
            float* to = block.shared() + r * APART + k;
            if (T::REDUCES && T::from(j, r, k) == nullptr) T::reduce(j, r, k, to);
            else store4(to, x[n]);
        }
    }
    await_values<T>(j, units, t, 0, j.count);
}

// A tile whose rows are whole in shared memory.
template <class T, u32 G, u32 R> DEVICE void whole_tile(const TeamBlock& block, const Job& j) {
    using S = Sizes<T, G, R, COMPUTING>;
    constexpr u32 APART = T::DEPTH + 4;
    if constexpr (S::MAX_ROWS_OF_TILE <= UNIT_TILE) {
        UnitBlocks<T> blocks(block, j);
        Units units = blocks.own;
        units.first *= T::BLOCK, units.count *= T::BLOCK;
        block.superstep([&](u32 t) { gather<T>(block, j, units, t); });
#pragma unroll 1
        for (u32 b = 0; b < blocks.own.count; ++b) {
            const float* weights = blocks.weights + b * S::SIZE;
            u32 unit_block = blocks.own.first + b;
            PerThread<TileSums<T, S>> sums;
            block.unordered([&](u32 t) {
                Lane lane = lane_of<S>(t);
                if (t >= COMPUTING || lane.first >= j.count) return;
                if (S::EARLY)
                    load_values<T, S>(j, sums[t], lane,
                                      unit_block * T::BLOCK + unit_of<T, S>(lane));
                clear<T, S>(sums[t]);
                multiply_all<T, S>(sums[t], block.shared() + lane.row * APART, weights, lane);
            });
            block.unordered([&](u32 t) {
                Lane lane = lane_of<S>(t);
                if (t < COMPUTING && lane.first < j.count)
                    finish_rows<T, S, S::EARLY>(j, sums, t, lane, unit_block,
                                                weights + S::WEIGHTS);
            });
        }
    }
}

// A tile without products: the steps of its rows, each as soon as what it reads is written.
template <class T> DEVICE void element_tile(const TeamBlock& block, const Job& j) {
    UnitBlocks<T> blocks(block, j);
    block.unordered([&](u32 t) {
        u32 units = blocks.own.count * T::BLOCK;
#pragma unroll 1
        for (u32 i = t; i < j.count * units; i += THREADS) {
            u32 r = i / units, of_slice = i % units;
            u32 u = blocks.own.first * T::BLOCK + of_slice;
            Wait wait(j.a.limit);
            auto x = T::load(j, r, u);
            while (!T::is_written(x) && wait.goes_on()) x = T::load(j, r, u);
            const float none[1][1] = {};
            u32 of_block = of_slice / T::BLOCK * (T::CONSTANTS * T::BLOCK);
            T::finish(none, x, blocks.weights + of_block + of_slice % T::BLOCK, j, r, u);
        }
    });
}

// Tiles of many rows (`ring.h`).
template <class T> DEVICE void ring_tile(const TeamBlock& block, const Job& j);
template <class T> CALLED void big_tile(TeamBlock block, Job j);

#ifdef TENSOR
// Runs a unit tile on tensor cores (`tensor_tile.h`).
template <class T> DEVICE void tensor_tile(const TeamBlock& block, const Job& j);
#endif

// Runs a unit tile in its shape, one of those with a bit in SHAPES. The numbers of shapes begin
// with 1 (`shapes.rs`). Threads may still read shared memory when others have ended.
template <class T, u32 SHAPES> DEVICE void unit_tile(const TeamBlock& block, Job j, u32 shape) {
    find_rows(block, j, T::READS);
    j.first = opaque(j.first), j.count = opaque(j.count);
    if constexpr (T::PRODUCTS == 0) return element_tile<T>(block, j);
    else {
#ifdef TENSOR
        return tensor_tile<T>(block, j);
#else
        if constexpr ((SHAPES & 1) != 0)
            if (shape == 1) return whole_tile<T, 2, 1>(block, j);
        if constexpr ((SHAPES & 2) != 0)
            if (shape == 2) return whole_tile<T, 2, 2>(block, j);
        if constexpr ((SHAPES & 4) != 0)
            if (shape == 3) return whole_tile<T, 4, 2>(block, j);
        if constexpr ((SHAPES & 8) != 0)
            if (shape == 4) return whole_tile<T, 4, 4>(block, j);
        if constexpr ((SHAPES & 32) != 0 && T::BLOCK * T::COLUMNS == 64)
            if (shape == BIG_RING) return big_tile<T>(block, j);
        if constexpr ((SHAPES & 16) != 0) ring_tile<T>(block, j);
#endif
    }
}

#ifndef __CUDACC_RTC__
// Returns a float that a unit tile reads and that is not written yet, or a null pointer.
template <class T> const float* not_written(const TeamBlock& block, const Job& j) {
    const float* found = nullptr;
    find_rows(block, j, T::READS);
    for (u32 r = 0; r < j.count; ++r)
        T::each_read(j, r, [&](const float* x, u32 count) {
            for (u32 i = 0; i < count; ++i)
                if (!is_written(x[i])) found = x + i;
        });
    return found;
}
#endif

// The unit blocks of a phase: their start in the weights, their number and their size in floats.
struct Resident {
    u64 start;
    u32 phase, blocks, size;
};

// Loads the weights of a block's unit blocks into shared memory, where they stay until the plan
// ends. The host decides their places (`place.rs`), which are the same for all blocks of a team.
CALLED void load_resident(TeamBlock block, const float* weights, const Resident* all, u32 count) {
    block.superstep([&](u32 t) {
#pragma unroll 1
        for (const Resident* of = all; of < all + count; ++of) {
            const u32* place = block.places + PLACE * of->phase;
            u32 slice = block.index % block.slices - place[0];
            if (slice >= place[1]) continue;
            Units own(of->blocks, slice, place[1]);
            const float* from = weights + of->start + (u64)own.first * of->size;
            float* to = block.weights() + place[2];
#pragma unroll 4
            for (u32 i = 4 * t; i < own.count * of->size; i += 4 * THREADS)
                store4(to + i, constant4(from + i));
        }
    });
}
