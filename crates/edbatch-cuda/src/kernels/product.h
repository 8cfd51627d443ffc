// Products of the rows of a tile with packed weights.
#pragma once
#include "block.h"

// The maximum number of rows of a tile.
enum : u32 { TILE = 16 };

// The number of elements of each row that shared memory holds at a time, a multiple of four. The
// distance between rows has four more floats, which avoids bank conflicts.
enum : u32 { PIECE = 256, STRIDE = PIECE + 4 };
static_assert(TILE * STRIDE <= SHARED, "a tile's rows fit into shared memory");

// A thread's sums, for one column and up to MAX_ROWS rows.
enum : u32 { MAX_ROWS = 8 };
struct Sums {
    float of[MAX_ROWS];
};

// Packed weights [⌈depth / 4⌉][width][4] of all columns, in device memory.
struct Streamed {
    const float* weights;
    u32 width;

    // The address of the weights k..k + 4 of a column, for k a multiple of four.
    DEVICE const float* fours(u32 k, u32, u32 column) const {
        return weights + (k / 4 * width + column) * 4;
    }
    DEVICE float4 four(const float* fours, u32 k) const { return constant4(fours + k * width); }
};

// Adds `length` terms to the sums of R rows. `x` are the rows in shared memory, `fours` the weights
// of the column.
template <u32 R, class Weights>
DEVICE void multiply(Sums& sums, const float* x, Weights weights, const float* fours,
                     u32 length) {
    u32 k = 0;
#pragma unroll 4
    for (; k + 4 <= length; k += 4) {
        float4 w = weights.four(fours, k);
#pragma unroll
        for (u32 r = 0; r < R; ++r) {
            float4 a = load4(x + r * STRIDE + k);
            float sum = fma_(a.x, w.x, sums.of[r]);
            sum = fma_(a.y, w.y, sum);
            sum = fma_(a.z, w.z, sum);
            sums.of[r] = fma_(a.w, w.w, sum);
        }
    }
    // No padding: an additional product with zero would turn -0 into 0, and ∞ into NaN.
    if (k < length) {
        float4 w = weights.four(fours, k);
#pragma unroll
        for (u32 r = 0; r < R; ++r) {
            const float* a = x + r * STRIDE + k;
            float sum = fma_(a[0], w.x, sums.of[r]);
            if (k + 1 < length) sum = fma_(a[1], w.y, sum);
            if (k + 2 < length) sum = fma_(a[2], w.z, sum);
            sums.of[r] = sum;
        }
    }
}

// The number of rows per thread: the smallest of 2, 4 and 8 with which the threads cover all
// columns in one pass. A thread loads four weights, then four floats of each of its rows. Loads
// are the bottleneck, so eight rows are best if there are enough columns and rows for all threads.
DEVICE u32 rows_of_a_thread(u32 count, u32 columns) {
    u32 rows = 2;
    while (rows < MAX_ROWS && rows < count && columns * ((count + rows - 1) / rows) > THREADS)
        rows *= 2;
    return rows;
}

// For each row r < count <= TILE of a tile and each q < columns of a block's columns:
//
//     finish(r, column(q), Σ_k x(r, k) · weights[k, column(q)])
//
// where the sum is one chain of fused multiply-adds over k in 0..depth from zero. Weights are
// aligned to 16 bytes. `finish` must not write what `x` reads. Uses the shared memory before the
// resident weights; all threads must call it with the same arguments.
template <class Weights, class Column, class X, class Finish>
DEVICE void product(Block& block, u32 count, u32 depth, Weights weights, u32 columns,
                    Column column, X x, Finish finish) {
    if (count == 0) return;
    // Consecutive threads have consecutive columns, so their reads of weights are coalesced.
    u32 rows = rows_of_a_thread(count, columns);
    u32 groups = (count + rows - 1) / rows;
    u32 across = THREADS / groups;
    for (u32 first = 0; first < columns; first += across) {
        PerThread<Sums> sums;
        block.superstep([&](u32 t) {
#pragma unroll
            for (u32 r = 0; r < MAX_ROWS; ++r) sums[t].of[r] = 0.0f;
        });
        for (u32 from = 0; from < depth; from += PIECE) {
            u32 length = depth - from < PIECE ? depth - from : PIECE;
            // Rows that fit whole are loaded once, and stay in shared memory for all columns.
            if (first == 0 || depth > PIECE) {
                block.superstep([&](u32 t) {
                    for (u32 r = t / 32; r < count; r += THREADS / 32)
                        for (u32 k = t % 32; k < length; k += 32)
                            block.shared[r * STRIDE + k] = x(r, from + k);
                });
            }
            block.superstep([&](u32 t) {
                u32 q = first + t % across, group = t / across;
                if (q >= columns || group >= groups) return;
                const float* own = block.shared + group * rows * STRIDE;
                const float* fours = weights.fours(from, q, column(q));
                if (rows == 2) multiply<2>(sums[t], own, weights, fours, length);
                else if (rows == 4) multiply<4>(sums[t], own, weights, fours, length);
                else multiply<MAX_ROWS>(sums[t], own, weights, fours, length);
            });
        }
        block.superstep([&](u32 t) {
            u32 q = first + t % across, group = t / across;
            if (q >= columns || group >= groups) return;
#pragma unroll
            for (u32 r = 0; r < MAX_ROWS; ++r) {
                u32 row = group * rows + r;
                if (r < rows && row < count) finish(row, column(q), sums[t].of[r]);
            }
        });
    }
}
