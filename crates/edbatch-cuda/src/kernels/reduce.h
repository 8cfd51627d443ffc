// Reductions of any number of rows, from left to right, like `kernels/reduce.rs` of
// `edbatch-runtime`. `at(i)` is the element of row i. A single row is copied.
#pragma once
#include "block.h"

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
