// What leaves the device: elements, and the index of the greatest one.
#pragma once
#include "block.h"

// A block copies a range: write(i, from(i)) for i in 0..count, in one superstep.
template <class From, class Write>
DEVICE void copy(Block& block, u32 count, From from, Write write) {
    block.superstep([&](u32 t) {
        for (u32 i = t; i < count; i += THREADS) write(i, from(i));
    });
}

// The index of the greatest of from(i), i in 0..width, as `kernels/arg_max.rs` has it: of equal
// ones the lowest; NaN is never greatest, unless there is nothing else: then it is the last index;
// 0 for no element. Thread 0 calls write(index). Takes shared memory; all threads must call it.
template <class From, class Write>
DEVICE void arg_max(Block& block, From from, u32 width, Write write) {
    constexpr u32 NONE = 0xffffffffu;
    float* values = block.shared;
    float* indices = block.shared + THREADS;
    static_assert(2 * THREADS <= SHARED, "a float and an index a thread");
    block.superstep([&](u32 t) {
        float best = from_bits(0xff800000u);
        u32 index = NONE;
        for (u32 i = t; i < width; i += THREADS) {
            float x = from(i);
            // -∞ is an element like others: it wins over none.
            if (x > best || (x == best && i < index)) best = x, index = i;
        }
        values[t] = best;
        indices[t] = from_bits(index);
    });
    for (u32 span = THREADS / 2; span > 0; span /= 2) {
        block.superstep([&](u32 t) {
            if (t >= span) return;
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
        if (t == 0) write(index != NONE ? index : width > 0 ? width - 1 : 0);
    });
}
