// Products of the rows of a tile with packed weights, for any sizes: a thread computes one column
// of up to four rows. Both operands are rounded if the source says so (`tensor.h`).
#pragma once
#include "job.h"
#include "tensor.h"

// The number of elements of each row that shared memory holds at a time, a multiple of four.
enum : u32 { PIECE = 512 };

// The distance between rows in shared memory. Four more floats avoid bank conflicts.
DEVICE u32 distance(u32 elements) { return (elements + 3) / 4 * 4 + 4; }
static_assert(TILE * (PIECE + 4) <= ROWS, "a tile's rows fit into shared memory");

// The weights of a product, packed [⌈depth / 4⌉][width][4] from `start` on.
struct Stack {
    u64 start;
    u32 width, depth, units;
};

// A slice's columns of a stack of weights.
struct Columns {
    Stack stack;
    Units units;
    u32 count;
    const float* weights;

    DEVICE Columns(Stack stack, Units units, const float* weights)
        : stack(stack), units(units), count(stack.width / stack.units * units.count),
          weights(weights + stack.start) {}
    // The number in the stack of the slice's column q.
    DEVICE u32 number(u32 q) const {
        return q / units.count * stack.units + units.first + q % units.count;
    }
    // The weights of column q from k on, where k is a multiple of four, and the distance to the
    // next four.
    DEVICE const float* from(u32 q, u32 k) const {
        return weights + k / 4 * (u64)step() + 4 * number(q);
    }
    DEVICE u32 step() const { return 4 * stack.width; }
};

// Elements of a row that a thread loads at a time.
enum : u32 { GROUP = 8 };

// Part of a superstep: loads the elements base..length of rows, counted from element `from` on, at
// most 32 * GROUP of them, into shared memory. Each warp loads up to N rows. The loads of a thread
// come before its stores, so that it waits for device memory once.
template <u32 N>
DEVICE void load_rows(const Block& block, const Job& j, u32 t, Rows x, u32 from, u32 base,
                      u32 length, u32 apart) {
    u32 k = base + t % 32;
    float own[N][GROUP];
#pragma unroll
    for (u32 n = 0; n < N; ++n) {
        // The last row once more has no effect, and needs no branch.
        u32 r = t / 32 + n * (THREADS / 32);
        const float* row = x.row(j, r < j.count ? r : j.count - 1) + from;
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i)
            if (k + 32 * i < length) own[n][i] = fresh(row + k + 32 * i);
    }
#pragma unroll
    for (u32 n = 0; n < N; ++n) {
        float* to = block.shared() + (t / 32 + n * (THREADS / 32)) * apart;
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i)
            if (k + 32 * i < length) to[k + 32 * i] = rounded(own[n][i]);
    }
}
static_assert(2 * THREADS / 32 == TILE, "each warp loads one or two rows");

// Calls f(from, length) for each piece of the columns of a tile's rows, once the piece of all rows
// is in shared memory, at a distance of `apart`. Rows of a null pointer are already there, whole
// (`each_part`). All threads must call it.
template <class F>
DEVICE void each_piece(const Block& block, const Job& j, Rows x, u32 depth, bool again, F f) {
    bool gathered = x.base == nullptr;
#ifdef TENSOR
    if (gathered && !again)
        block.superstep([&](u32 t) {
#pragma unroll 1
            for (u32 i = t; i < j.count * depth; i += THREADS) {
                float* own = block.shared() + i / depth * distance(depth) + i % depth;
                *own = rounded(*own);
            }
        });
#endif
    u32 piece = gathered || depth < PIECE ? depth : (u32)PIECE, apart = distance(piece);
#pragma unroll 1
    for (u32 from = 0; from < depth; from += piece) {
        u32 length = depth - from < piece ? depth - from : piece;
        // Rows that fit whole stay in shared memory for all columns.
        if (!gathered && (!again || depth > piece))
            block.superstep([&](u32 t) {
#pragma unroll 1
                for (u32 base = 0; base < length; base += 32 * GROUP) {
                    if (j.count <= TILE / 2)
                        load_rows<1>(block, j, t, x, from, base, length, apart);
                    else load_rows<2>(block, j, t, x, from, base, length, apart);
                }
            });
        f(from, length, apart);
    }
}

// Calls f with jobs for the calls of a job whose rows of `depth` elements fit into shared memory at
// the same time.
template <class F> DEVICE void each_part(Job j, u32 depth, F f) {
    u32 end = j.first + j.count, most = ROWS / distance(depth);
#pragma unroll 1
    for (; j.first < end; j.first += most, j.starts += most) {
        j.count = end - j.first < most ? end - j.first : most;
        f(j);
    }
}

// The maximum number of rows of a thread.
enum : u32 { MAX_ROWS = 4 };
struct Sums {
    float of[MAX_ROWS];
};

