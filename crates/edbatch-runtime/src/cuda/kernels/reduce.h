// Reductions of any number of rows, an element at a time: those of `kernels/reduce.rs`, left to
// right. `at(i)` is the element of the i-th row. A lone row's is copied.
#pragma once
#include "block.h"

// 0 of no row.
template <class At> DEVICE float reduce_sum(u32 count, At at) {
    if (count == 0) return 0.0f;
    float sum = at(0);
    for (u32 i = 1; i < count; ++i) sum = add(sum, at(i));
    return sum;
}

// 0 of no row.
template <class At> DEVICE float reduce_mean(u32 count, At at) {
    float sum = reduce_sum(count, at);
    return count > 1 ? div_(sum, (float)count) : sum;
}

// -∞ of no row, NaN where one is.
template <class At> DEVICE float reduce_max(u32 count, At at) {
    if (count == 0) return from_bits(0xff800000u);
    float max = at(0);
    for (u32 i = 1; i < count; ++i) {
        float x = at(i);
        // Of zeros of both signs the last.
        max = max != max || max > x ? max : x;
    }
    return max;
}
