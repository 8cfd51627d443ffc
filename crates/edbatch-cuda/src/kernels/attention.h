// Attention over the values at a port, like `kernels/attention.rs` of `edbatch-runtime`.
#pragma once
#include "normalize.h"

// Computes one head of one call with all threads of a block: calls write(c, the sum of value(j, c)
// over the `count` values, weighted by the softmax of score(j)) for c in 0..columns. `written(c)`
// reads what the same thread wrote. Scores are computed in runs that fit in shared memory: first
// for their maximum, then for the exponentials.
template <class Score, class Value, class Written, class Write>
DEVICE void attend(Block& block, u32 count, u32 columns, Score score, Value value,
                   Written written, Write write) {
    constexpr u32 RUN = SHARED - 2;
    float* weights = block.shared;
    float* max = block.shared + RUN;
    float* sum = block.shared + RUN + 1;
    for (u32 first = 0; first < count; first += RUN) {
        u32 run = count - first < RUN ? count - first : RUN;
        block.superstep([&](u32 t) {
            for (u32 j = t; j < run; j += THREADS) weights[j] = score(first + j);
        });
        block.superstep([&](u32 t) {
            if (t != 0) return;
            float most = first == 0 ? from_bits(0xff800000u) : *max;
            for (u32 j = 0; j < run; ++j) most = weights[j] <= most ? most : weights[j];
            *max = most;
        });
    }
    for (u32 first = 0; first < count; first += RUN) {
        u32 run = count - first < RUN ? count - first : RUN;
        bool last = first + run == count;
        block.superstep([&](u32 t) {
            for (u32 j = t; j < run; j += THREADS)
                weights[j] = exp_(sub(score(first + j), *max));
        });
        block.superstep([&](u32 t) {
            if (t != 0) return;
            float all = first == 0 ? 0.0f : *sum;
            for (u32 j = 0; j < run; ++j) all = add(all, weights[j]);
            *sum = all;
        });
        block.superstep([&](u32 t) {
            for (u32 c = t; c < columns; c += THREADS) {
                float chain = first == 0 ? 0.0f : written(c);
                for (u32 j = 0; j < run; ++j) chain = fma_(weights[j], value(first + j, c), chain);
                write(c, last ? div_(chain, *sum) : chain);
            }
        });
    }
}
