// Adds what calls contribute to gradients: outer products of rows, or rows. A block owns a tile of
// a gradient and walks over all calls in the order of inputs, as the CPU does.
#include "stage.h"

// A sum over calls of the list: gradient[n, k] += delta[n] * x[k] for each pair of a
// call; or, if `x` is NONE, gradient[n] += delta[n].
struct Sum {
    // The calls in the list, and the places of both rows in the row of a call.
    u32 first, end, delta, x;
    // The size of the gradient, and the number of adjacent pairs of rows of a call.
    u32 outputs, depth, pairs;
    // The place of the gradient, in floats, and flags.
    u32 to, flags;
};
// The gradient begins with zero; the rows of calls are beside the gradients, not in the arena.
enum : u32 { NONE = 0xffffffffu, FROM_ZERO = 1, BESIDE = 2 };

// A tile of a sum, from row n and column k on: 64 rows and 32 columns, or 128 and 128.
struct Tile {
    u32 sum, n, k, rows;
};

struct Work {
    Stage* stage;
    u64 launch;
    Result* result;
    const Sum* sums;
    const Tile* tiles;
    // The starts of the rows of calls.
    const u32* list;
    const float* arena;
    float* gradients;
};

// The pairs of a stage of the ring, and the number of stages.
enum : u32 { PAIRS = 16, STAGES = 4 };

// The sizes of a tile: a thread has E x E elements, in fours that are 64 apart. In small tiles half
// of the threads only copy, so that there are more tiles for the SMs to share.
template <u32 E_> struct TileSizes {
    static constexpr u32 E = E_, FOURS = E / 4, ROWS = 16 * E, COLUMNS = E == 4 ? 32 : 128;
    static constexpr u32 COMPUTING = ROWS / E * (COLUMNS / E), PAIR = ROWS + COLUMNS;
};

template <u32 E> struct TileSums {
    float of[E][E];
    // The start of the row that the thread copies next.
    u32 start;
};

// A thread's first row and column of a tile, in fours. The address of one operand is independent of
// bits 0 and 2 of the lane, and the other address of the rest, so loads share addresses.
struct Place {
    u32 n, k;
    DEVICE Place(u32 t)
        : n((t >> 1 & 1) + (t >> 3 & 3) * 2 + (t >> 5 & 1) * 8),
          k((t & 1) + (t >> 2 & 1) * 2 + (t >> 6) * 4) {}
};

// The calls of a sum.
struct Calls {
    const Sum& sum;
    const u32* starts;
    const float* rows;
    u32 pairs;

    DEVICE Calls(const Work& work, const Sum& sum)
        : sum(sum), rows(sum.flags & BESIDE ? work.gradients : work.arena) {
        starts = work.list + sum.first;
        pairs = (sum.end - sum.first) * sum.pairs;
    }
    // The start of the row of a pair's call.
    DEVICE u32 start(u32 pair) const {
        if (pair >= pairs) return 0;
        return starts[sum.pairs == 1 ? pair : pair / sum.pairs];
    }
    DEVICE const float* row(u32 start, u32 pair, u32 place, u32 width) const {
        return rows + start + place + (sum.pairs == 1 ? 0 : pair % sum.pairs * width);
    }
};

// Copies four elements of a row of `width` elements, from element i on.
DEVICE void copy4(const Block& block, u32 t, float* to, const float* from, u32 i, u32 width) {
    if (i >= width) return;
    if (i + 4 <= width && (u64)(from + i) % 16 == 0) return block.fetch(t, to, from + i);
    // The rows of narrow fields begin anywhere, and what follows them may never be written.
    for (u32 e = 0; e < 4 && i + e < width; ++e) to[e] = fresh(from + i + e);
}

// Calls add(t, stage, pairs) for each stage of pairs, rows of a tile's delta and of its x.
template <class S, class Add>
DEVICE void each_stage(const Block& block, const Calls& calls, const Tile& tile,
                       PerThread<TileSums<S::E>>& sums, Add add) {
    const Sum& sum = calls.sum;
    u32 count = (calls.pairs + PAIRS - 1) / PAIRS;
    auto stage = [&](u32 number) {
        return block.shared() + number % STAGES * (PAIRS * S::PAIR);
    };
    auto fetch = [&](u32 t, u32 number) {
        u32 pair = number * PAIRS + t / 16, start = sums[t].start;
        // The start of the next one is loaded before this one is needed.
        sums[t].start = calls.start(pair + PAIRS);
        float* to = stage(number) + t / 16 * S::PAIR + t % 16 * 4;
        if (pair < calls.pairs) {
            u32 column = t % 16 * 4;
            const float* delta = calls.row(start, pair, sum.delta, sum.outputs);
#pragma unroll
            for (u32 i = 0; i < S::FOURS; ++i)
                copy4(block, t, to + 64 * i, delta, tile.n + column + 64 * i, sum.outputs);
            if (sum.x != NONE && column < S::COLUMNS) {
                const float* x = calls.row(start, pair, sum.x, sum.depth);
                float* behind = to + S::ROWS;
#pragma unroll
                for (u32 i = 0; i < S::FOURS; ++i)
                    copy4(block, t, behind + 64 * i, x, tile.k + column + 64 * i, sum.depth);
            }
        }
        block.commit(t);
    };
    block.unordered([&](u32 t) {
        sums[t].start = calls.start(t / 16);
#pragma unroll 1
        for (u32 number = 0; number < STAGES - 1; ++number) fetch(t, number);
    });
#pragma unroll 1
    for (u32 number = 0; number < count; ++number) {
        block.arrived(STAGES - 2);
        block.unordered([&](u32 t) { fetch(t, number + STAGES - 1); });
        u32 left = calls.pairs - number * PAIRS;
        const float* own = stage(number);
        block.unordered([&](u32 t) { add(t, own, left < PAIRS ? left : (u32)PAIRS); });
    }
}

