// Reductions of any number of rows, from left to right, like `kernels/reduce.rs` of
// `edbatch-runtime`. `at(i)` is the element of row i. A single row is copied.
#pragma once
#include "functions.h"

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
