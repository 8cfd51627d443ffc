// Unit tiles (`tile.h`) of many rows, which pass through a ring of stages in shared memory. All that
// such a tile reads must have been written before its wave.
#pragma once
#include "tile.h"

// Adds the terms of product P and of all later ones, which arrive in the stages of a ring.
template <class T, class S, u32 P = 0, class Ring>
DEVICE void multiply_chunks(const TeamBlock& block, const Job& j, PerThread<TileSums<T, S>>& sums,
                            const float* weights, const Ring& ring) {
    using Own = Product<T, S, P>;
    constexpr u32 BEGIN = begin_of<T>(P);
#pragma unroll 1
    for (u32 from = BEGIN; from < T::end(P); from += STAGE_TERMS) {
        const float* stage = ring.next(from / STAGE_TERMS);
        block.unordered([&](u32 t) {
            Lane lane = lane_of<S>(t);
            if (lane.first >= j.count) return;
            const float* x = stage + lane.row * STAGE_APART;
            u32 start = from * Own::WIDTH + (Own::START - BEGIN * Own::WIDTH);
            const float* w = weights + start + lane.column * Own::G;
#pragma unroll
            for (u32 k = 0; k < STAGE_TERMS; k += 4)
                add_terms<Own, S, S::ROW_GROUPS * STAGE_APART>(sums[t].of[P], x + k,
                                                               w + k * Own::WIDTH);
        });
    }
    if constexpr (P + 1 < T::PRODUCTS)
        multiply_chunks<T, S, P + 1>(block, j, sums, weights, ring);
}

// A ring of stages in shared memory, through which the rows of a tile pass.
template <class T, u32 ROWS> struct Ring {
    static constexpr u32 CHUNKS = T::DEPTH / STAGE_TERMS, FOURS = STAGE_TERMS / 4;
    const TeamBlock& block;
    const Job& j;
    u32 stages;

    // The placement counts stages of UNIT_TILE rows.
    DEVICE Ring(const TeamBlock& block, const Job& j)
        : block(block), j(j),
          stages(block.places[PLACE * j.phase() + 3] / (ROWS / UNIT_TILE)) {}
    DEVICE float* stage_of(u32 chunk) const {
        return block.shared() + chunk % stages * (ROWS * STAGE_APART);
    }
    DEVICE void fetch(u32 t, u32 chunk) const {
        float* stage = stage_of(chunk);
        u32 rows = chunk < CHUNKS ? j.count : 0;
#pragma unroll 4
        for (u32 i = t; i < rows * FOURS; i += THREADS) {
            u32 r = i / FOURS, k = i % FOURS * 4;
            const float* from = T::from(j, r, chunk * STAGE_TERMS + k);
            float* to = stage + r * STAGE_APART + k;
            if (from != nullptr) block.fetch(t, to, from);
            else T::reduce(j, r, chunk * STAGE_TERMS + k, to);
        }
        block.commit(t);
    }
    // Begins to load the first chunks.
    DEVICE void begin(u32 t) const {
#pragma unroll 1
        for (u32 chunk = 0; chunk < stages - 1; ++chunk) fetch(t, chunk);
    }
    // Waits for a chunk of terms, begins to load a later one, and returns its stage.
    DEVICE const float* next(u32 chunk) const {
        block.arrived(stages - 2);
        block.unordered([&](u32 t) { fetch(t, chunk + stages - 1); });
        return stage_of(chunk);
    }
};

// A tile of many rows, which pass through a ring of stages.
template <class T> DEVICE void ring_tile(const TeamBlock& block, const Job& j) {
    using S = Sizes<T, 4, T::BLOCK * T::COLUMNS / 8, THREADS>;
    Ring<T, UNIT_TILE> ring(block, j);
    UnitBlocks<T> blocks(block, j);
#pragma unroll 1
    for (u32 b = 0; b < blocks.own.count; ++b) {
        const float* weights = blocks.weights + b * S::SIZE;
        PerThread<TileSums<T, S>> sums;
        block.unordered([&](u32 t) {
            ring.begin(t);
            clear<T, S>(sums[t]);
        });
        multiply_chunks<T, S>(block, j, sums, weights, ring);
        block.superstep([&](u32 t) {
            Lane lane = lane_of<S>(t);
            if (lane.first < j.count)
                finish_rows<T, S, false>(j, sums, t, lane, blocks.own.first + b,
                                         weights + S::WEIGHTS);
        });
    }
}