// Adds one pair to the sums of a thread.
template <class S>
DEVICE void add_pair(float (&sums)[S::E][S::E], const float* pair, Place place) {
    float delta[S::FOURS][4], x[S::FOURS][4];
#pragma unroll
    for (u32 i = 0; i < S::FOURS; ++i) {
        load(delta[i], pair + 4 * place.n + 64 * i);
        load(x[i], pair + S::ROWS + 4 * place.k + 64 * i);
    }
#pragma unroll
    for (u32 n = 0; n < S::E; ++n)
#pragma unroll
        for (u32 k = 0; k < S::E; ++k)
            sums[n][k] = fma_(delta[n / 4][n % 4], x[k / 4][k % 4], sums[n][k]);
}

// Calls f(n, k, element) for the elements of a thread that the gradient has.
template <class S, class F>
DEVICE void each_element(const Work& work, const Sum& sum, const Tile& tile, Place place, F f) {
#pragma unroll
    for (u32 n = 0; n < S::E; ++n)
#pragma unroll
        for (u32 k = 0; k < S::E; ++k) {
            u32 row = tile.n + 4 * place.n + n / 4 * 64 + n % 4;
            u32 column = tile.k + 4 * place.k + k / 4 * 64 + k % 4;
            if (row < sum.outputs && column < sum.depth)
                f(n, k, work.gradients + sum.to + (u64)row * sum.depth + column);
        }
}

template <u32 E> DEVICE void products(const Block& block, const Work& work, const Tile& tile) {
    using S = TileSizes<E>;
    const Sum& sum = work.sums[tile.sum];
    Calls calls(work, sum);
    PerThread<TileSums<E>> sums;
    block.unordered([&](u32 t) {
#pragma unroll
        for (u32 i = 0; i < E * E; ++i) sums[t].of[i / E][i % E] = 0.0f;
        if (t >= S::COMPUTING || sum.flags & FROM_ZERO) return;
        each_element<S>(work, sum, tile, Place(t),
                        [&](u32 n, u32 k, const float* from) { sums[t].of[n][k] = fresh(from); });
    });
    each_stage<S>(block, calls, tile, sums, [&](u32 t, const float* stage, u32 pairs) {
        Place place(t);
        // Warps that only copy, and those without rows of a narrow gradient.
        if (t >= S::COMPUTING || tile.n + 4 * place.n >= sum.outputs) return;
        if (pairs == PAIRS) {
#pragma unroll
            for (u32 i = 0; i < PAIRS; ++i)
                add_pair<S>(sums[t].of, stage + i * S::PAIR, place);
        } else {
#pragma unroll 1
            for (u32 i = 0; i < pairs; ++i)
                add_pair<S>(sums[t].of, stage + i * S::PAIR, place);
        }
    });
    block.unordered([&](u32 t) {
        if (t >= S::COMPUTING) return;
        each_element<S>(work, sum, tile, Place(t),
                        [&](u32 n, u32 k, float* to) { *to = sums[t].of[n][k]; });
    });
}

// A thread adds one element of all rows.
DEVICE void elements(const Block& block, const Work& work, const Tile& tile) {
    using S = TileSizes<4>;
    const Sum& sum = work.sums[tile.sum];
    Calls calls(work, sum);
    PerThread<TileSums<4>> sums;
    float* to = work.gradients + sum.to + tile.n;
    auto is_own = [&](u32 t) { return t < S::ROWS && tile.n + t < sum.outputs; };
    block.unordered([&](u32 t) {
        sums[t].of[0][0] = is_own(t) && !(sum.flags & FROM_ZERO) ? fresh(to + t) : 0.0f;
    });
    each_stage<S>(block, calls, tile, sums, [&](u32 t, const float* stage, u32 pairs) {
        if (!is_own(t)) return;
#pragma unroll 4
        for (u32 i = 0; i < pairs; ++i)
            sums[t].of[0][0] = add(sums[t].of[0][0], stage[i * S::PAIR + t]);
    });
    block.unordered([&](u32 t) {
        if (is_own(t)) to[t] = sums[t].of[0][0];
    });
}

DEVICE void run_block(const Block& block, const Work& work, u32 index) {
    Tile tile = work.tiles[index];
    if (work.sums[tile.sum].x == NONE) elements(block, work, tile);
    else if (tile.rows == 128) products<8>(block, work, tile);
    else products<4>(block, work, tile);
}

DEVICE void end_work(const Block&, const Work&) {}

#include "grid.h"
