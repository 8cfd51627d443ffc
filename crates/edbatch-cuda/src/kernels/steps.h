// The steps of cells other than products of weights and element-wise programs. Each is compiled
// once, with the places of rows and their sizes as arguments. Results have the bits of
// `kernels/{reduce,math,dot,batched_gemm}.rs` and `cpu/tile/rows.rs` in `edbatch-runtime`.
#pragma once
#include "barrier.h"
#include "functions.h"
#include "job.h"
#include "tensor.h"

// Reductions of any number of rows, from left to right. `at(i)` is the element of row i. A single
// row is copied.

// The sum; 0 without rows.
template <class At> DEVICE float reduce_sum(u32 count, At at) {
    if (count == 0) return 0.0f;
    float sum = at(0);
    for (u32 i = 1; i < count; ++i) sum = add(sum, at(i));
    return sum;
}

// The mean; 0 without rows.
template <class At> DEVICE float reduce_mean(u32 count, At at) {
    float sum = reduce_sum(count, at);
    return count > 1 ? div_(sum, (float)count) : sum;
}

// The maximum; -∞ without rows, NaN if an element is NaN.
template <class At> DEVICE float reduce_max(u32 count, At at) {
    if (count == 0) return from_bits(0xff800000u);
    float max = at(0);
    for (u32 i = 1; i < count; ++i) {
        float x = at(i);
        // Of zeros with different signs, the last is the maximum.
        max = max != max || max > x ? max : x;
    }
    return max;
}

// The logarithm of the sum of the exponentials; -∞ without rows.
template <class At> DEVICE float reduce_log_sum_exp(u32 count, At at) {
    float max = reduce_max(count, at);
    if (count < 2) return max;
    bool infinite = 3.40282347e38f < from_bits(bits(max) & 0x7fffffffu);
    float shift = infinite ? 0.0f : max;
    float sum = exp_(sub(at(0), shift));
    for (u32 i = 1; i < count; ++i) sum = add(sum, exp_(sub(at(i), shift)));
    return add(shift, log_(sum));
}

// How a step reduces the values of a port, or normalizes rows.
enum : u32 { SUM, MEAN, MAX, LOG_SUM_EXP };
enum : u32 { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM };

// Reduces column `column` of all values of call j.first + r at a port, if AWAIT as soon as they are
// written.
template <bool AWAIT> CALLED float reduced(Job j, u32 operand, u32 r, u32 column, u32 by) {
    Values values(j, operand, j.first + r);
    auto at = [&](u32 v) {
        const float* from = j.arena + values.rows[v] + column;
        return AWAIT ? awaited(j.a.limit, from) : fresh(from);
    };
    switch (by) {
    case SUM: return reduce_sum(values.count, at);
    case MEAN: return reduce_mean(values.count, at);
    case MAX: return reduce_max(values.count, at);
    default: return reduce_log_sum_exp(values.count, at);
    }
}

// Reduces the columns of all values at a port, from column `from` on.
CALLED void reduce(Block block, Job j, u32 operand, u32 from, u32 by, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        put(to.row(r) + u, reduced<false>(j, operand, r, from + u, by));
    });
}

// Reduces four columns to words of shared memory, as soon as they are written.
DEVICE void reduce4(const Job& j, u32 operand, u32 r, u32 column, u32 by, float* to) {
#pragma unroll 1
    for (u32 i = 0; i < 4; i += OF_WORD) {
        float first = reduced<true>(j, operand, r, column + i, by), second = 0.0f;
        if (OF_WORD == 2) second = reduced<true>(j, operand, r, column + i + 1, by);
        to[i / OF_WORD] = word(first, second);
    }
}

// Copies columns: unit u is column u % rows * step + u / rows. With 1 row and step 0 that is column
// u; with n rows and step 0, each element n times; else it is a transposed matrix.
CALLED void copy(Block block, Job j, Rows from, u32 rows, u32 step, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        put(to.row(r) + u, fresh(from.row(j, r) + u % rows * step + u / rows));
    });
}

CALLED void fill(Block block, Job j, float value, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) { put(to.row(r) + u, value); });
}

// Copies the row of a matrix whose index is the start of an operand's row.
CALLED void select(Block block, Job j, Rows from, u32 index, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        put(to.row(r) + u, fresh(from.row(j, r) + start(j, index, r) * units + u));
    });
}

// The sum of `width` terms: term i is added to partial sum i mod 16, as on CPUs with up to 16 floats
// per vector. `add_to(sum, i)` returns the partial sum with term i. The inner loop has a fixed number
// of iterations, so the sums are in registers.
template <class AddTo> DEVICE float sum_by_16(u32 width, AddTo add_to) {
    constexpr u32 PARTIAL = 16;
    float partial[PARTIAL];
#pragma unroll
    for (u32 j = 0; j < PARTIAL; ++j) partial[j] = 0.0f;
    for (u32 i = 0; i < width; i += PARTIAL) {
#pragma unroll
        for (u32 j = 0; j < PARTIAL; ++j)
            if (i + j < width) partial[j] = add_to(partial[j], i + j);
    }
    float sum = 0.0f;
#pragma unroll
    for (u32 j = 0; j < PARTIAL; ++j) sum = add(sum, partial[j]);
    return sum;
}

// The maximum of a row, and the sum of the exponentials of the differences from it.
struct Peak {
    float max, sum;
};

