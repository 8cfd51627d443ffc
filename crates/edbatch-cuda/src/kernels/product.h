// Products of the rows of a tile with packed weights.
#pragma once
#include "block.h"

// The maximum number of rows of a tile.
enum : u32 { TILE = 16 };

// The number of elements of each row that shared memory holds at a time, a multiple of four. The
// distance between rows has four more floats, which avoids bank conflicts.
enum : u32 { PIECE = 512, STRIDE = PIECE + 4 };
static_assert(TILE * STRIDE <= ROWS, "a tile's rows fit into shared memory");

// The rows of a tile that products multiply: row r starts at the address x(r). Element 0 is in
// column `at` of shared memory.
template <class X> struct Rows {
    X x;
    u32 at;
};
template <class X> DEVICE Rows<X> rows(X x, u32 at) { return {x, at}; }

// Rows that are computed: x(r) returns a function of the index of an element.
template <class X> struct ComputedRows {
    X x;
    u32 at;
};
template <class X> DEVICE ComputedRows<X> computed_rows(X x, u32 at) { return {x, at}; }

// Elements of a row that a warp loads at a time, eight for each thread.
enum : u32 { GROUP = 8 };

template <u32 N> DEVICE void load_rows(Block&, u32, u32, u32, u32, u32) {}

// Part of a superstep: loads up to 32 * GROUP elements of `count` rows into shared memory: element
// from + k of a row to column at + k, for k in base..length. Each warp loads up to N rows. The
// loads of a thread, for all kinds of rows, come before its stores, so that it waits for device
// memory once.
template <u32 N, class X, class... Others>
DEVICE void load_rows(Block& block, u32 t, u32 count, u32 from, u32 base, u32 length,
                      Rows<X> rows, Others... others) {
    u32 k = base + t % 32;
    float own[N][GROUP];
#pragma unroll
    for (u32 n = 0; n < N; ++n) {
        // The last row once more has no effect, and needs no branch.
        u32 r = t / 32 + n * (THREADS / 32);
        const float* row = rows.x(r < count ? r : count - 1) + from;
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i)
            if (k + 32 * i < length) own[n][i] = fresh(row + k + 32 * i);
    }
    load_rows<N>(block, t, count, from, base, length, others...);
#pragma unroll
    for (u32 n = 0; n < N; ++n) {
        float* to = block.shared + (t / 32 + n * (THREADS / 32)) * STRIDE + rows.at;
#pragma unroll
        for (u32 i = 0; i < GROUP; ++i)
            if (k + 32 * i < length) to[k + 32 * i] = own[n][i];
    }
}

template <u32 N, class X, class... Others>
DEVICE void load_rows(Block& block, u32 t, u32 count, u32 from, u32 base, u32 length,
                      ComputedRows<X> rows, Others... others) {
    u32 end = length - base < 32 * GROUP ? length : base + 32 * GROUP;
    for (u32 r = t / 32; r < count; r += THREADS / 32) {
        auto row = rows.x(r);
        float* to = block.shared + r * STRIDE + rows.at;
        for (u32 k = base + t % 32; k < end; k += 32) to[k] = row(from + k);
    }
    load_rows<N>(block, t, count, from, base, length, others...);
}

// Loads the elements from..from + length of rows, in a superstep.
template <class... All>
DEVICE void load_tile(Block& block, u32 count, u32 from, u32 length, All... rows) {
    block.superstep([&](u32 t) {
        for (u32 base = 0; base < length; base += 32 * GROUP) {
            if (count <= TILE / 2) load_rows<1>(block, t, count, from, base, length, rows...);
            else load_rows<2>(block, t, count, from, base, length, rows...);
        }
    });
}
static_assert(2 * THREADS / 32 == TILE, "each warp loads one or two rows");

// A thread's sums, for one column and up to MAX_ROWS rows. Sources define FOUR_ROWS if eight would
// take more registers than a thread has.
#ifdef FOUR_ROWS
enum : u32 { MAX_ROWS = 4 };
#else
enum : u32 { MAX_ROWS = 8 };
#endif
struct Sums {
    float of[MAX_ROWS];
};

// A column of packed weights [⌈depth / 4⌉][…][4], aligned to 16 bytes: the address of its first
// four weights, and the distance to the next four. It multiplies the rows in column `at` of shared
// memory.
struct Column {
    const float* fours;
    u32 step;
    u32 at;
};

// The sums of one column, for R rows of a tile of `count`.
template <u32 R> struct Results {
    Sums& sums;
    u32 first, distance, count;

    DEVICE u32 row(u32 i) const { return first + i * distance; }

    // Stores the sum of row r at to[r * stride].
    DEVICE void set(float* to, u32 stride) const {
        float* own = to + first * stride;
#pragma unroll
        for (u32 i = 0; i < R; ++i)
            if (row(i) < count) own[i * distance * stride] = sums.of[i];
    }

    // Stores from(r) + the sum of row r at to[r * stride]. All loads come before the stores.
    template <class From> DEVICE void add_to(From from, float* to, u32 stride) const {
        float before[R];
#pragma unroll
        for (u32 i = 0; i < R; ++i) before[i] = from(row(i) < count ? row(i) : count - 1);
        end_of_loads();
#pragma unroll
        for (u32 i = 0; i < R; ++i) sums.of[i] = add(before[i], sums.of[i]);
        set(to, stride);
    }
};

