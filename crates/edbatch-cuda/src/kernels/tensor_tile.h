// Unit tiles on tensor cores (`tensor.h`). Rows are whole in shared memory, and are rounded when they
// are stored there: a chunk of rows at a time, in two buffers in turn. While a block computes a
// chunk, its threads have the loads of the next one under way, in registers. The weights of each
// product are packed by unit block:
//
//     [words / 4][BLOCK / 8][COLUMNS][8 units][4 words]
//
// A warp computes 8 units, or 16 with one column, of 8 or 16 rows. So a thread has all columns of a
// unit for two rows of each 8, and runs the element-wise steps on them.
#pragma once
#include "tile.h"

#ifdef TENSOR

// The words from one row in shared memory to the next.
template <class T> constexpr u32 row_words() { return T::DEPTH / OF_WORD + 4; }

// Stores the words of four elements in shared memory.
DEVICE void store_words(float* to, float4 x) {
#ifdef BF16
    store2(to, word(x.x, x.y), word(x.z, x.w));
#else
    store4(to, {word(x.x, 0), word(x.y, 0), word(x.z, 0), word(x.w, 0)});
#endif
}

// The fours of elements that a thread loads of a chunk: of the most rows that a chunk can have
// (`shapes.rs`).
template <class T> struct Chunk {
    static constexpr u32 FOURS = T::DEPTH / 4, FIT = 16 * THREADS / FOURS / 8 * 8;
    static constexpr u32 ROWS = FIT < 8 ? 8 : FIT < 32 ? FIT : 32;
    static constexpr u32 EACH = (ROWS * FOURS + THREADS - 1) / THREADS;
    float4 of[EACH];

    // Begins to load `count` rows, from row `first` on.
    DEVICE void load(const Job& j, u32 t, u32 first, u32 count) {
#pragma unroll
        for (u32 n = 0; n < EACH; ++n) {
            if (n * THREADS >= count * FOURS) break;
            u32 i = t + n * THREADS, k = i % FOURS * 4;
            const float* from = i < count * FOURS ? T::from(j, first + i / FOURS, k) : nullptr;
            of[n] = from != nullptr ? seen4(from) : float4{0.0f, 0.0f, 0.0f, 0.0f};
        }
    }
    // Stores the words of these rows, as soon as all are written.
    DEVICE void store(const Job& j, u32 t, u32 first, u32 count, float* rows) {
        Wait wait(j.a.limit);
        auto missing = [&] {
            bool any = false;
#pragma unroll
            for (u32 n = 0; n < EACH; ++n) {
                if (n * THREADS >= count * FOURS) break;
                any = any || !is_written(of[n]);
            }
            return any;
        };
        while (missing() && wait.goes_on()) load(j, t, first, count);
#pragma unroll
        for (u32 n = 0; n < EACH; ++n) {
            u32 i = t + n * THREADS, r = i / FOURS, k = i % FOURS * 4;
            if (i >= count * FOURS) break;
            float* to = rows + r * row_words<T>() + k / OF_WORD;
            if (T::REDUCES && T::from(j, first + r, k) == nullptr) T::reduce(j, first + r, k, to);
            else store_words(to, of[n]);
        }
    }
};

// The rows from `first` to `end` of a tile, in shared memory from `rows` on.
struct RowsOfTile {
    u32 first, end;
    const float* rows;
};

// The tiles of 16 columns of a warp, its units, and the units of a thread.
template <class T> struct OfWarp {
    static constexpr u32 TILES = T::COLUMNS > 1 ? T::COLUMNS / 2 : 1;
    static constexpr u32 UNITS = 16 * TILES / T::COLUMNS, EACH = UNITS / 8;
};

// The sums of a thread for R times 8 rows, and what else it has loaded of them.
template <class T, u32 R> struct WarpSums {
    TensorSums of[T::PRODUCTS][OfWarp<T>::TILES][R];
    typename T::Row values[2 * R][OfWarp<T>::EACH];
};

// The row of a thread's i-th one, of those from row `first` on.
DEVICE u32 row_of_warp(u32 lane, u32 first, u32 i) {
    return first + i / 2 * 8 + TensorSums::row(lane, i % 2);
}

// Clears the sums, and loads the other values.
template <class T, u32 R>
DEVICE void begin_warp(const Job& j, WarpSums<T, R>& sums, u32 lane, RowsOfTile own, u32 unit) {
    constexpr u32 TILES = OfWarp<T>::TILES, EACH = OfWarp<T>::EACH;
#pragma unroll
    for (u32 n = 0; n < 4 * R * TILES * T::PRODUCTS; ++n)
        sums.of[n / (4 * R * TILES)][n / (4 * R) % TILES][n / 4 % R].of[n % 4] = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 2 * R; ++i) {
        // The last row once more has no effect, and needs no branch.
        u32 r = row_of_warp(lane, own.first, i);
        r = r < own.end ? r : own.end - 1;
#pragma unroll
        for (u32 e = 0; e < EACH; ++e) sums.values[i][e] = T::load(j, r, unit + 8 * e);
    }
    end_of_loads();
}