// One thread computes a row: write(i, softmax of element i), or its logarithm. `from(i)` is read
// three times, the last time before write(i), so both may be the same place.
template <class From, class Write>
DEVICE Peak softmax_row(u32 width, From from, Write write, bool logarithm) {
    float max = from_bits(0xff800000u);
    for (u32 i = 0; i < width; ++i) {
        float x = from(i);
        max = x <= max ? max : x;
    }
    float sum =
        sum_by_16(width, [&](float sum, u32 i) { return add(sum, exp_(sub(from(i), max))); });
    float ln = log_(sum);
    for (u32 i = 0; i < width; ++i) {
        float x = sub(from(i), max);
        write(i, logarithm ? sub(x, ln) : div_(exp_(x), sum));
    }
    return Peak{max, sum};
}

// The inner product of two rows.
template <class Left, class Right> DEVICE float dot_rows(u32 width, Left left, Right right) {
    return sum_by_16(width, [&](float sum, u32 i) { return fma_(left(i), right(i), sum); });
}

// One thread computes a row: write(i, element i divided by the root of the mean square), after the
// mean is subtracted if `centred`.
template <class From, class Write>
DEVICE void norm_row(u32 width, From from, Write write, float epsilon, bool centred) {
    float mean = 0.0f;
    if (centred) {
        mean = sum_by_16(width, [&](float sum, u32 i) { return add(sum, from(i)); });
        mean = div_(mean, (float)width);
    }
    auto at = [&](u32 i) { return centred ? sub(from(i), mean) : from(i); };
    float root = sqrt_(add(div_(dot_rows(width, at, at), (float)width), epsilon));
    for (u32 i = 0; i < width; ++i) write(i, div_(at(i), root));
}

// The inner products of the rows of two matrices.
CALLED void dot(Block block, Job j, Rows left, Rows right, u32 columns, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        const float* a = left.row(j, r) + u * columns;
        const float* b = right.row(j, r) + u * columns;
        put(to.row(r) + u, dot_rows(columns, [&](u32 i) { return fresh(a + i); },
                                    [&](u32 i) { return fresh(b + i); }));
    });
}

// The sums of the rows of a matrix.
CALLED void fold(Block block, Job j, Rows from, u32 columns, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        const float* row = from.row(j, r) + u * columns;
        auto add_to = [&](float sum, u32 i) { return add(sum, fresh(row + i)); };
        put(to.row(r) + u, sum_by_16(columns, add_to));
    });
}

// The quotient of a float and the number of the call's values at a port.
CALLED float share_of(Job j, u32 operand, u32 r, float x) {
    return div_(x, (float)Values(j, operand, j.first + r).count);
}

// Divides columns by the number of the call's values at a port.
CALLED void share(Block block, Job j, Rows from, u32 operand, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        put(to.row(r) + u, share_of(j, operand, r, fresh(from.row(j, r) + u)));
    });
}

// The number of the call's values at a port that have the same element, from column `field` on.
CALLED void ties(Block block, Job j, Rows from, u32 operand, u32 field, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        Values values(j, operand, j.first + r);
        float like = fresh(from.row(j, r) + u), count = 0.0f;
        for (u32 v = 0; v < values.count; ++v)
            count = add(count, fresh(j.arena + values.rows[v] + field + u) == like ? 1.0f : 0.0f);
        put(to.row(r) + u, count);
    });
}

// 1 in the column that is the start of an operand's row, else 0.
CALLED void one_hot(Block block, Job j, u32 index, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        put(to.row(r) + u, start(j, index, r) == u ? 1.0f : 0.0f);
    });
}

// Normalizes `rows` rows of `width` elements for each call; a thread runs a call.
CALLED void normalize(Block block, Job j, Rows from, u32 by, float epsilon, u32 rows, u32 width,
                      Own to) {
    each_unit(block, j, 1, [&](u32 r, u32) {
        const float* x = from.row(j, r);
        float* y = to.row(r);
#pragma unroll 1
        for (u32 row = 0; row < rows; ++row, x += width, y += width) {
            auto read = [&](u32 i) { return fresh(x + i); };
            auto write = [&](u32 i, float value) { put(y + i, value); };
            if (by <= LOG_SOFTMAX) softmax_row(width, read, write, by == LOG_SOFTMAX);
            else norm_row(width, read, write, epsilon, by == LAYER_NORM);
        }
    });
}

// `sum` plus left(k) · right(k) for k in 0..depth, as one chain of fused multiply-adds.
template <class Left, class Right>
DEVICE float chain(u32 depth, Left left, Right right, float sum = 0.0f) {
#pragma unroll 4
    for (u32 k = 0; k < depth; ++k) sum = fma_(left(k), right(k), sum);
    return sum;
}

// Element u of a product of two values, whose right side consists of pieces with n columns: the
// terms before..before + depth, of the piece `right`. The chain of later pieces begins with the
// result of earlier ones; after the last one comes the bias, unless it is a null pointer.
CALLED void multiply_values(Block block, Job j, Rows left, u32 k, u32 before, Rows right, u32 depth,
                            u32 n, Rows bias, Own to, u32 units) {
    each_unit(block, j, units, [&](u32 r, u32 u) {
        const float* a = left.row(j, r) + u / n * k + before;
        const float* b = right.row(j, r) + u % n;
        float* sum = to.row(r) + u;
        float chained = chain(depth, [&](u32 i) { return fresh(a + i); },
                              [&](u32 i) { return fresh(b + i * n); }, before > 0 ? *sum : 0.0f);
        if (bias.base != nullptr) chained = add(chained, fresh(bias.row(j, r) + u / n));
        put(sum, chained);
    });
}