// Stores the sums of column n of R rows: first, first + apart, …. Adds them to `before` first, unless
// that is a null pointer. All loads come before the stores.
template <u32 R>
DEVICE void finish(const Block& block, const Job& j, Sums& sums, u32 n, u32 first, u32 apart,
                   Own out, Rows before) {
    if (before.base != nullptr) {
        float start[R];
#pragma unroll
        for (u32 i = 0; i < R; ++i) {
            u32 r = first + i * apart;
            start[i] = fresh(before.row(j, r < j.count ? r : j.count - 1) + n);
        }
        end_of_loads();
#pragma unroll
        for (u32 i = 0; i < R; ++i) sums.of[i] = add(start[i], sums.of[i]);
    }
#pragma unroll
    for (u32 i = 0; i < R; ++i)
        if (first + i * apart < j.count) put(out.row(first + i * apart) + n, sums.of[i]);
}

// Adds `length` terms to the sums of R rows; x[r] is row r, in shared memory.
template <u32 R>
DEVICE void multiply(Sums& sums, const float* const (&x)[R], const float* fours, u32 step,
                     u32 length) {
    u32 k = 0;
#pragma unroll 2
    for (; k + 4 <= length; k += 4) {
        float4 w = constant4(fours), a[R];
        fours += step;
#pragma unroll
        for (u32 r = 0; r < R; ++r) a[r] = load4(x[r] + k);
#pragma unroll
        for (u32 r = 0; r < R; ++r) sums.of[r] = fma_(a[r].x, w.x, sums.of[r]);
#pragma unroll
        for (u32 r = 0; r < R; ++r) sums.of[r] = fma_(a[r].y, w.y, sums.of[r]);
#pragma unroll
        for (u32 r = 0; r < R; ++r) sums.of[r] = fma_(a[r].z, w.z, sums.of[r]);
#pragma unroll
        for (u32 r = 0; r < R; ++r) sums.of[r] = fma_(a[r].w, w.w, sums.of[r]);
    }
    // No padding: an additional product with zero would turn -0 into 0, and ∞ into NaN.
    if (k < length) {
        float4 w = constant4(fours);
#pragma unroll
        for (u32 r = 0; r < R; ++r) {
            float sum = fma_(x[r][k], w.x, sums.of[r]);
            if (k + 1 < length) sum = fma_(x[r][k + 1], w.y, sum);
            if (k + 2 < length) sum = fma_(x[r][k + 2], w.z, sum);
            sums.of[r] = sum;
        }
    }
}

// Computes R rows of column q, from row `first` on: the terms from..from + length, whose parts of the
// rows are in shared memory, and the result after the last one.
template <u32 R>
DEVICE void rows_of_column(const Block& block, const Job& j, const Columns& columns, Sums& sums,
                           u32 q, u32 first, u32 from, u32 length, u32 apart, Own out,
                           Rows before) {
    if (from == 0) {
#pragma unroll
        for (u32 i = 0; i < R; ++i) sums.of[i] = 0.0f;
    }
    const float* x[R];
#pragma unroll
    for (u32 i = 0; i < R; ++i)
        x[i] = block.shared() + (first + i < j.count ? first + i : j.count - 1) * apart;
    multiply<R>(sums, x, columns.from(q, from), columns.step(), length);
    if (from + length == columns.stack.depth)
        finish<R>(block, j, sums, columns.number(q), first, 1, out, before);
}

// Computes out = before + Σ_k x(k) · w(k), as one chain of fused multiply-adds over k from zero,
// for each of a slice's columns of weights and each row of a tile. `before` may be `no_rows()`, and
// so may `x`: then its rows are already in shared memory.
CALLED void small(Block block, Job j, Rows x, Stack stack, Own out, Rows before) {
    Columns columns(stack, Units(stack.units, j), j.a.weights);
    // The smallest number of rows per thread with which the threads cover all columns in one pass.
    u32 rows = 1;
    while (rows < MAX_ROWS && rows < j.count &&
           columns.count * ((j.count + rows - 1) / rows) > THREADS)
        rows *= 2;
    // Consecutive threads have consecutive columns, so their reads of weights are coalesced.
    u32 across = THREADS / ((j.count + rows - 1) / rows);
#pragma unroll 1
    for (u32 first = 0; first < columns.count; first += across) {
        PerThread<Sums> sums;
        each_piece(block, j, x, stack.depth, first > 0, [&](u32 from, u32 length, u32 apart) {
            block.superstep([&](u32 t) {
                u32 q = first + t % across, row = t / across * rows;
                if (q >= columns.count || row >= j.count) return;
                auto run = [&](auto r) {
                    rows_of_column<decltype(r)::value>(block, j, columns, sums[t], q, row, from,
                                                       length, apart, out, before);
                };
                if (rows == 1) run(Number<1>{});
                else if (rows == 2) run(Number<2>{});
                else run(Number<MAX_ROWS>{});
            });
        });
    }
}