// Adds the terms of product P and of all later ones: of two products of the same depth at a time,
// since their sums are independent. `x` is the first of the warp's `rows` rows, and `w` its first
// column.
template <class T, u32 R, u32 P = 0>
DEVICE void add_steps(WarpSums<T, R>& sums, u32 lane, const float* x, u32 rows, const float* w) {
    constexpr u32 ACROSS = T::BLOCK * T::COLUMNS, APART = row_words<T>();
    constexpr u32 BEGIN = begin_of<T>(P) / OF_WORD, WORDS = T::end(P) / OF_WORD - BEGIN;
    constexpr u32 NEXT = P + 1 < T::PRODUCTS ? P + 1 : P;
    constexpr bool TOGETHER = NEXT > P && T::end(NEXT) - T::end(P) == WORDS * OF_WORD;
#pragma unroll 4
    for (u32 k = 0; k < WORDS; k += STEP_WORDS) {
        const float *own = x + (BEGIN + k), *column = w + (BEGIN + k) * ACROSS;
        add_step<true>(sums.of[P], lane, column, ACROSS, own, APART, rows);
        if constexpr (TOGETHER)
            add_step<true>(sums.of[NEXT], lane, column + WORDS * ACROSS, ACROSS, own + WORDS, APART,
                           rows);
    }
    constexpr u32 LATER = NEXT + (TOGETHER ? 1 : 0);
    if constexpr (LATER > P && LATER < T::PRODUCTS)
        add_steps<T, R, LATER>(sums, lane, x, rows, w);
}

// Runs the element-wise steps of a thread's rows. `constants` are of its first unit.
template <class T, u32 R>
DEVICE void finish_warp(const Job& j, const WarpSums<T, R>& sums, u32 lane, RowsOfTile own,
                        u32 unit, const float* constants) {
    constexpr u32 EACH = OfWarp<T>::EACH;
#pragma unroll
    for (u32 i = 0; i < 2 * R; ++i) {
        u32 r = row_of_warp(lane, own.first, i);
        if (r >= own.end) continue;
#pragma unroll
        for (u32 e = 0; e < EACH; ++e) {
            float s[T::PRODUCTS][T::COLUMNS];
#pragma unroll
            for (u32 n = 0; n < T::PRODUCTS * T::COLUMNS; ++n) {
                u32 p = n / T::COLUMNS, c = n % T::COLUMNS, half = EACH == 2 ? e : c % 2;
                s[p][c] = sums.of[p][c / 2][i / 2].of[2 * half + i % 2];
            }
            T::finish(s, sums.values[i][e], constants + 8 * e, j, r, unit + 8 * e);
        }
    }
}

// Computes the first R times 8 of some rows, for the units of a warp. Its first one is `unit`,
// counted in the block's units.
template <class T, u32 R>
DEVICE void warp_tile(const Job& j, const UnitBlocks<T>& blocks, u32 lane, RowsOfTile own,
                      u32 unit) {
    constexpr u32 WEIGHTS = weights_of<T>(T::PRODUCTS), SIZE = WEIGHTS + T::CONSTANTS * T::BLOCK;
    const float* weights = blocks.weights + unit / T::BLOCK * SIZE;
    u32 of_block = unit % T::BLOCK, of_lane = blocks.own.first * T::BLOCK + unit + lane / 4;
    WarpSums<T, R> sums;
    begin_warp(j, sums, lane, own, of_lane);
    add_steps(sums, lane, own.rows, own.end - own.first, weights + 4 * T::COLUMNS * of_block);
    finish_warp(j, sums, lane, own, of_lane, weights + WEIGHTS + of_block + lane / 4);
}

// Computes rows of a tile, of which the warps of a block take units and rows in turn: 16 rows at a
// time if that is work for all of them.
template <class T>
DEVICE void compute_rows(const Job& j, const UnitBlocks<T>& blocks, u32 t, RowsOfTile all) {
    constexpr u32 WARPS = THREADS / 32, UNITS = OfWarp<T>::UNITS;
    u32 across = blocks.own.count * T::BLOCK / UNITS, count = all.end - all.first;
    u32 most = across * ((count + 15) / 16) >= WARPS ? 16 : 8;
    u32 items = across * ((count + most - 1) / most);
#pragma unroll 1
    for (u32 item = t / 32; item < items; item += WARPS) {
        u32 first = item / across * most, unit = item % across * UNITS;
        RowsOfTile own{all.first + first, all.end, all.rows + first * row_words<T>()};
        if (most > 8 && count - first > 8) warp_tile<T, 2>(j, blocks, t % 32, own, unit);
        else {
            own.end = own.first + 8 < own.end ? own.first + 8 : own.end;
            warp_tile<T, 1>(j, blocks, t % 32, own, unit);
        }
    }
}

// A tile. The placement has the rows of a chunk, in eights.
template <class T> DEVICE void tensor_tile(const TeamBlock& block, const Job& j) {
    UnitBlocks<T> blocks(block, j);
    Units units = blocks.own;
    units.first *= T::BLOCK, units.count *= T::BLOCK;
    u32 most = 8 * block.places[PLACE * j.phase() + 3];
    most = most < Chunk<T>::ROWS ? most : Chunk<T>::ROWS;
    auto count = [&](u32 first) {
        u32 left = first < j.count ? j.count - first : 0;
        return left < most ? left : most;
    };
    PerThread<Chunk<T>> next;
    block.unordered([&](u32 t) { next[t].load(j, t, 0, count(0)); });
    float* rows = block.shared();
#pragma unroll 1
    for (u32 first = 0; first < j.count; first += most) {
        block.superstep([&](u32 t) {
            next[t].store(j, t, first, count(first), rows);
            await_values<T>(j, units, t, first, count(first));
            next[t].load(j, t, first + most, count(first + most));
        });
        block.unordered([&](u32 t) {
            compute_rows(j, blocks, t, {first, first + count(first), rows});
        });
        rows = block.shared() + (rows == block.shared() ? most * row_words<T>() : 0);
    }
}

#endif
