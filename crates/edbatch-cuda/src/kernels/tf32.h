// Products on tensor cores, with operands rounded to TF32 (10-bit mantissa).
//
// Operands are rounded to nearest, ties away from zero. Their product is exact in a float, and
// sums are floats. The order in which a device adds the products of eight consecutive k is
// unspecified, so bits depend on the device, but not on the other rows.
//
//     |sum - Σ x w|  ≤  (2⁻¹⁰ + 2⁻²² + depth · 2⁻²²) · Σ |x w|
//
// The first two terms come from rounding both operands, each by at most 2⁻¹¹ of its value. The last
// one comes from additions that may truncate instead of rounding.
#pragma once
#include "small.h"

// A warp's tile of 16 rows and 8 columns. With g = lane / 4 and i = lane % 4, a thread has rows g
// and g + 8 and columns 2 i and 2 i + 1.
struct Tile {
    float of[4];
    static DEVICE u32 row(u32 lane, u32 n) { return lane / 4 + n / 2 * 8; }
    static DEVICE u32 column(u32 lane, u32 n) { return lane % 4 * 2 + n % 2; }
};
enum : u32 { TILE_COLUMNS = 8 };

#ifdef __CUDACC_RTC__

DEVICE u32 tf32(float x) {
    u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

// Adds x(row, k) · w(column)(k) for k in 0..length to the tile; both are 0 for larger k. All
// threads of the warp must call it.
template <class X, class W>
DEVICE void multiply_tile(Tile& tile, u32 lane, u32 length, X x, W w) {
    u32 g = lane / 4, i = lane % 4;
    auto own = w(g);
#pragma unroll 4
    for (u32 k = i; k < length + i; k += 8) {
        u32 a0 = tf32(x(g, k)), a1 = tf32(x(g + 8, k));
        u32 a2 = tf32(x(g, k + 4)), a3 = tf32(x(g + 8, k + 4));
        u32 b0 = tf32(own(k)), b1 = tf32(own(k + 4));
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(tile.of[0]), "+f"(tile.of[1]), "+f"(tile.of[2]), "+f"(tile.of[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

#else

DEVICE float tf32(float x) {
    // Infinity and NaN are not rounded.
    if ((bits(x) & 0x7f800000u) == 0x7f800000u) return x;
    return from_bits((bits(x) + 0x1000u) & ~0x1fffu);
}

// The same on the host, for the elements of one thread.
template <class X, class W>
DEVICE void multiply_tile(Tile& tile, u32 lane, u32 length, X x, W w) {
    for (u32 n = 0; n < 4; ++n) {
        u32 row = Tile::row(lane, n);
        auto own = w(Tile::column(lane, n));
        for (u32 k = 0; k < length; ++k)
            tile.of[n] = fma_(tf32(x(row, k)), tf32(own(k)), tile.of[n]);
    }
}

#endif

// Like `small`, on tensor cores: each warp computes eight columns of all rows of the tile.
CALLED void small_tf32(Block block, Job j, Rows x, Stack stack, Own out, Rows before) {
    Columns columns(stack, Units(stack.units, j), j.a.weights);
    constexpr u32 ACROSS = THREADS / 32 * TILE_COLUMNS;
#pragma unroll 1
    for (u32 first = 0; first < columns.count; first += ACROSS) {
        PerThread<Tile> tiles;
        each_piece(block, j, x, stack.depth, first > 0, [&](u32 from, u32 length, u32 apart) {
            block.superstep([&](u32 t) {
                u32 q = first + t / 32 * TILE_COLUMNS, lane = t % 32;
                // True for all threads of a warp or for none.
                if (q >= columns.count) return;
                if (from == 0) {
#pragma unroll
                    for (u32 n = 0; n < 4; ++n) tiles[t].of[n] = 0.0f;
                }
                auto row = [&](u32 r, u32 k) {
                    return r < j.count && k < length ? block.shared()[r * apart + k] : 0.0f;
                };
                auto weights = [&](u32 c) {
                    u32 own = q + c < columns.count ? q + c : q;
                    u32 end = q + c < columns.count ? length : 0;
                    u32 step = columns.step();
                    const float* fours = columns.from(own, from);
                    return [=](u32 k) { return k < end ? fours[k / 4 * step + k % 4] : 0.0f; };
                };
                multiply_tile(tiles[t], lane, length, row, weights);
                if (from + length < stack.depth) return;
#pragma unroll
                for (u32 n = 0; n < 2; ++n) {
                    u32 own = q + Tile::column(lane, n);
                    if (own >= columns.count) continue;
                    Sums sums;
                    sums.of[0] = tiles[t].of[n], sums.of[1] = tiles[t].of[n + 2];
                    finish<2>(block, j, sums, columns.number(own), Tile::row(lane, n), 8, out,
                              before);
                }
            });
        });
    }
}
