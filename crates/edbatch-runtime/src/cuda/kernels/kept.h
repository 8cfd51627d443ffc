// Weights that a team's blocks keep in shared memory while they carry a plan out: each block its
// own columns, from the first product that needs them on.
//
// Where they lie is a table of the host's (`place.rs`), the same for all blocks of a team.
#pragma once
#include "product.h"

// In the table, of weights that are not kept.
enum : u32 { NOWHERE = 0xffffffffu };

// Packed weights [⌈depth / 4⌉][columns][4] of a block's columns alone, in its shared memory.
struct Kept {
    const float* weights;
    u32 columns;

    DEVICE const float* fours(u32 k, u32 q, u32) const {
        return weights + (k / 4 * columns + q) * 4;
    }
    DEVICE float4 four(const float* fours, u32 k) const { return load4(fours + k * columns); }
};

// A block's columns of the weights of product `number`, which is the `entry`-th of the table; they
// are brought in if they are not there yet. Null if they are not kept. All threads must call it.
template <class Column>
DEVICE const float* kept(Block& block, u32 number, u32 entry, u32 depth, Streamed from,
                         u32 columns, Column column) {
    u32 at = block.places[entry];
    if (at == NOWHERE) return nullptr;
    float* own = block.shared + SHARED + at;
    if (!(block.kept >> number & 1)) {
        block.kept |= (u64)1 << number;
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