// A tile of twice as many rows. A thread has eight columns, the gates of two units, and registers
// for the sums of one product. At the end of each product, its sums leave them: for the
// stages of the ring after the last one, else for device memory that the block has for this. The
// element-wise steps read them again, a few rows at a time.
template <class T> CALLED void big_tile(TeamBlock block, Job j) {
    using S = Sizes<T, 8, 8, THREADS>;
    using All = Product<T, S, 0>;
    constexpr u32 FOURS = S::R * S::G / 4, PARKED = 4 * FOURS * THREADS, HELD = 4;
    static_assert(PARKED <= 2 * S::MAX_ROWS_OF_TILE * STAGE_APART, "two stages hold the sums");
    struct Own {
        float of[S::R][S::G];
    };
    Ring<T, S::MAX_ROWS_OF_TILE> ring(block, j);
    UnitBlocks<T> blocks(block, j);
    float* parked = j.a.parked + (u64)block.index * ((T::PRODUCTS - 1) * PARKED);
    auto place = [&](u32 p, u32 t) {
        return (p + 1 == T::PRODUCTS ? block.shared() : parked + p * PARKED) + 4 * t;
    };
#pragma unroll 1
    for (u32 b = 0; b < blocks.own.count; ++b) {
        const float* weights = blocks.weights + b * S::SIZE;
        PerThread<Own> sums;
        block.unordered([&](u32 t) { ring.begin(t); });
#pragma unroll 1
        for (u32 p = 0; p < T::PRODUCTS; ++p) {
            block.unordered([&](u32 t) {
#pragma unroll
                for (u32 i = 0; i < 4 * FOURS; ++i) sums[t].of[i / S::G][i % S::G] = 0.0f;
            });
#pragma unroll 1
            for (u32 from = begin_of<T>(p); from < T::end(p); from += STAGE_TERMS) {
                const float* stage = ring.next(from / STAGE_TERMS);
                block.unordered([&](u32 t) {
                    Lane lane = lane_of<S>(t);
                    if (lane.first >= j.count) return;
                    const float* x = stage + lane.row * STAGE_APART;
                    const float* w = All::weights(weights, lane) + from * All::WIDTH;
#pragma unroll
                    for (u32 k = 0; k < STAGE_TERMS; k += 4)
                        add_terms<All, S, S::ROW_GROUPS * STAGE_APART>(sums[t].of, x + k,
                                                                       w + k * All::WIDTH);
                });
            }
            if (p + 1 == T::PRODUCTS) block.superstep([](u32) {});
            block.unordered([&](u32 t) {
                float* to = place(p, t);
#pragma unroll
                for (u32 n = 0; n < FOURS; ++n) {
                    const float(&x)[S::G] = sums[t].of[n / S::EACH];
                    u32 g = n % S::EACH * 4;
                    store4(to + n * (4 * THREADS), {x[g], x[g + 1], x[g + 2], x[g + 3]});
                }
            });
        }
        block.superstep([&](u32 t) {
            Lane lane = lane_of<S>(t);
            if (lane.first >= j.count) return;
            const float* constants = weights + S::WEIGHTS + lane.column;
            u32 unit = (blocks.own.first + b) * T::BLOCK + lane.column;
#pragma unroll 1
            for (u32 first = 0; first < FOURS; first += HELD) {
                float s[HELD][T::PRODUCTS][4];
                typename T::Row x[HELD];
#pragma unroll
                for (u32 n = 0; n < HELD; ++n) {
                    u32 at = first + n, r = lane.row + at / S::EACH * S::ROW_GROUPS;
                    // The last row once more has no effect, and needs no branch.
                    r = r < j.count ? r : j.count - 1;
                    x[n] = T::load(j, r, unit + at % S::EACH * S::ACROSS);
#pragma unroll
                    for (u32 p = 0; p < T::PRODUCTS; ++p)
                        load(s[n][p], place(p, t) + at * (4 * THREADS));
                }
                end_of_loads();
#pragma unroll
                for (u32 n = 0; n < HELD; ++n) {
                    u32 at = first + n, r = lane.row + at / S::EACH * S::ROW_GROUPS;
                    u32 own = at % S::EACH * S::ACROSS;
                    if (r < j.count) T::finish(s[n], x[n], constants + own, j, r, unit + own);
                }
            }
        });
    }
}
