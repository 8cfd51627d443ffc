// Softmax of a row, its logarithm, norms and inner products, like `kernels/math.rs` and
// `kernels/dot.rs` of `edbatch-runtime`.
#pragma once
#include "functions.h"

// One thread computes a row: write(i, softmax of element i), or its logarithm. `from(i)` is read
// three times, the last time before write(i), so both may be the same place.
template <class From, class Write>
DEVICE void softmax_row(u32 width, From from, Write write, bool logarithm) {
    float max = from_bits(0xff800000u);
    for (u32 i = 0; i < width; ++i) {
        float x = from(i);
        max = x <= max ? max : x;
    }
    // Element i is added to partial sum i mod 16, as on CPUs with up to 16 floats per vector. The
    // inner loop has a fixed number of iterations, so the sums are in registers.
    constexpr u32 PARTIAL = 16;
    float partial[PARTIAL];
#pragma unroll
    for (u32 j = 0; j < PARTIAL; ++j) partial[j] = 0.0f;
    for (u32 i = 0; i < width; i += PARTIAL) {
#pragma unroll
        for (u32 j = 0; j < PARTIAL; ++j)
            if (i + j < width) partial[j] = add(partial[j], exp_(sub(from(i + j), max)));
    }
    float sum = 0.0f;
#pragma unroll
    for (u32 j = 0; j < PARTIAL; ++j) sum = add(sum, partial[j]);
    float ln = log_(sum);
    for (u32 i = 0; i < width; ++i) {
        float x = sub(from(i), max);
        write(i, logarithm ? sub(x, ln) : div_(exp_(x), sum));
    }
}

// The sum of `width` terms: term i is added to partial sum i mod 16, as above. `add_to(sum, i)`
// returns the partial sum with term i.
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
