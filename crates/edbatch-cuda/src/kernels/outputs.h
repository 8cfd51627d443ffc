// The argmax of a row.
#pragma once
#include "block.h"

// The argmax of from(i), i in 0..width, as `arg_max` of `edbatch-runtime` defines it: the lowest
// index of the largest element, ignoring NaN; the last index if all are NaN; 0 if width is 0.
// Thread 0 calls write(index, finite), where finite is 1 if all elements are finite, else 0. Uses
// shared memory; all threads must call it.
template <class From, class Write>
DEVICE void arg_max(const Block& block, From from, u32 width, Write write) {
    constexpr u32 NONE = 0xffffffffu;
    float* values = block.shared();
    float* indices = block.shared() + THREADS;
    float* finites = block.shared() + 2 * THREADS;
    static_assert(3 * THREADS <= ROWS, "a float, an index and a flag a thread");
    block.superstep([&](u32 t) {
        float best = from_bits(0xff800000u);
        u32 index = NONE, finite = 1;
        for (u32 i = t; i < width; i += THREADS) {
            float x = from(i);
            if ((bits(x) & 0x7f800000u) == 0x7f800000u) finite = 0;
            // The comparison of indices lets an element of -∞ replace NONE.
            if (x > best || (x == best && i < index)) best = x, index = i;
        }
        values[t] = best;
        indices[t] = from_bits(index);
        finites[t] = from_bits(finite);
    });
#pragma unroll 1
    for (u32 span = THREADS / 2; span > 0; span /= 2) {
        block.superstep([&](u32 t) {
            if (t >= span) return;
            finites[t] = from_bits(bits(finites[t]) & bits(finites[t + span]));
            float other = values[t + span];
            bool earlier = bits(indices[t + span]) < bits(indices[t]);
            if (other > values[t] || (other == values[t] && earlier)) {
                values[t] = other;
                indices[t] = indices[t + span];
            }
        });
    }
    block.superstep([&](u32 t) {
        u32 index = bits(indices[0]);
        if (t > 0) return;
        write(index != NONE ? index : width > 0 ? width - 1 : 0, bits(finites[0]));
    });
}
