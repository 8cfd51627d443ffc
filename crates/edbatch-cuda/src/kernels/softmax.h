// Softmax of a row and its logarithm, like `kernels/math.rs` of `edbatch-runtime`.
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
