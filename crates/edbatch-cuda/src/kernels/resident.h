// Resident weights: each block loads the weights of its own columns into shared memory when a
// product first needs them, and keeps them until the plan ends.
//
// The host decides their places (`place.rs`), which are the same for all blocks of a team.
#pragma once
#include "product.h"

// The place of weights that are not resident.
enum : u32 { NOT_RESIDENT = 0xffffffffu };

// Packed weights [⌈depth / 4⌉][columns][4] of a block's columns, in its shared memory.
struct Resident {
    const float* weights;
    u32 columns;

    DEVICE const float* fours(u32 k, u32 q, u32) const {
        return weights + (k / 4 * columns + q) * 4;
    }
    DEVICE float4 four(const float* fours, u32 k) const { return load4(fours + k * columns); }
};

// Returns the resident weights of product `number`, whose place is entry `entry` of the table, or
// null if they are not resident. Loads them on the first call. All threads must call it.
template <class Column>
DEVICE const float* resident(Block& block, u32 number, u32 entry, u32 depth, Streamed from,
                         u32 columns, Column column) {
    u32 at = block.places[entry];
    if (at == NOT_RESIDENT) return nullptr;
    float* own = block.shared + SHARED + at;
    if (!(block.resident >> number & 1)) {
        block.resident |= (u64)1 << number;
        block.superstep([&](u32 t) {
            u32 fours = (depth + 3) / 4 * columns;
            for (u32 i = t; i < fours; i += THREADS) {
                const float* four = from.fours(i / columns * 4, 0, column(i % columns));
                store4(own + 4 * i, constant4(four));
            }
        });
    }
    return own;
}