// Adds `length` terms to the sums of R rows. `x` are the rows in shared memory.
template <u32 R, bool CONSTANT>
DEVICE void multiply(Sums& sums, const float* x, const float* fours, u32 step, u32 length) {
    u32 k = 0;
    // Sources with FOUR_ROWS are short of registers.
    constexpr u32 STEPS = MAX_ROWS / 2;
#pragma unroll STEPS
    for (; k + 4 <= length; k += 4) {
        float4 w = CONSTANT ? constant4(fours) : load4(fours), a[R];
        fours += step;
#pragma unroll
        for (u32 r = 0; r < R; ++r) a[r] = load4(x + r * STRIDE + k);
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
        float4 w = CONSTANT ? constant4(fours) : load4(fours);
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

template <u32 R> struct RowsOfAThread {
    static constexpr u32 value = R;
};

// Calls `f` with the number of rows as a constant.
template <class F> DEVICE void with_rows(u32 rows, F f) {
    if (rows == 2) f(RowsOfAThread<2>{});
    else if (rows == 4 || MAX_ROWS == 4) f(RowsOfAThread<4>{});
    else f(RowsOfAThread<MAX_ROWS>{});
}

// The stacked weights of one of the products that run side by side: of(q) is its Column q, and
// finish(q, results) stores the results of column q, in pass 0 or 1.
template <u32 PASS, class Of, class Finish> struct Stack {
    static constexpr u32 pass = PASS;
    u32 columns;
    Of of;
    Finish finish;
};
template <u32 PASS, class Of, class Finish>
DEVICE Stack<PASS, Of, Finish> stack(u32 columns, Of of, Finish finish) {
    return {columns, of, finish};
}

// Column q of all products together.
template <class S, class... Others> DEVICE Column column_of(u32 q, S stack, Others... others) {
    if constexpr (sizeof...(Others) == 0) return stack.of(q);
    else return q < stack.columns ? stack.of(q) : column_of(q - stack.columns, others...);
}

template <u32 PASS, class R, class S, class... Others>
DEVICE void finish_column(u32 q, R results, S stack, Others... others) {
    if constexpr (sizeof...(Others) > 0)
        if (q >= stack.columns)
            return finish_column<PASS>(q - stack.columns, results, others...);
    if constexpr (PASS == S::pass) stack.finish(q, results);
}

// Products side by side: for each column of a block's columns of each product, and each row
// r < count <= TILE of a tile, Σ_k x(r, k) · w(k), as one chain of fused multiply-adds over k in
// 0..depth from zero.
//
// load(from, length) loads the elements from..from + length of the rows, in a superstep. If depth
// is larger than PIECE, it is called several times; so there may be only one kind of rows. There is
// a barrier between the passes. CONSTANT weights are in memory that no kernel writes; others may be
// in shared memory. `finish` must not write what `load` reads. Uses the shared memory of rows; all
// threads must call it with the same arguments.
template <bool CONSTANT, class Load, class... Stacks>
DEVICE void product(Block& block, u32 count, u32 depth, Load load, Stacks... stacks) {
    if (count == 0) return;
    u32 columns = (stacks.columns + ...);
    // Consecutive threads have consecutive columns, so their reads of weights are coalesced.
    u32 rows = rows_of_a_thread(count, columns);
    u32 groups = (count + rows - 1) / rows;
    u32 across = THREADS / groups;
    for (u32 first = 0; first < columns; first += across) {
        PerThread<Sums> sums;
        // Runs f(thread, column, first row, constant number of rows) for the threads with a column.
        auto step = [&](auto f) {
            block.superstep([&](u32 t) {
                u32 q = first + t % across, group = t / across;
                if (q >= columns || group >= groups) return;
                with_rows(rows, [&](auto r) { f(t, q, group * rows, r); });
            });
        };
        for (u32 from = 0; from < depth; from += PIECE) {
            u32 length = depth - from < PIECE ? depth - from : PIECE;
            // Rows that fit whole are loaded once, and stay in shared memory for all columns.
            if (first == 0 || depth > PIECE) load(from, length);
            // No barrier is needed before a thread clears its own sums, nor between the last
            // multiplication and the first pass, which reads them.
            step([&](u32 t, u32 q, u32 row, auto r) {
                constexpr u32 R = decltype(r)::value;
                if (from == 0) {
#pragma unroll
                    for (u32 i = 0; i < R; ++i) sums[t].of[i] = 0.0f;
                }
                Column column = column_of(q, stacks...);
                const float* x = block.shared + row * STRIDE + column.at;
                const float* fours = column.fours + from / 4 * column.step;
                multiply<R, CONSTANT>(sums[t], x, fours, column.step, length);
                if (from + length == depth)
                    finish_column<0>(q, Results<R>{sums[t], row, 1, count}, stacks...);
            });
        }
        if ((Stacks::pass | ...) == 1)
            step([&](u32 t, u32 q, u32 row, auto r) {
                Results<decltype(r)::value> results{sums[t], row, 1, count};
                finish_column<1>(q, results, stacks...);
            });
    }
}
