// Resident weights: each block loads the weights of its own columns into shared memory when a
// product first needs them, and keeps them until the plan ends.
//
// The host decides their places (`place.rs`), which are the same for all blocks of a team.
#pragma once
#include "product.h"

// The place of weights that are not resident.
enum : u32 { NOT_RESIDENT = 0xffffffffu };

// Returns true if the weights of product `number`, whose place is `at`, are resident, and loads
// them on the first call: [⌈depth / 4⌉][columns][4], where from(q) is column q of the block. All
// threads must call it.
template <class From>
DEVICE bool resident(Block& block, u32 number, u32 at, u32 depth, u32 columns, From from) {
    if (at == NOT_RESIDENT) return false;
    if (block.resident >> number & 1) return true;
    block.resident |= (u64)1 << number;
    float* own = block.shared + SHARED + at;
    block.superstep([&](u32 t) {
        u32 fours = (depth + 3) / 4 * columns;
        for (u32 i = t; i < fours; i += THREADS) {
            Column column = from(i % columns);
            store4(own + 4 * i, constant4(column.fours + i / columns * column.step));
        }
    });
    return true;
}
